"""Parse the arguments of a tool call from the words of a command line."""

import sys
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any, cast

import msgspec
import typer

from pegboard.cli.terminal.typed_values import NotOfTypeError, json_form, part_of, typed
from pegboard.config.atomic_write import read_named_file
from pegboard.model.json_values import object_in

__all__ = ["arguments_of", "missing_in"]

STDIN = "-"


def arguments_of(words: Sequence[str], schema: Mapping[str, Any], *, json: str | None) -> Any:
    """Return the arguments, converted to the types of the schema.

    Args:
        words: ``key=value``, ``key:=JSON``, ``key=@file``, ``key.part=value``, or ``-`` for an
            object on standard input; a key that comes again adds to an array.
        schema: of all arguments.
        json: an object with further arguments.

    Raises:
        typer.BadParameter: when the words are not arguments of the tool.
    """
    found: dict[str, Any] = {}
    if json is not None:
        found |= _object(json, "--json")
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
