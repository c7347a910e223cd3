"""JSON encoding of tools and values, exact: a value that would come back different is refused."""

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from pegboard.errors import InvalidToolError
from pegboard.model import Annotations, Tool, freeze
from pegboard.model.lazy import LazyTool

__all__ = [
    "KNOWN_FIELDS",
    "check_key",
    "check_tenant",
    "decode_tool",
    "encode_extras",
    "encode_named_value",
    "encode_tool",
    "encode_value",
]

MAX_KEY_LENGTH = 512
MAX_DEPTH = 128
"""Deeper values could be written by one who has little on the stack, and not read by another."""
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"')
_PLAIN_KEY = re.compile(r"[^\x00-\x1f\x7f]+")


# The very object: only that is known to be a default, and left out.
_NO_HINTS = Tool(name="any").annotations
# Not `Raw | None`: such a union knows only `null`.
_ABSENT = msgspec.Raw(b"")


class _Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A tool in the words of the document, without its usage."""

    name: str
    description: str = ""
    mcp_server: str | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    # Written always: the document and `Tool` do not agree about its default.
    defer_loading: bool | msgspec.UnsetType = msgspec.UNSET
    annotations: Annotations = _NO_HINTS
    input_schema: msgspec.Raw = _ABSENT
    output_schema: msgspec.Raw = _ABSENT


class _StrictEntry(_Entry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same, when it has no other field, and none that is ``null``."""

    mcp_server: str = cast("str", None)
    category: str = cast("str", None)


KNOWN_FIELDS: frozenset[str] = frozenset({*_Entry.__struct_fields__, "use_frequency", "last_used"})
"""The fields of an entry that belong to the definition or its usage; the others are extras."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Entry)
_strict_decoder = msgspec.json.Decoder(_StrictEntry)
_EMPTY = msgspec.Raw(b"{}")


def encode_tool(tool: Tool) -> bytes:
    """Return a definition as a JSON object.

    Raises:
        InvalidToolError: when JSON cannot hold it exactly.
    """
    try:
        return _encoder.encode(
            _Entry(
                name=tool.name,
                description=tool.description,
                mcp_server=tool.server,
                category=tool.category,
                tags=tool.tags,
                defer_loading=tool.defer_loading,
                annotations=tool.annotations,
                input_schema=_schema(tool.input_schema) if tool.input_schema else _ABSENT,
                output_schema=_ABSENT
                if tool.output_schema is None
                else _schema(tool.output_schema),
            )
        )
    except RecursionError:
        raise InvalidToolError(f"Tool {tool.name!r} is nested too deeply to be stored.") from None
    except (TypeError, ValueError, OverflowError, msgspec.MsgspecError) as error:
        raise InvalidToolError(f"Tool {tool.name!r} cannot be stored as JSON: {error}.") from error


def decode_tool(text: bytes | msgspec.Raw, *, strict: bool = False) -> Tool:
    """Return the definition in a JSON object; fields it does not know are left alone.

    Its schemas refer to the text, and keep all of it in memory: give it an entry, not a file.

    Raises:
        ValueError: when it is not the entry of a tool, or, if ``strict``, has other fields or
            one that is ``null``.
    """
    entry = _strict_decoder.decode(text) if strict else _decoder.decode(text)
    deferred = entry.defer_loading
    return LazyTool(
        name=entry.name,
        description=entry.description,
        input_schema=cast("Any", _object("input_schema", entry.input_schema, strict) or _EMPTY),
        output_schema=cast("Any", _object("output_schema", entry.output_schema, strict)),
        annotations=entry.annotations,
        server=entry.mcp_server,
        tags=entry.tags,
        category=entry.category,
        defer_loading=True if deferred is msgspec.UNSET else deferred,
    )


def encode_extras(extras: Mapping[str, Any]) -> bytes:
    """Return unknown fields as a JSON object.

    Raises:
        ValueError: when JSON cannot hold them exactly.
    """
    return encode_value({name: it for name, it in extras.items() if name not in KNOWN_FIELDS})


def encode_value(value: object) -> bytes:
    """Return a value as JSON text.

    Raises:
        ValueError: when JSON cannot hold it exactly.
    """
    try:
        text = _encoder.encode(value)
        if _depth(text) > MAX_DEPTH:
            raise ValueError(f"It is nested more than {MAX_DEPTH} levels deep.")
        # Not a number becomes null, a date or a number as a key becomes text, and so on.
        if msgspec.json.decode(text) == value:
            return text
    except RecursionError:
        raise ValueError(f"It is nested more than {MAX_DEPTH} levels deep.") from None
    except (TypeError, OverflowError, msgspec.MsgspecError) as error:
        raise ValueError(f"It is not JSON: {error}.") from error
    raise ValueError("It holds something that JSON does not have, such as NaN or a date.")


def encode_named_value(key: str, value: object) -> bytes:
    """Return the value of a key as JSON text.

    Raises:
        ValueError: when it is no key, or JSON cannot hold the value exactly.
    """
    check_key("key", key)
    try:
        return encode_value(value)
    except ValueError as error:
        raise ValueError(f"The value of {key!r} cannot be stored. {error}") from error


def check_key(kind: str, key: object) -> str:
    """Return a key, or a name of a room or tenant, if every backend can hold it.

    Raises:
        ValueError: when one cannot.
    """
    if not isinstance(key, str):
        raise TypeError(f"A {kind} is a string, not {type(key).__name__!r}.")
    if not 0 < len(key) <= MAX_KEY_LENGTH:
        raise ValueError(f"A {kind} has 1 to {MAX_KEY_LENGTH} characters, this one {len(key)}.")
    if not _PLAIN_KEY.fullmatch(key) or any("\ud800" <= letter <= "\udfff" for letter in key):
        raise ValueError(f"A {kind} has no control characters or halves of letters: {key!r}.")
    return key


def check_tenant(tenant: object) -> str:
    """Return the name of a tenant if it can be one.

    Raises:
        ValueError: when it is empty, too long, or holds control characters.
    """
    return check_key("tenant", tenant)


def _depth(text: bytes) -> int:
    """Return how deep JSON is nested, or anything small when that is certainly harmless."""
    if text.count(b"{") + text.count(b"[") <= MAX_DEPTH:
        return 0
    deepest = depth = 0
    for letter in _STRING.sub(b"", text):
        if letter in b"{[":
            depth += 1
            deepest = max(deepest, depth)
        elif letter in b"}]":
            depth -= 1
    return deepest


def _object(field: str, text: msgspec.Raw, strict: bool) -> msgspec.Raw | None:  # noqa: FBT001 - faster
    if text is _ABSENT:
        return None
    begin = bytes(memoryview(text)[:4])
    if begin == b"" or (begin == b"null" and not strict):
        return None
    if not begin.startswith(b"{"):
        raise ValueError(f"The `{field}` is not an object.")
    return text


def _schema(schema: Mapping[str, Any]) -> msgspec.Raw:
    return msgspec.Raw(encode_value(freeze(schema)))
