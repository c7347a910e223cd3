"""What the conformance suite expects to find: its words, pictures, schemas and questions."""

from typing import Any

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"
    "+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEARKwAAIhYAQACABAAZGF0YQAAAAA="

Content = dict[str, Any]
Question = dict[str, Any]


def text(words: str) -> Content:
    return {"type": "text", "text": words}


IMAGE: Content = {"type": "image", "data": PNG, "mimeType": "image/png"}


def embedded(uri: str, mime_type: str, words: str) -> Content:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": words}}


PLAIN_TOOLS: dict[str, list[Content]] = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [IMAGE],
    "test_audio_content": [{"type": "audio", "data": WAV, "mimeType": "audio/wav"}],
    "test_embedded_resource": [
        embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")
    ],
    "test_multiple_content_types": [
        text("Multiple content types test:"),
        IMAGE,
        embedded(
            "test://mixed-content-resource", "application/json", '{"test":"data","value":123}'
        ),
    ],
}
"""Tools that always answer the same, whatever they are called with."""


def form(message: str, *, required: list[str] | None = None, **properties: Any) -> Question:
    schema = {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
    }
    params = {"message": message, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def sample(prompt: str, max_tokens: int = 100) -> Question:
    messages = [{"role": "user", "content": text(prompt)}]
    params = {"messages": messages, "maxTokens": max_tokens}
    return {"method": "sampling/createMessage", "params": params}


ROOTS: Question = {"method": "roots/list", "params": {}}
STRING = {"type": "string"}
NAME = form("What is your name?", name=STRING)
CONFIRM = form("Please confirm", ok={"type": "boolean"})

DEFAULTS = form(
    "Please review these values.",
    required=[],
    name={"type": "string", "default": "John Doe"},
    age={"type": "integer", "default": 30},
    score={"type": "number", "default": 95.5},
    status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    verified={"type": "boolean", "default": True},
)


def _titled(*titles: str) -> list[dict[str, str]]:
    return [
        {"const": f"value{number}", "title": title} for number, title in enumerate(titles, start=1)
    ]


_OPTIONS = {"type": "string", "enum": ["option1", "option2", "option3"]}
ENUMS = form(
    "Please choose.",
    required=[],
    untitledSingle=_OPTIONS,
    titledSingle={
        "type": "string",
        "oneOf": _titled("First Option", "Second Option", "Third Option"),
    },
    legacyEnum={
        "type": "string",
        "enum": ["opt1", "opt2", "opt3"],
        "enumNames": ["Option One", "Option Two", "Option Three"],
    },
    untitledMulti={"type": "array", "items": _OPTIONS},
    titledMulti={
        "type": "array",
        "items": {"anyOf": _titled("First Choice", "Second Choice", "Third Choice")},
    },
)

ADDRESS = {"street": STRING, "city": STRING}
SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": ADDRESS}},
    "properties": {
        "name": STRING,
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": STRING,
        "email": STRING,
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

RESOURCES: dict[str, Content] = {
    "test://static-text": {
        "mimeType": "text/plain",
        "text": "This is the content of the static text resource.",
    },
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
    "test://watched-resource": {"mimeType": "text/plain", "text": "Watched resource content"},
}
TEMPLATE = "test://template/{id}/data"

PROMPTS: dict[str, list[str]] = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
    "test_input_required_result_prompt": [],
}
"""Prompts, and the arguments that each must be given."""
