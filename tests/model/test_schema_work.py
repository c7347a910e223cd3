"""How much work a schema may make: of validating arguments, and of saying what is wrong."""

import tracemalloc
from typing import Any

import pytest

from pegboard.errors import InvalidArgumentsError, InvalidToolError, Violation
from pegboard.model import ArgumentSchema
from pegboard.model.schema.cost import work_per_value

EMAIL = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9-]*\.)+[A-Za-z]{2,}$"


def list_of(items: object) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"type": "array", "items": items}}}


def violations(schema: dict[str, Any], arguments: dict[str, Any]) -> list[Violation]:
    with pytest.raises(InvalidArgumentsError) as caught:
        ArgumentSchema(schema, tool="t").check(arguments, tool="t")
    return list(caught.value.violations)


def test_of_many_wrong_items_only_the_first_becomes_an_error() -> None:
    schema = ArgumentSchema(list_of({"type": "string"}), tool="t")
    arguments: dict[str, Any] = {"a": [1] * 40_000}
    tracemalloc.start()
    try:
        with pytest.raises(InvalidArgumentsError) as caught:
            schema.check(arguments, tool="t")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert caught.value.violations == (Violation("a[0]", "expected string, got 1"),)
    # 40,000 errors would take many times as much.
    assert peak < 2_000_000


def test_the_first_wrong_item_of_many_is_named_wherever_it_is() -> None:
    row = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    found = violations(
        {**list_of(row), "required": ["b"]}, {"a": [*[{"n": 1}] * 9_000, {}], "c": 1}
    )
    assert found == [
        Violation("a[9000]", "the required argument `n` is missing"),
        Violation("", "the required argument `b` is missing"),
    ]


def test_a_list_that_is_too_long_is_refused_before_its_items_are_explained() -> None:
    tags = {"type": "array", "maxItems": 100, "items": {"type": "string"}}
    schema = {"type": "object", "properties": {"tags": tags}}
    [found] = violations(schema, {"tags": [1] * 95_000})
    assert found == Violation("tags", "must have at most 100 items, got array of 95000")


@pytest.mark.parametrize(
    "items",
    [
        {"enum": [{"kind": f"k{it}", "n": it} for it in range(500)]},
        {"enum": [it + 0.5 for it in range(500)]},
        {"anyOf": [{"const": it} for it in range(200)]},
        {"dependentRequired": {f"k{it}": ["x"] for it in range(1_000)}},
    ],
    ids=["objects", "numbers", "alternatives", "dependencies"],
)
def test_values_times_work_of_the_schema_are_limited_before_the_validation(
    items: dict[str, Any],
) -> None:
    [found] = violations(list_of(items), {"a": [{"kind": "k499", "n": 499}] * 30_000})
    assert found.message.startswith("too many values for this schema")


def test_many_values_of_a_plain_schema_are_valid() -> None:
    cell = {"anyOf": [{"type": it} for it in ("string", "number", "boolean", "null")]}
    schema = ArgumentSchema(list_of({"type": "array", "items": cell}), tool="t")
    arguments: dict[str, Any] = {"a": [["x", 1.5, True, None, ",[{"]] * 15_000}
    assert schema.check(arguments, tool="t") == arguments
    assert work_per_value(list_of({"enum": [f"s{it}" for it in range(5_000)]})) < 5


def test_a_pattern_that_looks_around_matches_no_text_that_takes_quadratic_time() -> None:
    schema = {"properties": {"a": {"type": "string", "pattern": "(?=.*z)x"}}}
    [found] = violations(schema, {"a": "a" * 4_000_000})
    assert found.message == "does not fit its schema"
    [found] = violations(schema, {"a": "a" * 5_000})
    assert found.message.startswith("must have at most 4000 characters")
    [found] = violations(schema, {"a": "y"})
    assert found == Violation("a", 'must match the pattern `(?=.*z)x`, got string "y"')
    good = ArgumentSchema(list_of({"pattern": EMAIL}), tool="t")
    assert good.check({"a": ["ada@example.com", 5] * 500}, tool="t")


def test_patterns_that_look_around_get_no_more_time_than_their_share() -> None:
    # Each text takes thousands of steps back, and matches in the end.
    items = {"pattern": "^(?:(?:a|a)*(?=b)|a)"}
    [found] = violations(list_of(items), {"a": ["a" * 9] * 30_000})
    assert found.message.startswith("there is no time to match so many texts with patterns")


@pytest.mark.parametrize(
    "schema",
    [
        {"description": "x" * 500_000},
        {"patternProperties": {"(?=.*z)x": True}},
        {"properties": {"a": {"pattern": "(?=a"}}},
    ],
    ids=["size", "names", "invalid"],
)
def test_a_schema_that_takes_too_much_work_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(InvalidToolError):
        ArgumentSchema(schema, tool="t")
