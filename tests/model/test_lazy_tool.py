import copy
import pickle

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard import InvalidToolError, Tool
from pegboard.model import LazyTool
from pegboard.storage.encoding import decode_tool, encode_tool

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
EAGER = Tool(name="x", description="d", input_schema=SCHEMA, output_schema=SCHEMA, tags=("t",))

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)
tools = st.builds(
    Tool,
    name=st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=40),
    description=st.text(),
    input_schema=st.dictionaries(st.text(), json_values, max_size=4),
    output_schema=st.none() | st.dictionaries(st.text(), json_values, max_size=4),
    server=st.none() | st.text(),
    category=st.none() | st.text(),
    tags=st.lists(st.text(), max_size=3).map(tuple),
    defer_loading=st.booleans(),
)


def lazy() -> Tool:
    return decode_tool(encode_tool(EAGER))


@given(tools)
def test_what_is_read_from_a_store_is_equal_to_what_was_stored(tool: Tool) -> None:
    again = decode_tool(encode_tool(tool))
    assert isinstance(again, LazyTool)
    assert again == tool
    assert tool == again
    assert hash(again) == hash(tool)
    assert encode_tool(again) == encode_tool(tool)


def test_it_prints_copies_pickles_and_replaces_like_a_tool() -> None:
    assert repr(lazy()) == repr(EAGER)
    assert pickle.loads(pickle.dumps(lazy())) == EAGER
    assert copy.deepcopy(lazy()) == EAGER
    assert msgspec.structs.replace(lazy(), name="y").input_schema == SCHEMA
    assert msgspec.json.encode(lazy()) == msgspec.json.encode(EAGER)


def test_its_schemas_cannot_be_changed() -> None:
    tool = lazy()
    with pytest.raises(TypeError, match="frozen"):
        tool.input_schema["type"] = "array"  # pyright: ignore[reportGeneralTypeIssues, reportIndexIssue, reportAttributeAccessIssue]
    with pytest.raises(AttributeError):
        tool.input_schema = {}  # pyright: ignore[reportGeneralTypeIssues, reportIndexIssue, reportAttributeAccessIssue]
    assert tool.input_schema is tool.input_schema


def test_it_differs_from_what_is_different() -> None:
    assert lazy() != Tool(name="x")
    assert lazy() != "x"


@pytest.mark.parametrize(
    "schema",
    [
        {"default": float("nan")},
        {"default": float("inf")},
        {"enum": [b"bytes"]},
        {1: "a number as a key"},
        {"title": "half a letter: \ud800"},
    ],
)
def test_what_json_cannot_hold_exactly_is_refused(schema: dict[str, object]) -> None:
    with pytest.raises(InvalidToolError, match="x"):
        encode_tool(Tool(name="x", input_schema=schema))


def test_a_schema_that_is_nested_too_deeply_is_refused() -> None:
    deep: dict[str, object] = {}
    for _ in range(100_000):
        deep = {"items": deep}
    with pytest.raises(InvalidToolError):
        encode_tool(msgspec.structs.replace(EAGER, input_schema=deep))
