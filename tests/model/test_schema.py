import math
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard import InvalidArgumentsError, InvalidToolError, Violation
from pegboard.model import ArgumentSchema
from pegboard.model.schema.schema import check_output_schema

ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "customer": {"type": "string", "minLength": 2},
        "kind": {"enum": ["new", "used"]},
        "count": {"type": "integer", "minimum": 1},
        "when": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "items": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"price": {"type": "number", "exclusiveMinimum": 0}},
                "required": ["price"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["customer", "count"],
    "additionalProperties": False,
}


def violations(schema: dict[str, Any], arguments: Any) -> list[Violation]:
    try:
        ArgumentSchema(schema, tool="t").check(arguments, tool="t")
    except InvalidArgumentsError as error:
        return list(error.violations)
    return []


@pytest.mark.covers("R-SAGE-33")
def test_every_violation_is_listed_with_its_path_in_words() -> None:
    found = violations(
        ORDER,
        {
            "customer": "x",
            "kind": "old",
            "when": 3,
            "items": [{"price": 1}, {"price": 0, "prise": 2}, {}],
            "cuont": 1,
        },
    )
    assert sorted(found) == sorted(
        [
            Violation("", "the required argument `count` is missing"),
            Violation("", "unknown argument `cuont`; did you mean `count`?"),
            Violation("customer", 'must have at least 2 characters, got string "x"'),
            Violation("kind", 'must be one of "new", "used", got string "old"'),
            Violation("when", "expected string or null, got 3"),
            Violation("items[1].price", "must be greater than 0, got 0"),
            Violation("items[1]", "unknown argument `prise`; did you mean `price`?"),
            Violation("items[2]", "the required argument `price` is missing"),
        ]
    )


@pytest.mark.parametrize(
    ("schema", "value", "message"),
    [
        ({"type": "integer"}, "1", 'expected integer, got string "1"'),
        ({"type": "integer"}, True, "expected integer, got true"),
        ({"type": "integer"}, None, "expected integer, got null"),
        ({"type": ["integer", "null"]}, [], "expected null or integer, got array of 0"),
        ({"const": 4}, 5, "must be 4, got 5"),
        ({"maximum": 4}, 5, "must be at most 4, got 5"),
        ({"minimum": 4}, 3, "must be at least 4, got 3"),
        ({"exclusiveMaximum": 4}, 4, "must be less than 4, got 4"),
        ({"multipleOf": 2}, 3, "must be a multiple of 2, got 3"),
        ({"maxLength": 1}, "ab", 'must have at most 1 characters, got string "ab"'),
        ({"pattern": "^a"}, "b", 'must match the pattern `^a`, got string "b"'),
        ({"minItems": 1}, [], "must have at least 1 items, got array of 0"),
        ({"maxItems": 0}, [1], "must have at most 0 items, got array of 1"),
        ({"uniqueItems": True}, [1, 1], "must not repeat an item"),
        ({"minProperties": 1}, {}, "must have at least 1 members, got object of 0"),
        ({"maxProperties": 0}, {"a": 1}, "must have at most 0 members, got object of 1"),
        ({"contains": {"const": 1}}, [2], "has too few or too many items of the required form"),
        ({"not": {"type": "null"}}, None, "has a form that is not allowed, got null"),
        (False, 1, "is not allowed here"),
        (
            {"oneOf": [{"type": "integer"}, {"type": "number"}]},
            1,
            "fits more than one of the alternatives, exactly one is allowed",
        ),
        (
            {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 1}]},
            "ab",
            'fits none of the alternatives: (`x`: expected integer, got string "ab")'
            ' | (`x`: must have at most 1 characters, got string "ab")',
        ),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "the required argument `b` is missing"),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, "breaks the rule `propertyNames`"),
    ],
)
def test_each_rule_has_words(schema: Any, value: Any, message: str) -> None:
    found = violations({"properties": {"x": schema}}, {"x": value})
    assert [it.path for it in found] == ["x"]
    assert found[0].message.startswith(message)


def test_large_values_are_not_repeated_in_messages() -> None:
    found = violations({"properties": {"x": {"type": "integer"}}}, {"x": "y" * 100_000})
    assert len(str(found[0])) < 200
    assert found[0].message.endswith("… of 100000")
    found = violations({"properties": {"x": {"type": "integer"}}}, {"x": "y" * 10_000_000})
    assert found == [Violation("x", "does not fit its schema")]
    many = {"properties": {"x": {"enum": list(range(1000))}}}
    assert len(str(violations(many, {"x": -1})[0])) < 200


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nonsense"},
        {"properties": 3},
        {"required": "a"},
        {"$ref": "#/$defs/absent"},
        {"properties": {"a": {"pattern": "("}}},
        {"$schema": "http://127.0.0.1:9/meta.json"},
        {"minimum": math.nan},
        {"properties": {"a": ...}},
    ],
    ids=str,
)
def test_what_is_not_a_json_schema_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidToolError, match="input_schema of tool 't'"):
        ArgumentSchema(schema, tool="t")


TREE = {"type": "object", "properties": {"child": {"$ref": "#"}, "n": {"type": "integer"}}}


def test_a_recursive_schema_checks_at_every_depth() -> None:
    assert violations(TREE, {"child": {"child": {"n": 1}}}) == []
    found = violations(TREE, {"child": {"child": {"n": "x"}}})
    assert [it.path for it in found] == ["child.child.n"]


@pytest.mark.parametrize("levels", [10_000, 300_000])
@pytest.mark.parametrize(
    "schema", [TREE, {"type": "object"}, {"properties": {"child": {"enum": [1]}}}]
)
def test_arguments_nested_beyond_reason_are_refused(schema: dict[str, Any], levels: int) -> None:
    arguments: dict[str, Any] = {}
    for _ in range(levels):
        arguments = {"child": arguments}
    assert violations(schema, arguments) == [Violation("", "the arguments are nested too deeply")]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("schema", [{}, {"type": "number"}, {"type": ["number", "null"]}])
def test_numbers_that_json_does_not_have_are_refused(schema: dict[str, Any], value: float) -> None:
    whole = {"type": "object", "properties": {"x": {"items": schema}}}
    found = violations(whole, {"y": None, "x": [1, value]})
    assert found == [Violation("x[1]", "must be a finite number; JSON has no NaN or infinity")]


def test_a_nan_is_named_in_a_flat_schema_too() -> None:
    schema = {
        "type": "object",
        "properties": {"x": {"type": "number"}},
        "additionalProperties": False,
    }
    found = violations(schema, {"x": math.nan})
    assert [it.path for it in found] == ["x"]
    assert "finite" in found[0].message


@pytest.mark.parametrize("value", [..., 1j, range(3), "\ud800"], ids=ascii)
def test_values_that_are_not_json_are_refused(value: Any) -> None:
    found = violations({"type": "object", "required": []}, {"x": [1, value]})
    assert [it.path for it in found] == ["x[1]"]
    assert "JSON" in found[0].message


def test_only_so_many_violations_are_listed() -> None:
    schema = {"properties": {"x": {"items": {"type": "integer"}}}}
    found = violations(schema, {"x": ["bad"] * 1_000})
    assert len(found) == 101
    assert found[-1] == Violation("", "and more")
    many = violations(schema, {"x": ["bad"] * 1_000_000, "y": 1})
    assert many == [Violation("x", "does not fit its schema")]
    closed = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
    unknown = violations(closed, {f"a{number}": 1 for number in range(20_000)})
    assert len(unknown) == 101
    assert sum(len(it.message) for it in unknown) < 20_000


def test_alternatives_that_refer_to_themselves_are_refused_without_a_long_account() -> None:
    branch = {"type": "object", "required": ["op", "l", "r"]}
    operands = {"l": {"$ref": "#/$defs/e"}, "r": {"$ref": "#/$defs/e"}}
    branches = [{**branch, "properties": {"op": {"const": n}, **operands}} for n in range(5)]
    schema = {
        "type": "object",
        "properties": {"e": {"$ref": "#/$defs/e"}, "n": {"type": "integer"}},
        "required": ["e", "n"],
        "$defs": {"e": {"anyOf": [*branches, {"type": "integer"}]}},
    }
    tree: Any = "bad"
    for _ in range(12):
        tree = {"op": "zz", "l": tree, "r": tree}
    assert violations(schema, {"e": tree}) == [
        Violation("e", "does not fit its schema"),
        Violation("", "the required argument `n` is missing"),
    ]
    shallow = violations(schema, {"e": {"op": "zz", "l": 1, "r": {"op": 9}}, "n": 1})
    assert len(str(shallow)) < 2000


def _multiplying(levels: int, keyword: str, reference: str) -> dict[str, Any]:
    """Definitions that each refer twice to the next."""
    definitions: dict[str, Any] = {
        f"d{level}": {
            "$anchor": f"a{level}",
            keyword: [{"$ref": reference.format(level + 1)} for _ in range(2)],
        }
        for level in range(levels)
    }
    definitions[f"d{levels}"] = {"$anchor": f"a{levels}", "type": "string"}
    properties = {"value": {"$ref": reference.format(0)}}
    return {"type": "object", "properties": properties, "$defs": definitions}


@pytest.mark.parametrize("keyword", ["allOf", "anyOf", "oneOf"])
@pytest.mark.parametrize("reference", ["#/$defs/d{}", "#/%24defs/d{}", "#a{}"])
def test_references_that_multiply_are_refused(keyword: str, reference: str) -> None:
    with pytest.raises(InvalidToolError, match="references multiply"):
        ArgumentSchema(_multiplying(60, keyword, reference), tool="t")
    with pytest.raises(InvalidToolError, match=r"output_schema.*references multiply"):
        check_output_schema(_multiplying(60, keyword, reference), tool="t")


def _by_addresses(levels: int, reference: str) -> dict[str, Any]:
    definitions: dict[str, Any] = {
        f"d{level}": {
            "$id": f"http://x/a{level}",
            "allOf": [{"$ref": reference.format(level + 1)} for _ in range(2)],
        }
        for level in range(levels)
    }
    definitions[f"d{levels}"] = {"$id": f"http://x/a{levels}", "type": "string"}
    return {"$id": "http://x/root", "$defs": definitions, "$ref": reference.format(0)}


def _unevaluated(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        schema = {"allOf": [schema], "unevaluatedProperties": {"type": "integer"}}
    return schema


def _overlapping(levels: int, patterns: int) -> dict[str, Any]:
    """Each member is looked at by many patterns, and so is each member of it."""
    definitions: dict[str, Any] = {
        f"d{level}": {
            "patternProperties": {
                f"a|{number}": {"$ref": f"#/$defs/d{level + 1}"} for number in range(patterns)
            }
        }
        for level in range(levels)
    }
    definitions[f"d{levels}"] = {}
    return {"$defs": definitions, "$ref": "#/$defs/d0"}


@pytest.mark.parametrize(
    "schema",
    [
        _by_addresses(40, "a{}"),
        _by_addresses(40, "./a{}"),
        _by_addresses(40, "/a{}"),
        _by_addresses(40, "HTTP://x/a{}"),
        _unevaluated(20),
        _overlapping(8, 10),
    ],
)
def test_whatever_multiplies_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidToolError, match="references multiply"):
        ArgumentSchema(schema, tool="t")


def test_a_default_is_not_held_against_what_multiplies() -> None:
    member = {**_multiplying(60, "allOf", "#/$defs/d{}"), "default": {"value": 1}}
    schema = {"type": "object", "properties": {"a": member}, "$defs": {"d0": {}}}
    assert ArgumentSchema(schema, tool="t").check({}, tool="t") == {"a": {"value": 1}}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {f"p{number}": {"pattern": "a"} for number in range(201)}},
        {"pattern": r"\p{L}{190}" * 20},
    ],
)
def test_patterns_that_would_fill_the_memory_are_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidToolError, match="not a usable JSON Schema"):
        ArgumentSchema(schema, tool="t")


def test_a_pattern_that_goes_back_and_forth_gives_up() -> None:
    items = {"type": "string", "pattern": r"^(?=a)(a|aa)+\1$"}
    schema = {"type": "object", "properties": {"a": {"type": "array", "items": items}}}
    with pytest.raises(InvalidArgumentsError):
        ArgumentSchema(schema, tool="t").check({"a": ["a" * 60 + "b"] * 100}, tool="t")


def test_patterns_that_look_ahead_work() -> None:
    password = {"type": "string", "pattern": r"^(?=.*[A-Z])(?=.*\d).{8,}$"}
    schema = ArgumentSchema({"type": "object", "properties": {"p": password}}, tool="t")
    assert schema.check({"p": "Passw0rds"}, tool="t") == {"p": "Passw0rds"}
    with pytest.raises(InvalidArgumentsError):
        schema.check({"p": "password"}, tool="t")


def _nested(levels: int, leaf: Any) -> dict[str, Any]:
    value: Any = leaf
    for _ in range(levels):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "object", "allOf": [{"properties": {"a": {"$ref": "#"}}}] * 2}, _nested(40, 1)),
        (
            {
                "type": "object",
                "properties": {"a": {"$ref": "#"}},
                "patternProperties": {"a": {"$ref": "#"}},
            },
            _nested(40, 1),
        ),
        (
            {
                "properties": {
                    "a": {
                        "items": {
                            "anyOf": [
                                {"anyOf": [{"const": [one, two]} for one in range(50)]}
                                for two in range(50)
                            ]
                        }
                    }
                }
            },
            {"a": [1] * 15},
        ),
    ],
    ids=["allOf", "patterns", "wide"],
)
def test_what_would_take_long_to_explain_is_named_only(
    schema: dict[str, Any], value: dict[str, Any]
) -> None:
    with pytest.raises(InvalidArgumentsError) as caught:
        ArgumentSchema(schema, tool="t").check(value, tool="t")
    assert [str(it) for it in caught.value.violations] == ["`a`: does not fit its schema"]


def test_many_references_that_do_not_multiply_are_fine() -> None:
    kinds = {f"k{number}": {"type": "string"} for number in range(500)}
    tree = {"$ref": "#/$defs/tree"}
    choices = [tree, *({"$ref": f"#/$defs/{kind}"} for kind in kinds)]
    properties = {f"p{number}": {"anyOf": choices} for number in range(20)}
    definitions = {**kinds, "tree": {"type": "object", "properties": properties}}
    schema = ArgumentSchema({"type": "object", "allOf": [tree], "$defs": definitions}, tool="t")
    assert schema.check({"p0": {"p1": "leaf"}}, tool="t") == {"p0": {"p1": "leaf"}}


def test_long_names_are_cut_in_paths() -> None:
    [found] = violations({"additionalProperties": {"type": "integer"}}, {"k" * 5_000_000: "x"})
    assert len(str(found)) < 300


def test_a_tuple_is_judged_as_the_array_it_stands_for() -> None:
    schema = {"properties": {"x": {"type": "array", "items": {"type": "integer"}}}}
    assert violations(schema, {"x": (1, 2)}) == []
    assert [it.path for it in violations(schema, {"x": (1, "b")})] == ["x[1]"]


schemas: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from(
        [
            {},
            {"type": "string"},
            {"type": "integer"},
            {"type": "number", "minimum": 0},
            {"type": "boolean"},
            {"enum": ["a", 1, None]},
            {"type": ["string", "null"], "maxLength": 3},
        ]
    ),
    lambda inner: st.one_of(
        st.builds(lambda it: {"type": "array", "items": it, "maxItems": 3}, inner),
        st.builds(lambda it: {"anyOf": it}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(
            lambda members, required, closed: {
                "type": "object",
                "properties": members,
                "required": required,
                **({"additionalProperties": False} if closed else {}),
            },
            st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
            st.lists(st.sampled_from("abc"), unique=True, max_size=2),
            st.booleans(),
        ),
    ),
    max_leaves=8,
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(-5, 5)
    | st.sampled_from(["", "a", "abcd"]),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(schemas, values)
def test_the_verdict_agrees_with_the_reference_validator(schema: Any, value: Any) -> None:
    whole = {"type": "object", "properties": {"x": schema}}
    expected = jsonschema.Draft202012Validator(whole).is_valid({"x": value})
    assert (violations(whole, {"x": value}) == []) == expected
