"""SchemaForm: a form that says the value of any schema, and stays small whatever the schema is."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pegboard.console.trials.schema_form import FormField, SchemaForm

ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "who": {"type": "string"},
        "count": {"type": "integer", "default": 2},
        "fast": {"type": "boolean"},
        "colour": {"enum": ["red", 7, None]},
        "address": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "zip": {"type": ["string", "null"]}},
            "required": ["zip"],
        },
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "sku": {"type": "string"},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
        "pay": {"$ref": "#/$defs/pay"},
        "any/thing ~\"'<": {},
    },
    "required": ["who"],
    "$defs": {
        "pay": {
            "oneOf": [
                {
                    "type": "object",
                    "properties": {"by": {"const": "card"}, "number": {"type": "string"}},
                    "required": ["by"],
                },
                {"type": "object", "properties": {"by": {"const": "cash"}}, "required": ["by"]},
            ]
        }
    },
}
VALUE: dict[str, Any] = {
    "who": "Ann",
    "count": 3,
    "fast": False,
    "colour": 7,
    "address": {"city": "Oslo", "zip": None},
    "lines": [{"sku": "a", "tags": ["x", "y"]}, {"sku": "b"}],
    "pay": {"by": "cash"},
    "any/thing ~\"'<": [1, {"a": None}],
}


def controls(field: FormField) -> dict[str, str]:
    """Return what a browser sends of a form: its controls by name, also those it hides."""
    if field.kind in ("object", "array", "variant"):
        sent = {field.path: field.value} if field.kind == "variant" else {}
        for it in field.fields:
            sent |= {f"{it.path}/.": ""} if field.kind == "array" else {}
            sent |= controls(it)
        return sent
    return {} if field.kind == "null" else {field.path: field.value}


def field_of(form: SchemaForm, name: str) -> FormField:
    return next(it for it in form.root.fields if it.label == name)


def size(field: FormField) -> int:
    inner = sum(size(it) for it in field.fields)
    return 1 + inner + (0 if field.blank is None else size(field.blank))


def test_a_value_comes_back_from_the_form_that_shows_it() -> None:
    form = SchemaForm(ORDER, given=VALUE)
    sent = controls(form.root)
    assert SchemaForm(ORDER, sent=sent).value() == VALUE
    assert all(name.isascii() and "\n" not in name for name in sent)


@given(
    st.fixed_dictionaries(
        {"who": st.text()},
        optional={
            "count": st.integers(-(2**53), 2**53),
            "fast": st.booleans(),
            "lines": st.lists(
                st.fixed_dictionaries({"sku": st.text(min_size=1)}),
                min_size=1,
                max_size=3,
            ),
            "pay": st.sampled_from([{"by": "card", "number": "1"}, {"by": "cash"}]),
        },
    )
)
def test_any_value_comes_back(value: dict[str, Any]) -> None:
    value = {"count": 2, **value}
    assert SchemaForm(ORDER, sent=controls(SchemaForm(ORDER, given=value).root)).value() == value


def test_an_empty_form_says_only_defaults_and_what_is_required() -> None:
    form = SchemaForm(ORDER)
    assert field_of(form, "count").value == "2"
    assert form.value() == {"who": "", "count": 2}


def test_items_are_added_and_removed_without_javascript() -> None:
    sent = controls(SchemaForm(ORDER, given=VALUE).root)
    more = SchemaForm(ORDER, sent=sent, add="f/lines/1/tags")
    tags = field_of(more, "lines").fields[1].fields[1]
    assert [it.path for it in tags.fields] == ["f/lines/1/tags/0"]
    less = SchemaForm(ORDER, sent=sent, remove="f/lines/0")
    said: Any = less.value()
    assert said["lines"] == [{"sku": "b"}]


def test_items_with_gaps_in_their_numbers_keep_their_order() -> None:
    sent = {f"f/lines/{at}/sku": str(at) for at in (10, 2, 0)}
    said: Any = SchemaForm(ORDER, sent={"f/who": "", **sent}).value()
    assert said["lines"] == [{"sku": "0"}, {"sku": "2"}, {"sku": "10"}]


def test_a_field_that_is_wrong_is_named() -> None:
    form = SchemaForm(ORDER, sent={"f/who": "a", "f/count": "two", "f/address/city": "b"})
    assert form.value() == {"who": "a", "address": {"city": "b", "zip": None}}
    assert list(form.problems) == ["f/count"]


def test_the_form_of_a_hostile_schema_stays_small() -> None:
    wide = {"properties": {str(it): {"$ref": "#"} for it in range(3000)}}
    loop = {"properties": {"a": {"$ref": "#/properties/a"}}}
    tree = {"anyOf": [{"$ref": "#"}] * 12, "properties": {"x": {"$ref": "#"}}}
    alls = {"allOf": [{"$ref": "#"}] * 16}
    odd = {"properties": {"a": 1, "b": {"type": 5, "enum": {}}, "c": {"anyOf": "x", "items": []}}}
    for schema in (wide, loop, tree, alls, odd, {"type": "array", "items": {}}, {"$ref": "#"}):
        form = SchemaForm(schema)
        assert size(form.root) <= 700
        assert isinstance(form.value(), dict)


def test_hidden_characters_of_a_schema_are_seen_and_kept() -> None:
    hidden = "a\u202eb\u200b"
    kinds = {"text": {"type": "string"}, "choice": {"enum": [hidden, "plain"]}}
    schema = {"properties": {name: {**it, "default": hidden} for name, it in kinds.items()}}
    sent = controls(SchemaForm(schema).root)
    assert all(it.isascii() for it in sent.values())
    assert SchemaForm(schema, sent=sent).value() == dict.fromkeys(kinds, hidden)


def test_what_is_too_much_for_controls_is_edited_as_json() -> None:
    deep: dict[str, Any] = {"type": "string"}
    value: Any = "x"
    for _ in range(12):
        deep = {
            "type": "object",
            "properties": {"in": deep, "list": {"type": "array", "items": {}}},
        }
        value = {"in": value, "list": list(range(150))}
    sent = controls(SchemaForm(deep, given=value).root)
    assert SchemaForm(deep, sent=sent).value() == value


def test_only_so_much_of_a_hostile_schema_is_followed() -> None:
    long = "/a" * 600
    schema = {"properties": {"x": {"$ref": f"#{long}"}}}
    inner: dict[str, Any] = {"type": "string", "description": "deep"}
    for _ in range(600):
        inner = {"a": inner}
    [field] = SchemaForm({**schema, **inner}).root.fields
    assert field.description == ""
    parts = [{"properties": {f"p{number}": {}}} for number in range(150)]
    assert len(SchemaForm({"allOf": parts}).root.fields) == 100
