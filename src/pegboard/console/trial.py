"""Trial: call a tool from a form, through the same door as the call of any client."""

from collections.abc import Mapping
from time import perf_counter
from typing import Any, Literal, cast

import msgspec
from starlette.datastructures import FormData

from pegboard.console.client import asked
from pegboard.console.request import PageRequest
from pegboard.gateway.request import RpcError
from pegboard.model.json_values import object_in

__all__ = ["FormField", "Trial", "arguments_in", "fields_of", "try_tool"]

_MOST_SHOWN = 200_000
"""How many characters of one part of a result a page shows."""

Kind = Literal["text", "lines", "number", "flag", "choice", "json"]


class FormField(msgspec.Struct, frozen=True, kw_only=True):
    """One argument of a tool in a form."""

    name: str
    kind: Kind
    value: str = ""
    description: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()
    """The values of a choice, as JSON."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a result as a page shows it."""

    kind: str
    text: str
    is_cut: bool = False


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a call."""

    error: str = ""
    """Why there is no result."""
    is_error: bool = False
    """Whether the tool itself reports a failure."""
    parts: tuple[Part, ...] = ()
    seconds: float | None = None
    arguments: str = ""
    """The arguments that were sent, as JSON."""


def fields_of(schema: Mapping[str, Any], form: FormData | None) -> list[FormField]:
    """Return the fields of a form for a schema, filled in with what was sent, or the defaults."""
    required = schema.get("required")
    wanted = cast("list[object]", required) if isinstance(required, list) else []
    return [
        _field(name, object_in(it), is_required=name in wanted, form=form)
        for name, it in object_in(schema.get("properties")).items()
    ]


def arguments_in(schema: Mapping[str, Any], form: FormData) -> dict[str, Any]:
    """Return the arguments in a form: those of its raw view, or of its fields.

    Raises:
        ValueError: when a field is not what it should be; it says which.
    """
    raw = str(form.get("raw", "")).strip()
    if raw:
        found = _decoded("The JSON", raw)
        if not isinstance(found, dict):
            raise ValueError("The arguments are a JSON object, such as {}.")
        return cast("dict[str, Any]", found)
    arguments: dict[str, Any] = {}
    for it in fields_of(schema, form):
        if it.value or (it.required and it.kind in ("text", "lines")):
            is_text = it.kind in ("text", "lines")
            arguments[it.name] = it.value if is_text else _decoded(f"`{it.name}`", it.value)
    return arguments


async def try_tool(page: PageRequest, name: str, arguments: Mapping[str, Any]) -> Trial:
    """Call a tool as the person who looks at the page."""
    began = perf_counter()
    sent = msgspec.json.format(msgspec.json.encode(arguments), indent=2).decode()
    try:
        result = await asked(page, "tools/call", {"name": name, "arguments": dict(arguments)})
    except RpcError as error:
        return Trial(error=error.message, seconds=perf_counter() - began, arguments=sent)
    if result.get("resultType", "complete") != "complete":
        words = "The server asks a question. A client that answers questions can call this tool."
        return Trial(error=words, seconds=perf_counter() - began, arguments=sent)
    return Trial(
        is_error=bool(result.get("isError")),
        parts=tuple(_parts(result)),
        seconds=perf_counter() - began,
        arguments=sent,
    )


def _field(
    name: str, schema: Mapping[str, Any], *, is_required: bool, form: FormData | None
) -> FormField:
    kind, choices = _kind_of(schema)
    default = schema.get("default")
    value = "" if default is None else _as_field(default, kind)
    if form is not None:
        value = str(form.get(f"field.{name}", ""))
    description: object = schema.get("description")
    return FormField(
        name=name,
        kind=kind,
        value=value,
        description=description if isinstance(description, str) else "",
        required=is_required,
        choices=choices,
    )


def _kind_of(schema: Mapping[str, Any]) -> tuple[Kind, tuple[str, ...]]:
    choices: object = schema.get("enum")
    if isinstance(choices, list):
        return "choice", tuple(_as_json(it) for it in cast("list[object]", choices))
    kinds: dict[object, Kind] = {
        "string": "text",
        "integer": "number",
        "number": "number",
        "boolean": "flag",
    }
    kind = schema.get("type")
    if isinstance(kind, list):
        several = [it for it in cast("list[object]", kind) if it != "null"]
        kind = several[0] if len(several) == 1 else None
    if kind == "string" and isinstance(schema.get("maxLength"), int) and schema["maxLength"] > 500:
        return "lines", ()
    return (kinds.get(kind, "json") if isinstance(kind, str) else "json"), ()


def _as_field(value: object, kind: Kind) -> str:
    return value if isinstance(value, str) and kind in ("text", "lines") else _as_json(value)


def _as_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _decoded(what: str, text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"{what} is not JSON: {error}") from error


def _parts(result: Mapping[str, Any]) -> list[Part]:
    found: list[Part] = []
    content: object = result.get("content")
    for it in cast("list[object]", content) if isinstance(content, list) else []:
        block = object_in(it)
        text: object = block.get("text")
        if block.get("type") == "text" and isinstance(text, str):
            found.append(_part("text", text))
        else:
            found.append(_part(str(block.get("type", "?"))[:50], _pretty(block)))
    if "structuredContent" in result:
        found.append(_part("structured", _pretty(result["structuredContent"])))
    return found


def _part(kind: str, text: str) -> Part:
    return Part(kind=kind, text=text[:_MOST_SHOWN], is_cut=len(text) > _MOST_SHOWN)


def _pretty(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
