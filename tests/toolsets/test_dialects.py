import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings
from jsonschema import Draft202012Validator

from pegboard import InvalidToolError, Registry, Tool
from pegboard.toolsets import Toolset
from pegboard.toolsets.combining import merge
from pegboard.toolsets.dialect import simplify
from pegboard.toolsets.references import inline
from tests.toolsets.provider_rules import anthropic_problems, gemini_problems, openai_problems
from tests.toolsets.schemas import LEGAL_ROOTS, PLAIN, PLAIN_OBJECTS, ROOTS, SEVERAL_ARGUMENTS

CATALOGS = sorted((Path(__file__).parents[1] / "data" / "catalogs").glob("*.json"))


def toolset_of(*schemas: dict[str, Any]) -> Toolset:
    registry = Registry()
    for number, schema in enumerate(schemas):
        registry.register(Tool(name=f"tool{number}", input_schema=schema))
    return Toolset(registry)


def problems_of(tools: Toolset) -> dict[str, list[str]]:
    """Return whatever a provider would object to."""
    found: dict[str, list[str]] = {}
    for strict in (False, True):
        for tool in tools.openai(strict=strict):
            found[f"{tool['function']['name']}: openai {strict=}"] = openai_problems(tool)
        for tool in tools.openai(strict=strict, api="responses"):
            found[f"{tool['name']}: responses {strict=}"] = openai_problems(tool, api="responses")
    for tool in tools.anthropic():
        found[f"{tool['name']}: anthropic"] = anthropic_problems(tool)
    for tool in tools.gemini():
        found[f"{tool['name']}: gemini"] = gemini_problems(tool)
    return {name: problems for name, problems in found.items() if problems}


@cache
def real_tools() -> Toolset:
    registry = Registry()
    for path in CATALOGS:
        for tool in json.loads(path.read_text("utf-8")):
            definition = Tool(
                name=f"{path.stem}/{tool['name']}",
                description=tool.get("description", ""),
                input_schema=tool["inputSchema"],
                server=path.stem,
            )
            registry.register(definition)
    return Toolset(registry)


@pytest.mark.covers("R-EXCEL-61")
def test_every_real_tool_has_a_definition_that_each_provider_takes() -> None:
    tools = real_tools()
    assert len(tools) == 397
    assert tools.skipped == {}
    definitions = (tools.openai(), tools.openai(strict=True), tools.anthropic(), tools.gemini())
    assert [len(them) for them in definitions] == [397] * 4
    assert problems_of(tools) == {}


def test_most_real_tools_can_be_strict_and_none_is_lost() -> None:
    strict = [tool["function"]["strict"] for tool in real_tools().openai(strict=True)]
    assert len(strict) == 397
    assert sum(strict) >= 370


@settings(deadline=None)
@given(ROOTS)
def test_any_schema_gets_definitions_that_each_provider_takes(schema: dict[str, Any]) -> None:
    try:
        tools = toolset_of(schema)
    except InvalidToolError:
        assume(False)
        return
    assert problems_of(tools) == {}
    skipped = tools.skipped
    assert all("object" in reason for reason in skipped.values()), skipped
    assert len(tools.functions()) == len(tools.gemini()) == 1 - len(skipped)


@settings(deadline=None)
@given(LEGAL_ROOTS, SEVERAL_ARGUMENTS)
def test_a_schema_without_references_accepts_whatever_the_original_does(
    schema: dict[str, Any], several: list[dict[str, Any]]
) -> None:
    original, inlined = Draft202012Validator(schema), Draft202012Validator(inline(schema))
    assert all(inlined.is_valid(it) for it in several if original.is_valid(it))


@settings(deadline=None)
@given(PLAIN_OBJECTS, SEVERAL_ARGUMENTS)
def test_a_schema_that_had_no_references_stays_exactly_as_strict_as_it_was(
    schema: dict[str, Any], several: list[dict[str, Any]]
) -> None:
    original, inlined = Draft202012Validator(schema), Draft202012Validator(inline(schema))
    assert [original.is_valid(it) for it in several] == [inlined.is_valid(it) for it in several]


@settings(deadline=None)
@given(PLAIN, PLAIN, SEVERAL_ARGUMENTS)
def test_what_fits_two_schemas_fits_them_merged(first: Any, second: Any, several: Any) -> None:
    one, other = Draft202012Validator(first), Draft202012Validator(second)
    merged = Draft202012Validator(merge(first, second))
    assert all(merged.is_valid(it) for it in several if one.is_valid(it) and other.is_valid(it))


@settings(deadline=None)
@given(PLAIN, SEVERAL_ARGUMENTS)
def test_the_simple_form_of_a_schema_is_at_most_looser(schema: Any, several: Any) -> None:
    original = Draft202012Validator(schema)
    simple = Draft202012Validator(simplify(inline(schema)))
    assert all(simple.is_valid(it) for it in [*several, several] if original.is_valid(it))


def test_references_are_inlined_and_what_stands_beside_them_is_kept() -> None:
    schema = {
        "type": "object",
        "properties": {
            "home": {"$ref": "#/$defs/place", "description": "Where one lives."},
            "work": {"$ref": "#/$defs/place"},
            "odd": {"$ref": "#/$defs/a~1b%20c"},
        },
        "$defs": {
            "place": {"type": "string", "minLength": 1, "description": "A place."},
            "a/b c": {"type": "integer"},
        },
    }
    own = {"$id": "urn:it", "$ref": "urn:it#/$defs/root", "$defs": {"root": {"enum": [1]}}}
    assert inline(own) == {"enum": [1]}
    assert inline(schema) == {
        "type": "object",
        "properties": {
            "home": {"type": "string", "minLength": 1, "description": "Where one lives."},
            "work": {"type": "string", "minLength": 1, "description": "A place."},
            "odd": {"type": "integer"},
        },
    }


def test_data_that_looks_like_a_reference_is_left_alone() -> None:
    schema = {
        "type": "object",
        "properties": {"$ref": {"type": "string", "enum": ["$ref"], "default": {"$ref": "#"}}},
    }
    assert inline(schema) == schema


def test_a_recursive_schema_becomes_an_open_object_with_a_note() -> None:
    tree = {
        "type": "object",
        "description": "A tree.",
        "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
    }
    tools = toolset_of(
        {"type": "object", "properties": {"t": {"$ref": "#/$defs/tree"}}, "$defs": {"tree": tree}}
    )
    [definition] = tools.anthropic()
    inner = definition["input_schema"]["properties"]["t"]["properties"]["children"]["items"]
    assert inner == {
        "type": "object",
        "description": "A tree. (Nested: has the same form as what contains it.)",
    }
    assert problems_of(tools) == {}


def test_references_that_multiply_are_bounded() -> None:
    definitions: dict[str, Any] = {
        f"d{level}": {
            "type": "object",
            "properties": {name: {"$ref": f"#/$defs/d{level + 1}"} for name in "abcdefghij"},
        }
        for level in range(10)
    }
    definitions["d10"] = {"type": "string", "enum": ["x" * 100] * 1}
    schema = {"type": "object", "properties": {"r": {"$ref": "#/$defs/d0"}}, "$defs": definitions}
    tools = toolset_of(schema)
    assert len(json.dumps(tools.anthropic())) < 2_000_000
    assert problems_of(tools) == {}


def test_alternatives_inside_alternatives_do_not_multiply() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for number in range(22):
        key = ("prefixItems", "items", "properties")[number % 3]
        inner = {"items": schema, "prefixItems": [schema], "properties": {"x": schema}}[key]
        branches = [{"description": "One."}, {"description": "Other."}]
        schema = {key: inner, "anyOf": branches, "oneOf": branches}
    tools = toolset_of({"type": "object", "properties": {"it": schema}})
    assert len(json.dumps(tools.gemini())) < 100_000
    assert problems_of(tools) == {}


def test_thousands_of_properties_and_alternatives_take_no_quadratic_time() -> None:
    many = [f"property {number}" for number in range(4000)]
    schema = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in many},
        "required": many,
        "additionalProperties": False,
    }
    options = [{"const": number, "title": str(number)} for number in range(4000)]
    tools = toolset_of(schema, {"type": "object", "properties": {"one": {"oneOf": options}}})
    assert problems_of(tools) == {}
    assert len(tools.functions()) == 2


def test_a_tool_that_nobody_could_call_is_skipped_with_a_reason_and_the_others_stay() -> None:
    tools = toolset_of({"type": "object"}, {"type": "array"}, {"anyOf": [{"type": "string"}]}, {})
    assert dict(tools.skipped) == {
        "tool1": "its input schema does not describe an object",
        "tool2": "none of the alternatives of its input schema is an object",
    }
    for them in (tools.openai(), tools.anthropic(), tools.gemini(), tools.functions()):
        assert len(them) == 2
    assert problems_of(tools) == {}


def test_alternatives_at_the_root_become_one_object() -> None:
    schema = {
        "type": "object",
        "properties": {"mode": {"type": "string"}},
        "oneOf": [
            {
                "properties": {"path": {"type": "string"}, "n": {"type": "integer"}},
                "required": ["path", "mode"],
            },
            {
                "properties": {"url": {"type": "string"}, "n": {"type": "null"}},
                "required": ["mode", "url"],
            },
        ],
    }
    [definition] = toolset_of(schema).anthropic()
    assert definition["input_schema"] == {
        "type": "object",
        "properties": {
            "mode": {"type": "string"},
            "path": {"type": "string"},
            "n": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "url": {"type": "string"},
        },
        "required": ["mode"],
    }


@pytest.mark.parametrize("anything", [{"type": "object"}, {}, True, {"required": ["y"]}])
def test_beside_an_alternative_that_takes_anything_a_property_may_be_anything(
    anything: Any,
) -> None:
    choice = {"enum": ["a", "b"], "description": "Which."}
    schema = {"type": "object", "anyOf": [{"properties": {"x": choice}}, anything]}
    tools = toolset_of(schema)
    [definition], [strict] = tools.anthropic(), tools.openai(strict=True)
    assert definition["input_schema"] == {
        "type": "object",
        "properties": {"x": {"description": "Which."}},
        "required": [],
        "additionalProperties": True,
    }
    assert strict["function"]["strict"] is False
    assert problems_of(tools) == {}


def test_an_alternative_that_only_requires_something_opens_nothing() -> None:
    properties = {"a": {"type": "string"}, "b": {"type": "string"}}
    schema = {
        "type": "object",
        "properties": properties,
        "anyOf": [{"required": ["a"]}, {"properties": {"c": {"type": "null"}}, "required": ["b"]}],
    }
    [definition], [strict] = toolset_of(schema).anthropic(), toolset_of(schema).openai(strict=True)
    assert definition["input_schema"]["properties"] == {**properties, "c": {"type": "null"}}
    assert "additionalProperties" not in definition["input_schema"]
    assert strict["function"]["strict"] is True


def test_alternatives_that_mention_no_property_take_any() -> None:
    schema = {"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}
    [definition] = toolset_of(schema).anthropic()
    assert definition["input_schema"]["additionalProperties"] is True


def test_what_some_alternatives_say_of_further_properties_is_not_lost() -> None:
    closed = {"properties": {"a": {"type": "string"}}, "additionalProperties": False}
    half = {"properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "integer"}}
    schema = {"type": "object", "anyOf": [closed, half]}
    [definition], [strict] = toolset_of(schema).anthropic(), toolset_of(schema).openai(strict=True)
    assert definition["input_schema"]["additionalProperties"] is True
    assert strict["function"]["strict"] is False


def test_an_alternative_that_is_no_object_does_not_cost_the_others() -> None:
    schema = {
        "anyOf": [
            {"oneOf": [{"type": "string"}]},
            {"allOf": [{"properties": {"a": {"type": "string"}}, "required": ["a"]}]},
            {"type": "null"},
        ]
    }
    [definition] = toolset_of(schema).anthropic()
    assert definition["input_schema"] == {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "required": ["a"],
    }


SAMPLE: dict[str, Any] = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "unit": {"const": "C"},
        "level": {"enum": [1, 2], "description": "How deep."},
        "name": {"type": ["string", "null"], "minLength": 2, "default": "me"},
        "when": {"type": "string", "format": "date", "title": "When"},
        "point": {
            "type": "array",
            "items": [{"type": "number"}, {"type": "integer"}],
            "maxItems": 2,
        },
        "more": {
            "oneOf": [
                {"type": "string"},
                {"type": "object", "properties": {"x": {"type": "boolean"}}},
            ]
        },
    },
    "required": ["unit", "more"],
}


def test_gemini_gets_what_its_schemas_can_say_and_hints_at_the_rest() -> None:
    [declaration] = toolset_of(SAMPLE).gemini()
    assert declaration["parameters"] == {
        "type": "OBJECT",
        "properties": {
            "unit": {"type": "STRING", "enum": ["C"]},
            "level": {"type": "INTEGER", "description": "How deep. (enum: [1,2])"},
            "name": {
                "type": "STRING",
                "minLength": 2,
                "nullable": True,
                "description": '(default: "me")',
            },
            "when": {"type": "STRING", "description": '(format: "date")'},
            "point": {
                "type": "ARRAY",
                "maxItems": 2,
                "items": {
                    "anyOf": [
                        {"type": "STRING"},
                        {"type": "NUMBER"},
                        {"type": "BOOLEAN"},
                        {"type": "OBJECT"},
                        {"type": "ARRAY", "items": {"type": "STRING"}},
                    ]
                },
            },
            "more": {
                "anyOf": [
                    {"type": "STRING"},
                    {"type": "OBJECT", "properties": {"x": {"type": "BOOLEAN"}}},
                ]
            },
        },
        "required": ["unit", "more"],
    }


def test_a_function_without_parameters_has_none_for_gemini() -> None:
    assert toolset_of({"type": "object", "properties": {}}).gemini() == [
        {"name": "tool0", "description": "tool0"}
    ]


def test_strict_definitions_require_everything_and_allow_null_instead() -> None:
    properties = {key: it for key, it in SAMPLE["properties"].items() if key != "point"}
    [tool] = toolset_of({**SAMPLE, "properties": properties}).openai(strict=True)
    function = tool["function"]
    assert function["strict"] is True
    assert function["parameters"] == {
        "type": "object",
        "properties": {
            "unit": {"type": "string", "enum": ["C"]},
            "level": {
                "type": ["integer", "null"],
                "enum": [1, 2, None],
                "description": "How deep.",
            },
            "name": {
                "anyOf": [
                    {"type": "string", "description": "(minLength: 2)"},
                    {"type": "null"},
                ],
                "description": '(default: "me")',
            },
            "when": {"type": ["string", "null"], "format": "date"},
            "more": {
                "anyOf": [
                    {"type": "string"},
                    {
                        "type": "object",
                        "properties": {"x": {"type": ["boolean", "null"]}},
                        "required": ["x"],
                        "additionalProperties": False,
                    },
                ]
            },
        },
        "required": ["unit", "level", "name", "when", "more"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize(
    "member",
    [
        {},
        {"type": "object"},
        {"type": "object", "additionalProperties": True},
        {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {}},
        {"type": "object", "patternProperties": {"^x": {}}, "additionalProperties": False},
        {"type": "array"},
        {"type": "string", "enum": [f"value{number}" for number in range(1001)]},
        {"type": "string", "enum": [f"{number:0100}" for number in range(251)]},
        {
            "type": "object",
            "properties": {f"p{number}": {"type": "null"} for number in range(5000)},
            "additionalProperties": False,
        },
    ],
    ids=["any", "free", "open", "half-open", "patterns", "any-items", "enum", "long-enum", "wide"],
)
def test_what_cannot_be_strict_is_given_as_it_is(member: dict[str, Any]) -> None:
    tools = toolset_of({"type": "object", "properties": {"it": member}, "required": ["it"]})
    [strict], [plain] = tools.openai(strict=True), tools.openai()
    assert strict["function"].pop("strict") is False
    assert strict == plain
    assert problems_of(tools) == {}


def test_nesting_beyond_the_limit_is_not_strict() -> None:
    def nest(levels: int) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "string"}
        for _ in range(levels):
            schema = {"type": "object", "properties": {"x": schema}, "additionalProperties": False}
        return schema

    deepest, too_deep = toolset_of(nest(9), nest(11)).openai(strict=True)
    assert deepest["function"]["strict"] is True
    assert too_deep["function"]["strict"] is False
    assert problems_of(toolset_of(nest(9), nest(11), nest(60))) == {}


def test_strict_definitions_drop_patterns_and_formats_the_api_refuses_but_mention_them() -> None:
    schema = {
        "type": "object",
        "properties": {
            "plain": {"type": "string", "pattern": "^a+$"},
            "ahead": {"type": "string", "pattern": "^(?!b)"},
            "json": {"type": "string", "format": "json"},
        },
        "required": ["plain", "ahead", "json"],
    }
    [tool] = toolset_of(schema).openai(strict=True)
    assert tool["function"]["parameters"]["properties"] == {
        "plain": {"type": "string", "pattern": "^a+$"},
        "ahead": {"type": "string", "description": '(pattern: "^(?!b)")'},
        "json": {"type": "string", "description": '(format: "json")'},
    }


def test_what_was_left_open_inside_refuses_nothing_outside() -> None:
    tree = {"type": "object", "properties": {"leaf": {"type": "string"}}, "required": ["leaf"]}
    schema = {
        "type": "object",
        "properties": {"it": {"oneOf": [{"$ref": "#"}, tree], "not": {"$ref": "#"}}},
    }
    inlined = Draft202012Validator(inline(schema))
    assert inlined.is_valid({"it": {"leaf": "green"}})


def test_long_descriptions_are_cut_for_openai_only_and_say_so() -> None:
    registry = Registry()
    registry.register(Tool(name="wordy", description="word " * 400))
    tools = Toolset(registry)
    [cut] = tools.openai()
    assert len(cut["function"]["description"]) <= 1024
    assert "of 2000 characters shown]" in cut["function"]["description"]
    assert tools.anthropic()[0]["description"] == "word " * 400


def test_each_caller_gets_definitions_of_their_own() -> None:
    tools = toolset_of(SAMPLE)
    tools.openai()[0]["function"]["parameters"]["properties"].clear()
    assert tools.openai()[0]["function"]["parameters"]["properties"]


@pytest.mark.parametrize("name", ["zz", "odd name", ""])
def test_an_argument_that_is_required_without_being_declared_is_asked_for(name: str) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", name]}
    tools = toolset_of(schema)
    assert problems_of(tools) == {}
    # Nothing is said about its values, which no strict schema can express.
    (definition,) = tools.openai(strict=True)
    assert definition["function"]["strict"] is False
    (declaration,) = tools.gemini()
    assert len(declaration["parameters"]["properties"]) == 2
    assert set(declaration["parameters"]["required"]) == set(
        declaration["parameters"]["properties"]
    )


def test_a_required_argument_that_nothing_can_be_is_not_asked_for() -> None:
    schema = {"properties": {"a": {"type": "string"}, "b": False}, "required": ["a", "b"]}
    (declaration,) = toolset_of(schema).gemini()
    assert set(declaration["parameters"]["properties"]) == {"a"}
