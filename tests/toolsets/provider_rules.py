"""What each provider's API documents, or answers with 400 for; no code is shared with ours."""

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs

Json = dict[str, Any]

CHILDREN = ("items", "additionalProperties", "not", "contains", "propertyNames", "if", "then")
CHILDREN_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
CHILDREN_IN_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")


def openai_problems(tool: Json, *, api: str = "chat") -> list[str]:
    """https://platform.openai.com/docs/api-reference/chat/create#chat-create-tools."""
    problems: list[str] = []
    if tool["type"] != "function":
        problems.append("the type is not function")
    function = tool["function"] if api == "chat" else tool
    known = {"name", "description", "parameters", "strict"} | ({"type"} if api != "chat" else set())
    problems += [f"unknown member {key}" for key in set(function) - known]
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", function["name"]):
        problems.append("illegal name")
    if len(function["description"]) > 1024:
        problems.append("the description is too long")
    if api == "responses" and not isinstance(function.get("strict"), bool):
        problems.append("strict is required")
    parameters = function["parameters"]
    problems += common_problems(parameters)
    problems += [f"{key} at the root" for key in ("enum", "not", "const") if key in parameters]
    if function.get("strict"):
        problems += strict_problems(parameters)
    return problems


def anthropic_problems(tool: Json) -> list[str]:
    """https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use."""
    problems = [
        f"unknown member {key}" for key in set(tool) - {"name", "description", "input_schema"}
    ]
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool["name"]):
        problems.append("illegal name")
    return problems + common_problems(tool["input_schema"])


def common_problems(root: Json) -> list[str]:
    problems: list[str] = []
    if root.get("type") != "object":
        problems.append("the root is not an object")
    if not isinstance(root.get("properties"), dict):
        problems.append("the root has no properties")
    problems += [f"{key} at the root" for key in ("oneOf", "anyOf", "allOf") if key in root]
    try:
        jsonschema_rs.Draft202012Validator(root)
    except ValueError as error:
        problems.append(f"not a schema of draft 2020-12: {error}")
    for schema in walk(root):
        if "$ref" in schema:
            problems.append("a reference")
        if "array" in listed(schema.get("type")) and "items" not in schema:
            problems.append("an array without items")
        for name in schema.get("properties", {}):
            if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name):
                problems.append(f"illegal property {name!r}")
    return problems


STRICT = {
    "object": {"properties", "required", "additionalProperties"},
    "array": {"items", "minItems", "maxItems"},
    "string": {"pattern", "format"},
    "number": {"multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"},
    "integer": {"multipleOf", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"},
    "boolean": set[str](),
    "null": set[str](),
}
STRICT_FORMATS = {
    *("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"),
}


def strict_problems(root: Json) -> list[str]:  # noqa: C901 - one rule after the other
    """https://platform.openai.com/docs/guides/structured-outputs#supported-schemas."""
    problems: list[str] = []
    properties = characters = values = 0
    for schema in walk(root):
        kinds = listed(schema.get("type"))
        allowed = {"type", "description", "anyOf", "enum"}.union(*(STRICT[kind] for kind in kinds))
        problems += [f"{key} is not supported" for key in set(schema) - allowed]
        if not kinds and "anyOf" not in schema:
            problems.append("neither a type nor anyOf")
        if "object" in kinds:
            if schema.get("additionalProperties") is not False:
                problems.append("an open object")
            if sorted(schema.get("required", [])) != sorted(schema["properties"]):
                problems.append("a property that is not required")
            properties += len(schema["properties"])
            characters += sum(map(len, schema["properties"]))
        if "enum" in schema:
            strings = [value for value in schema["enum"] if isinstance(value, str)]
            values += len(strings)
            characters += sum(map(len, strings))
            if len(strings) > 250 and sum(map(len, strings)) > 15_000:
                problems.append("a long enum with long values")
            if not all(of_kind(value, kinds) for value in schema["enum"]):
                problems.append("an enum value of another type")
        if schema.get("format", "date") not in STRICT_FORMATS:
            problems.append("an unknown format")
    if properties > 5000 or values > 1000 or characters > 120_000:
        problems.append("too large")
    if object_levels(root) > 10:
        problems.append("too deep")
    return problems


GEMINI = {
    *("type", "format", "title", "description", "nullable", "enum", "items", "minItems"),
    *("maxItems", "minLength", "maxLength", "pattern", "minimum", "maximum", "properties"),
    *("required", "propertyOrdering", "anyOf"),
}
GEMINI_TYPES = {"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT"}
GEMINI_FORMATS = {
    "STRING": {"enum", "date-time"},
    "INTEGER": {"int32", "int64"},
    "NUMBER": {"float", "double"},
}


def gemini_problems(declaration: Json) -> list[str]:
    """https://ai.google.dev/api/caching#FunctionDeclaration and #Schema."""
    members = {"name", "description", "parameters"}
    problems = [f"unknown member {key}" for key in set(declaration) - members]
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}", declaration["name"]):
        problems.append("illegal name")
    if not declaration["description"]:
        problems.append("no description")
    root = declaration.get("parameters")
    if root is None:
        return problems
    if root["type"] != "OBJECT" or not root.get("properties"):
        problems.append("the root is not an object with properties")
    for schema in walk(root):
        problems += gemini_schema_problems(schema)
    return problems


def gemini_schema_problems(schema: Json) -> list[str]:  # noqa: C901 - one rule after the other
    problems = [f"unknown field {key}" for key in set(schema) - GEMINI]
    if "anyOf" in schema:
        return problems + [f"{key} beside anyOf" for key in set(schema) - {"anyOf"}]
    kind = schema.get("type")
    if kind not in GEMINI_TYPES:
        return [*problems, f"illegal type {kind!r}"]
    if kind == "ARRAY" and "items" not in schema:
        problems.append("items: missing field")
    if "enum" in schema:
        if kind != "STRING":
            problems.append("enum: only allowed for STRING type")
        problems += ["an enum value" for it in schema["enum"] if not isinstance(it, str) or not it]
    if "format" in schema and schema["format"] not in GEMINI_FORMATS.get(kind, ()):
        problems.append(f"illegal format {schema['format']!r}")
    if kind == "OBJECT":
        properties = schema.get("properties", {})
        if "properties" in schema and not properties:
            problems.append("properties: should be non-empty for OBJECT type")
        problems += [
            f"required: {name} is not defined"
            for name in schema.get("required", [])
            if name not in properties
        ]
        for name in properties:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", name):
                problems.append(f"illegal property {name!r}")
    elif "properties" in schema or "required" in schema:
        problems.append("properties: only allowed for OBJECT type")
    return problems


def walk(schema: Any) -> Iterator[Json]:
    if isinstance(schema, dict):
        yield schema
        for key in CHILDREN:
            yield from walk(schema.get(key))
        for key in CHILDREN_BY_NAME:
            for inner in schema.get(key, {}).values():
                yield from walk(inner)
        for key in CHILDREN_IN_LISTS:
            for inner in schema.get(key, []):
                yield from walk(inner)


def listed(value: Any) -> list[str]:
    return [] if value is None else [value] if isinstance(value, str) else list(value)


def of_kind(value: Any, kinds: list[str]) -> bool:
    return jsonschema_rs.is_valid({"type": kinds}, value)


def object_levels(schema: Any) -> int:
    if not isinstance(schema, dict):
        return 0
    inner = [*schema.get("properties", {}).values(), schema.get("items"), *schema.get("anyOf", [])]
    below = max(map(object_levels, inner), default=0)
    return below + ("object" in listed(schema.get("type")))
