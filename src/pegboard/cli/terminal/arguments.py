"""Parse the arguments of a call as typed at the prompt, each as its JSON Schema asks."""

import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import Any, cast

import msgspec
import typer

from pegboard.config.atomic_write import read_named_file
from pegboard.gateway.tool_lines import type_name
from pegboard.model.json_values import object_in

__all__ = [
    "NotOfTypeError",
    "arguments_of",
    "choices_of",
    "json_form",
    "kinds_of",
    "missing_in",
    "part_of",
    "typed",
]

_NONE = object()
_BOOLEANS: dict[str, object] = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
# No JSON has longer ones.
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
_NUMBER = re.compile(r"[+-]?([0-9]{1,400}(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_REFERENCE = re.compile(r"#/(?:\$defs|definitions)/([^/]+)")
_DEEPEST = 16
_MOST_VARIANTS = 500
# In this order: what could be a number is one, unless only text will do.
_READINGS = ("integer", "number", "boolean", "array", "object", "string", "null")

_LONGEST_FORM = 60
_EXAMPLES: Mapping[str, object] = {
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "string": "text",
    "array": [],
    "object": {},
}

Schema = Mapping[str, Any]


class NotOfTypeError(ValueError):
    """A text is no value of the expected type; the message names that type."""


def typed(text: str, schema: object, root: Schema) -> Any:
    """Return the value that a text stands for.

    Args:
        text: what was typed.
        schema: of the value.
        root: where its references lead to.

    Raises:
        NotOfTypeError: when it stands for none.
    """
    choices = choices_of(schema, root)
    if choices is not None:
        for choice in choices:
            if text in (choice, _written(choice)):
                return choice
        raise NotOfTypeError(f"one of {', '.join(map(_written, choices))}")
    kinds = kinds_of(schema, root)
    if not kinds:
        return _anything(text)
    for kind in _READINGS:
        if kind in kinds:
            found = _read(text, kind, schema, root)
            if found is not None:
                return found[0]
    raise NotOfTypeError(type_name(schema, root))


def kinds_of(schema: object, root: Schema) -> frozenset[str]:
    """Return the types of JSON that a schema permits, by their names; none if it does not say."""
    kinds: set[str] = set()
    for part in _variants(schema, root):
        named = part.get("type")
        listed = cast("Sequence[object]", named) if isinstance(named, list | tuple) else (named,)
        kinds |= {it for it in listed if isinstance(it, str)}
        if named is None and "properties" in part:
            kinds.add("object")
    return frozenset(kinds)


def choices_of(schema: object, root: Schema) -> list[Any] | None:
    """Return the values that a schema permits, if it lists them."""
    choices: list[Any] = []
    for part in _variants(schema, root):
        if "const" in part:
            choices.append(part["const"])
        elif isinstance(part.get("enum"), list | tuple):
            choices += part["enum"]
        elif part.get("type") != "null":
            return None
    return choices or None


def part_of(schema: object, key: str, root: Schema) -> object:
    """Return the schema of a property; nothing in particular where there is none."""
    for part in _variants(schema, root):
        properties = object_in(part.get("properties"))
        if key in properties:
            return properties[key]
    for part in _variants(schema, root):
        if isinstance(part.get("additionalProperties"), Mapping):
            return part["additionalProperties"]
    return {}


def json_form(text: str, schema: object, root: Schema) -> str | None:
    """Return how a list or an object is written in JSON; ``None`` if the schema wants neither.

    Args:
        text: what was typed instead; what it lists is kept where that will do.
        schema: of the value.
        root: where its references lead to.
    """
    kinds = kinds_of(schema, root)
    if "array" in kinds:
        items = _items_of(schema, root)
        words = text.split(",") if len(text) <= _LONGEST_FORM else []
        try:
            listed = [typed(it.strip(), items, root) for it in words]
        except NotOfTypeError:
            listed = []
        return _written(listed or [_example(items, root)])
    if "object" in kinds:
        named = [object_in(it.get("properties")) for it in _variants(schema, root)]
        name = next((name for it in named for name in it), "key")
        return _written({name: _example(part_of(schema, name, root), root)})
    return None


def _example(schema: object, root: Schema) -> object:
    choices = choices_of(schema, root)
    if choices is not None:
        return choices[0]
    kinds = kinds_of(schema, root)
    return next((it for kind, it in _EXAMPLES.items() if kind in kinds), "text")


def _variants(schema: object, root: Schema) -> Iterator[Schema]:
    """Return the parts of a schema of which one has to fit, without references."""
    return islice(_parts(schema, root, _DEEPEST, set()), _MOST_VARIANTS)


def _parts(schema: object, root: Schema, depth: int, visited: set[str]) -> Iterator[Schema]:
    """Return the variants; a definition is visited once, or one could lead to itself for ever."""
    part = object_in(schema)
    if not depth:
        return
    target = _REFERENCE.fullmatch(str(part.get("$ref", "")))
    if target is not None:
        if target[1] not in visited:
            visited.add(target[1])
            places = (object_in(root.get(it)) for it in ("$defs", "definitions"))
            found = next((it[target[1]] for it in places if target[1] in it), None)
            yield from _parts(found, root, depth - 1, visited)
        return
    for keyword in ("anyOf", "oneOf", "allOf"):
        listed: Any = part.get(keyword)
        if isinstance(listed, list | tuple) and listed:
            for it in cast("Iterable[object]", listed):
                yield from _parts(it, root, depth - 1, visited)
            return
    yield part


def _read(text: str, kind: str, schema: object, root: Schema) -> tuple[Any] | None:
    """Return what a text is when read as a type, in a tuple; ``None`` if it cannot be."""
    match kind:
        case "array":
            return _array(text, schema, root)
        case "object":
            return _json(text, dict) if text.lstrip().startswith("{") else None
        case "string":
            return (text,)
        case _:
            found = _scalar(text, kind)
            return None if found is _NONE else (found,)


def _scalar(text: str, kind: str) -> object:
    match kind:
        case "integer" | "number" if _INTEGER.fullmatch(text):
            return int(text)
        case "number" if _NUMBER.fullmatch(text) and math.isfinite(float(text)):
            return float(text)
        case "boolean":
            return _BOOLEANS.get(text.casefold(), _NONE)
        case "null" if text == "null":
            return None
        case _:
            return _NONE


def _array(text: str, schema: object, root: Schema) -> tuple[Any] | None:
    if text.lstrip().startswith("["):
        return _json(text, list)
    try:
        return ([typed(text, _items_of(schema, root), root)],)
    except (NotOfTypeError, RecursionError):
        # A list may be one of such lists, and so on for ever.
        return None


def _items_of(schema: object, root: Schema) -> object:
    return next((it["items"] for it in _variants(schema, root) if "items" in it), None)


def _json(text: str, kind: type) -> tuple[Any] | None:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    return (found,) if isinstance(found, kind) else None


def _anything(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _written(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


STDIN = "-"


def arguments_of(words: Sequence[str], schema: Mapping[str, Any], *, args: str | None) -> Any:
    """Return the arguments, converted to the types of the schema.

    Args:
        words: ``key=value``, ``key:=JSON``, ``key=@file``, ``key.part=value``, or ``-`` for an
            object on standard input; a key that comes again adds to an array.
        schema: of all arguments.
        args: an object with further arguments.

    Raises:
        typer.BadParameter: when the words are not arguments of the tool.
    """
    found: dict[str, Any] = {}
    if args is not None:
        found |= _object(args, "--args")
    repeated: dict[str, list[Any]] = {}
    for word in words:
        if word == STDIN:
            found |= _object(sys.stdin.read(), "Standard input")
            continue
        key, value = _pair(word, schema)
        repeated.setdefault(key, []).append(value)
    for key, values in repeated.items():
        _put(found, _path(key, schema), _joined(key, values))
    return found


def missing_in(arguments: Mapping[str, Any], schema: Mapping[str, Any]) -> list[str]:
    """Return the required arguments that are not there and have no default."""
    required: Any = schema.get("required")
    names = cast("Sequence[object]", required) if isinstance(required, list | tuple) else ()
    properties = object_in(schema.get("properties"))
    return [
        name
        for name in names
        if isinstance(name, str)
        and name not in arguments
        and "default" not in object_in(properties.get(name))
    ]


def _pair(word: str, schema: Mapping[str, Any]) -> tuple[str, Any]:
    key, sign, text = word.partition("=")
    if not sign or not key.rstrip(":"):
        raise typer.BadParameter(
            f"{word!r} is not an argument: write `key=value`, `key:=JSON`, `key=@file`, or `-` "
            "for an object on standard input."
        )
    is_json = key.endswith(":") and not _knows(schema, key)
    name = key.removesuffix(":") if is_json else key
    if text.startswith("@@"):
        text = text[1:]
    elif text.startswith("@"):
        text = _content(text[1:], name)
    if is_json:
        return name, _decoded(text, f"`{name}:=`")
    part = _schema_at(name, schema)
    try:
        return name, typed(text, part, schema)
    except NotOfTypeError as error:
        form = json_form(text, part, schema)
        how = "." if form is None else f": write {name}='{form}'."
        raise typer.BadParameter(f"`{name}` takes {error}, not {text[:100]!r}{how}") from error


def _joined(key: str, values: list[Any]) -> Any:
    if len(values) == 1:
        return values[0]
    if all(isinstance(it, list) for it in values):
        return [item for it in values for item in it]
    raise typer.BadParameter(f"`{key}` is given several times, but takes one value.")


def _knows(schema: Mapping[str, Any], key: str) -> bool:
    return key in object_in(schema.get("properties"))


def _path(key: str, schema: Mapping[str, Any]) -> list[str]:
    return [key] if _knows(schema, key) else key.split(".")


def _schema_at(key: str, schema: Mapping[str, Any]) -> object:
    part: object = schema
    for name in _path(key, schema):
        part = part_of(part, name, schema)
    return part


def _put(found: dict[str, Any], path: Sequence[str], value: Any) -> None:
    *outer, last = path
    place = found
    for name in outer:
        inner = place.setdefault(name, {})
        if not isinstance(inner, dict):
            raise typer.BadParameter(
                f"`{'.'.join(path)}` is inside `{name}`, which is not an object."
            )
        place = cast("dict[str, Any]", inner)
    place[last] = value


def _object(text: str, where: str) -> dict[str, Any]:
    found = _decoded(text, where)
    if not isinstance(found, dict):
        raise typer.BadParameter(f'{where} takes a JSON object, such as {{"key": "value"}}.')
    return cast("dict[str, Any]", found)


def _decoded(text: str, where: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise typer.BadParameter(f"{where} takes JSON: {error}") from error


def _content(name: str, key: str) -> str:
    try:
        text = read_named_file(Path(name).expanduser()).decode("utf-8")
        return StringIO(text, newline=None).read()
    except (OSError, ValueError, RuntimeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise typer.BadParameter(
            f"The file {name!r} for `{key}` cannot be read: {reason}. Write `@@` for a text that "
            "begins with `@`."
        ) from error
