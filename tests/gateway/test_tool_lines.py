from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.gateway.tool_lines import (
    LONGEST_SENTENCE,
    first_sentence,
    one_line,
    signature,
    type_name,
)
from pegboard.model import Tool


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        ({}, "t()"),
        ({"type": "string"}, "t(a?: string)"),
        ({"type": ["integer", "null"]}, "t(a?: integer)"),
        ({"enum": ["x", 1, None]}, 't(a?: "x"|1|null)'),
        ({"const": True}, "t(a?: true)"),
        ({"type": "array", "items": {"type": "number"}}, "t(a?: number[])"),
        ({"type": "array"}, "t(a?: any[])"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "t(a?: string)"),
        (
            {"type": "array", "items": {"oneOf": [{"type": "string"}, {"type": "object"}]}},
            "t(a?: (string|object)[])",
        ),
        ({"$ref": "#/$defs/Kind"}, 't(a?: "small"|"large")'),
        ({"$ref": "#/$defs/Nothing"}, "t(a?: any)"),
        ({"$ref": "#/$defs/Self"}, "t(a?: any)"),
        ({"$ref": "#/definitions/Old"}, "t(a?: integer)"),
        (
            {"anyOf": [{"const": number} for number in range(21)]},
            f"t(a?: {'|'.join(map(str, range(20)))}|…)",
        ),
        (
            {"anyOf": [{"const": number} for number in range(20)]},
            f"t(a?: {'|'.join(map(str, range(20)))})",
        ),
        (True, "t(a?: any)"),
        ({"enum": ["word" * 10, "words" * 10], "type": "string"}, "t(a?: string)"),
    ],
)
def test_types_are_written_in_a_few_letters(schema: Any, written: str) -> None:
    kinds = {"Kind": {"enum": ["small", "large"]}, "Self": {"$ref": "#/$defs/Self"}}
    whole: dict[str, Any] = {"properties": {"a": schema} if schema != {} else {}, "$defs": kinds}
    whole["definitions"] = {"Old": {"type": "integer"}, "Kind": {"type": "null"}}
    assert signature(Tool(name="t", input_schema=whole)) == written


class OnlyLookedUpIn(dict[str, Any]):
    def __iter__(self) -> Iterator[str]:
        pytest.fail("All definitions were gone through.")

    def keys(self) -> Any:
        return iter(self)


@pytest.mark.parametrize("keyword", ["$defs", "definitions"])
def test_a_definition_is_looked_up_without_a_look_at_the_others(keyword: str) -> None:
    root = {keyword: OnlyLookedUpIn(Kind={"type": "string"})}
    assert type_name({"$ref": f"#/{keyword}/Kind"}, root) == "string"


def test_required_parameters_come_first_and_too_many_are_left_out() -> None:
    properties = {f"parameter{number}": {"type": "string"} for number in range(50)}
    schema = {"properties": properties, "required": ["parameter40"]}
    written = signature(Tool(name="t", input_schema=schema))
    assert written.startswith("t(parameter40: string, parameter0?: string")
    assert written.endswith(", …)")
    assert len(written) < 400


def test_of_a_schema_with_countless_parts_only_the_first_are_looked_at() -> None:
    many: Any = {"type": "string"}
    for _ in range(3):
        many = {"anyOf": [many] * 20}
    schema = {"properties": {"a": many, "b": {"type": "integer"}}}
    assert signature(Tool(name="t", input_schema=schema)).endswith("|any, b?: any)")


def test_only_the_beginning_of_a_description_is_looked_at() -> None:
    assert first_sentence(f"Reads{' ' * 400}a file. And more.") == "Reads"


def test_a_description_is_cut_to_its_first_sentence() -> None:
    assert first_sentence("  Reads\na file. And more.") == "Reads"
    assert first_sentence("Reads a file. And more.") == "Reads a file."
    assert first_sentence("读取文件。然后更多。") == "读取文件。"
    assert len(first_sentence("word " * 200)) <= LONGEST_SENTENCE
    assert one_line(Tool(name="t")) == "t()"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=20,
)
KEYWORDS = st.sampled_from(
    ["type", "properties", "required", "anyOf", "oneOf", "enum", "items", "$ref", "$defs", "const"]
)


@given(st.dictionaries(KEYWORDS, JSON))
def test_a_signature_is_written_of_any_schema_whatever(schema: dict[str, Any]) -> None:
    line = one_line(Tool(name="t", description="x", input_schema=schema))
    assert line.startswith("t(")
