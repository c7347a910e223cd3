import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.model import ArgumentSchema, freeze
from pegboard.model.schema.defaults import compile_defaults


def complete(schema: dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    before = copy.deepcopy(arguments)
    filled = ArgumentSchema(freeze(schema), tool="t").check(arguments, tool="t")
    assert arguments == before, "the caller's arguments were changed"
    return filled


def obj(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.covers("R-SAGE-34")
def test_defaults_are_merged_and_what_the_caller_gave_wins() -> None:
    schema = obj(a={"type": "integer", "default": 1}, b={"type": "integer", "default": 2})
    assert complete(schema, {}) == {"a": 1, "b": 2}
    assert complete(schema, {"b": 5, "c": 6}) == {"a": 1, "b": 5, "c": 6}


@pytest.mark.parametrize(
    ("schema", "given", "filled"),
    [
        (obj(o=obj(x={"default": 1})), {"o": {}}, {"o": {"x": 1}}),
        (obj(o=obj(x={"default": 1})), {}, {}),
        (obj(o={**obj(x={"default": 1}), "default": {}}), {}, {"o": {"x": 1}}),
        (
            obj(l={"items": obj(x={"default": 1})}),
            {"l": [{}, {"x": 2}]},
            {"l": [{"x": 1}, {"x": 2}]},
        ),
        (
            obj(l={"prefixItems": [{}, obj(x={"default": 1})]}),
            {"l": [{}, {}, {}]},
            {"l": [{}, {"x": 1}, {}]},
        ),
        (
            {"type": "object", "additionalProperties": obj(x={"default": 1})},
            {"k": {}},
            {"k": {"x": 1}},
        ),
        ({**obj(), "allOf": [obj(x={"default": 1})]}, {}, {"x": 1}),
        (
            {**obj(o={"$ref": "#/$defs/o"}), "$defs": {"o": obj(x={"default": 1})}},
            {"o": {}},
            {"o": {"x": 1}},
        ),
        (
            obj(o={"anyOf": [obj(x={"default": 1}), {"type": "null"}]}),
            {"o": {}},
            {"o": {"x": 1}},
        ),
        (
            obj(o={"anyOf": [obj(x={"default": 1}), obj(y={"default": 2})]}),
            {"o": {}},
            {"o": {}},
        ),
        (obj(a={"default": [1, {"b": 2}]}), {}, {"a": [1, {"b": 2}]}),
        (
            obj(o={"anyOf": [obj(x={"default": 1}), {"type": ["string", "null"]}]}),
            {"o": {}},
            {"o": {"x": 1}},
        ),
        (
            {**obj(a={"default": 1}, o={"$ref": "#o"}), "$defs": {"o": {"$anchor": "o"}}},
            {"o": {}},
            {"a": 1, "o": {}},
        ),
        (
            {**obj(o={"type": "object"}), "additionalProperties": obj(x={"default": 1})},
            {"o": {}, "p": {}},
            {"o": {}, "p": {"x": 1}},
        ),
        (
            {
                "type": "object",
                "patternProperties": {"^s": {"maxProperties": 0}},
                "additionalProperties": obj(x={"default": 1}),
            },
            {"s": {}},
            {"s": {}},
        ),
    ],
    ids=[
        "nested",
        "not into what is absent",
        "into a default",
        "items",
        "prefix items",
        "additional",
        "all of",
        "reference",
        "optional",
        "ambiguous",
        "containers",
        "several types",
        "an anchor is not the root",
        "a declared member is not additional",
        "patterns decide what is additional",
    ],
)
def test_defaults_reach_every_depth(
    schema: dict[str, Any], given: dict[str, Any], filled: dict[str, Any]
) -> None:
    assert complete(schema, given) == filled


def test_a_default_that_breaks_its_own_schema_is_left_out() -> None:
    schema = obj(a={"type": "string", "default": None}, b={"enum": [1], "default": 2})
    assert complete(schema, {}) == {}


def test_a_required_argument_with_a_default_may_be_left_out() -> None:
    assert complete({**obj(a={"default": 1}), "required": ["a"]}, {}) == {"a": 1}


@pytest.mark.parametrize(
    ("schema", "given"),
    [
        (
            {
                **obj(a={"type": "string"}, b={"type": "string", "default": "y"}),
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
            },
            {"a": "x"},
        ),
        ({**obj(b={"default": 1}), "maxProperties": 1}, {"a": 1}),
        ({**obj(b={"default": 1}), "dependentRequired": {"b": ["c"]}}, {}),
        (obj(a={"type": "string"}, b={"$ref": "#/properties/a", "default": None}), {}),
        (
            obj(l={"prefixItems": [{"maxProperties": 0}], "items": obj(x={"default": 1})}),
            {"l": [{}]},
        ),
        (obj(l={"prefixItems": [True, obj(x={"default": 1})]}), {"l": [{}]}),
    ],
    ids=["one of", "at most", "dependent", "broken default", "prefix", "boolean prefix"],
)
def test_a_default_never_makes_valid_arguments_invalid(
    schema: dict[str, Any], given: dict[str, Any]
) -> None:
    assert complete(schema, given) == given


def test_schemas_that_refer_to_themselves_or_lead_far_are_filled_in_or_left_alone() -> None:
    assert complete({**obj(a={"default": 1}), "$ref": "#"}, {}) == {"a": 1}
    chain: dict[str, Any] = {
        f"d{number}": {"$ref": f"#/$defs/d{number + 1}"} for number in range(2000)
    }
    chain["d2000"] = obj(x={"default": 1})
    assert complete({**obj(o={"$ref": "#/$defs/d0"}), "$defs": chain}, {}) == {}
    members = {f"m{number}": {"$ref": "#", "default": {}} for number in range(8)}
    assert len(str(complete({"type": "object", "properties": members}, {}))) < 200_000


def test_thousands_of_ways_back_are_looked_at_once() -> None:
    members: dict[str, Any] = {f"m{number}": {"$ref": "#"} for number in range(4000)}
    schema = {"type": "object", "properties": {**members, "default": {}, "x": {"default": 1}}}
    assert complete(schema, {"m0": {}}) == {"x": 1, "m0": {"x": 1}}


def test_a_recursive_default_ends() -> None:
    schema = {**obj(child={"$ref": "#", "default": {}}, n={"default": 0})}
    assert complete(schema, {}) == {"n": 0, "child": {"n": 0, "child": {}}}
    assert complete(schema, {"child": {"n": 5}})["child"]["n"] == 5


def test_each_call_gets_containers_of_its_own() -> None:
    schema = obj(a={"type": "array", "default": []})
    complete(schema, {})["a"].append(1)
    compiled = ArgumentSchema(freeze(schema), tool="t")
    first = compiled.check({}, tool="t")
    first["a"].append(1)
    assert compiled.check({}, tool="t") == {"a": []}


def test_a_schema_without_defaults_costs_nothing() -> None:
    assert compile_defaults(obj(a={"type": "integer"})) is None
    assert compile_defaults({**obj(a={"$ref": "#"})}) is None
    assert compile_defaults(obj(default={"type": "integer"})) is None
    arguments = {"a": 1}
    assert complete(obj(a={"type": "integer"}), arguments) is arguments


@given(st.dictionaries(st.sampled_from("abcd"), st.integers()))
def test_filling_twice_changes_nothing_more(arguments: dict[str, Any]) -> None:
    schema = obj(a={"default": 1}, b={"default": 2}, c=obj(x={"default": 3}))
    schema["properties"]["c"].pop("type")
    once = complete(schema, arguments)
    assert complete(schema, once) == once
    assert {**once, **arguments} == once


def test_a_schema_that_is_reached_by_very_many_ways_is_filled_in_once() -> None:
    levels = 60
    both = [[{"$ref": f"#/$defs/L{it + 1}"}] * 2 for it in range(levels)]
    definitions: dict[str, Any] = {f"L{it}": {"allOf": both[it]} for it in range(levels)}
    definitions[f"L{levels}"] = {"properties": {"x": {"default": 1}, "y": {"default": [2]}}}
    fill = compile_defaults({"$ref": "#/$defs/L0", "$defs": definitions})
    assert fill is not None
    assert fill({}) == {"x": 1, "y": [2]}
