"""What is typed becomes what a schema asks for."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.cli.terminal.arguments import (
    NotOfTypeError,
    choices_of,
    json_form,
    kinds_of,
    part_of,
    typed,
)
from pegboard.cli.terminal.prompts import fill_in

ROOT = {"$defs": {"size": {"enum": ["s", "m"]}, "loop": {"$ref": "#/$defs/loop"}}}


@pytest.mark.parametrize(
    ("text", "schema", "value"),
    [
        ("5", {"type": "string"}, "5"),
        ("-5", {"type": "integer"}, -5),
        ("5", {"type": "number"}, 5),
        (".5e1", {"type": "number"}, 5.0),
        ("off", {"type": "boolean"}, False),
        ("1", {"type": "boolean"}, True),
        ("null", {"type": ["integer", "null"]}, None),
        ("null", {"type": ["string", "null"]}, "null"),
        ("7", {"anyOf": [{"type": "string"}, {"type": "integer"}]}, 7),
        ("a", {"type": "array", "items": {"type": "string"}}, ["a"]),
        ('["a"]', {"type": "array"}, ["a"]),
        ('{"a": 1}', {"type": "object"}, {"a": 1}),
        ("m", {"$ref": "#/$defs/size"}, "m"),
        ("3", {"enum": [3, "x"]}, 3),
        ("b", {"oneOf": [{"const": "a", "title": "A"}, {"const": "b"}]}, "b"),
        ('{"a": [1]}', {}, {"a": [1]}),
        ("plain words", {}, "plain words"),
        ("x", {"$ref": "#/$defs/loop"}, "x"),
        ("x", True, "x"),
    ],
)
def test_a_text_is_read_as_the_schema_says(text: str, schema: Any, value: object) -> None:
    found = typed(text, schema, ROOT)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "schema", "form"),
    [
        ("1,2, 3", {"type": "array", "items": {"type": "number"}}, "[1,2,3]"),
        ("s,m", {"type": "array", "items": {"$ref": "#/$defs/size"}}, '["s","m"]'),
        ("xl", {"type": "array", "items": {"$ref": "#/$defs/size"}}, '["s"]'),
        ("one", {"anyOf": [{"type": "array", "items": {"type": "integer"}}]}, "[1]"),
        ("9," * 500, {"type": "array", "items": {"type": "boolean"}}, "[true]"),
        ("Oslo", {"type": "object", "properties": {"city": {"type": "string"}}}, '{"city":"text"}'),
        ("Oslo", {"type": "object"}, '{"key":"text"}'),
        ("x", {"type": "integer"}, None),
    ],
)
def test_lists_and_objects_are_shown_as_they_are_written(
    text: str, schema: Any, form: str | None
) -> None:
    assert json_form(text, schema, ROOT) == form
    assert form is None or typed(form, schema, ROOT) is not None


@pytest.mark.parametrize(
    ("text", "schema"),
    [
        ("x", {"type": "integer"}),
        ("1.5", {"type": "integer"}),
        ("9" * 5000, {"type": "integer"}),
        ("1e999", {"type": "number"}),
        ("nan", {"type": "number"}),
        ("maybe", {"type": "boolean"}),
        ("{", {"type": "object"}),
        ("[1", {"type": "array"}),
        ("x", {"type": "array", "items": {"type": "integer"}}),
        ("l", {"$ref": "#/$defs/size"}),
        ("٣", {"type": "integer"}),
    ],
)
def test_what_stands_for_no_such_value_is_refused(text: str, schema: Any) -> None:
    with pytest.raises(NotOfTypeError):
        typed(text, schema, ROOT)


@given(st.text(), st.sampled_from(["string", "integer", "number", "boolean", "array", "object"]))
def test_whatever_is_typed_is_of_the_type_or_refused(text: str, kind: str) -> None:
    kinds = {"string": str, "integer": int, "number": (int, float), "boolean": bool}
    try:
        found = typed(text, {"type": kind}, {})
    except NotOfTypeError:
        return
    assert isinstance(found, kinds.get(kind, list if kind == "array" else dict))


def test_properties_are_found_behind_references_and_alternatives() -> None:
    schema = {"anyOf": [{"type": "null"}, {"properties": {"a": {"type": "integer"}}}]}
    assert part_of(schema, "a", {}) == {"type": "integer"}
    assert part_of({"additionalProperties": {"type": "boolean"}}, "b", {}) == {"type": "boolean"}
    assert part_of({}, "b", {}) == {}
    assert kinds_of({"type": ["string", 5]}, {}) == {"string"}
    assert choices_of({"anyOf": [{"enum": ["a"]}, {"type": "null"}]}, {}) == ["a"]


async def test_a_form_takes_defaults_lists_and_what_may_be_left_out() -> None:
    schema = {
        "properties": {
            "name": {"type": "string"},
            "size": {"enum": ["s", "m"], "default": "m"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "note": {"type": "string"},
        }
    }
    lines = iter(["", "Ada", "", "a, b,", ""])
    asked: list[str] = []

    async def read(words: str) -> str:
        asked.append(words)
        return next(lines)

    names = list(schema["properties"])
    given = await fill_in(names, schema, required=["name", "tags"], read=read)
    assert given == {"name": "Ada", "size": "m", "tags": ["a", "b"]}
    assert 'size (one of s, m; Enter for "m"): ' in asked


def test_a_definition_that_leads_to_itself_many_times_is_read_once() -> None:
    many = {"anyOf": [{"$ref": "#/$defs/r"}] * 30}
    root = {"$defs": {"r": many}}
    assert kinds_of(many, root) == frozenset()
    assert choices_of(many, root) is None
    assert part_of(many, "a", root) == {}
    assert typed("5", {"$ref": "#/$defs/r"}, root) == 5


def test_lists_of_lists_for_ever_take_no_text() -> None:
    root = {"$defs": {"r": {"type": "array", "items": {"$ref": "#/$defs/r"}}}}
    with pytest.raises(NotOfTypeError):
        typed("a", {"$ref": "#/$defs/r"}, root)


def test_of_very_many_variants_the_first_ones_count() -> None:
    schema = {"anyOf": [*[{"type": "string"}] * 1000, {"type": "integer"}]}
    assert kinds_of(schema, {}) == {"string"}
