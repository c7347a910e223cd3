from typing import Any

import msgspec
import pytest

from pegboard import Annotations, InvalidToolError, Tool


def test_a_tool_is_frozen_and_keeps_its_own_copy_of_the_schema() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    tool = Tool(name="t", input_schema=schema, tags=("a", "b"))
    schema["properties"]["late"] = {}
    assert tool.input_schema == {"type": "object", "properties": {}}
    with pytest.raises(AttributeError):
        tool.name = "other"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TypeError):
        tool.input_schema["properties"]["x"] = 1


def test_a_tool_survives_json() -> None:
    tool = Tool(
        name="t",
        description="d",
        input_schema={"type": "object"},
        output_schema={"type": "integer"},
        annotations=Annotations(read_only=True, title="T"),
        server="s",
        tags=("x",),
        category="c",
        defer_loading=True,
    )
    assert msgspec.json.decode(msgspec.json.encode(tool), type=Tool) == tool


def test_annotations_are_written_as_the_protocol_names_them() -> None:
    hints = Annotations(read_only=True, destructive=False, idempotent=True, open_world=False)
    assert msgspec.to_builtins(hints) == {
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
    }


@pytest.mark.covers("X-SAGE-9")
@pytest.mark.parametrize("name", ["", "   ", None, 3, b"x", "a\x00b", "a\nb", "\ud800", "x" * 513])
def test_a_name_has_to_be_a_printable_string(name: Any) -> None:
    with pytest.raises(InvalidToolError):
        Tool(name=name)


@pytest.mark.parametrize(
    "fields",
    [
        {"description": 3},
        {"input_schema": []},
        {"input_schema": "object"},
        {"output_schema": 1},
        {"tags": "abc"},
        {"tags": [1]},
        {"annotations": {"idempotent": True}},
        {"server": 3},
        {"category": 3},
        {"defer_loading": "yes"},
    ],
)
def test_a_broken_definition_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidToolError, match="'t'"):
        Tool(name="t", **fields)


def test_a_schema_nested_ten_thousand_levels_deep_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(10_000):
        schema = {"properties": {"x": schema}}
    with pytest.raises(InvalidToolError, match="too deeply"):
        Tool(name="t", input_schema=schema)
