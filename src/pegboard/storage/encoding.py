"""Exact JSON encoding of tools, rows and values: refuses a value that would come back different."""

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from pegboard.errors import InvalidToolError
from pegboard.model import Annotations, Tool, freeze
from pegboard.model.lazy import LazyTool
from pegboard.storage.store import StoredTool

__all__ = [
    "KNOWN_FIELDS",
    "Row",
    "check_key",
    "check_schemas",
    "check_tenant",
    "decode_tool",
    "encode_extras",
    "encode_named_value",
    "encode_tool",
    "encode_value",
    "read_row",
    "row_of",
]

MAX_KEY_LENGTH = 512
MAX_DEPTH = 128
"""Deeper values could be written by one caller and not be read by another with less stack left."""
Row = tuple[str, bytes, bytes | None]
"""The name, body and extras of a tool; extras of ``None`` leave the stored ones as they are."""
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]')
_PLAIN_KEY = re.compile(r"[^\x00-\x1f\x7f]+")


# This very object: msgspec leaves out a default only if it is identical.
_NO_HINTS = Tool(name="any").annotations
# Not `Raw | None`: msgspec decodes only `null` to such a union.
_ABSENT = msgspec.Raw(b"")


class _Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The JSON object of a tool, without its usage."""

    name: str
    description: str = ""
    mcp_server: str | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    # Always written: the file format and `Tool` have different defaults.
    defer_loading: bool | msgspec.UnsetType = msgspec.UNSET
    annotations: Annotations = _NO_HINTS
    input_schema: msgspec.Raw = _ABSENT
    output_schema: msgspec.Raw = _ABSENT


class _StrictEntry(_Entry, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same, when it has no other field, and none that is ``null``."""

    mcp_server: str = cast("str", None)
    category: str = cast("str", None)


KNOWN_FIELDS: frozenset[str] = frozenset({*_Entry.__struct_fields__, "use_frequency", "last_used"})
"""The fields of an entry that belong to the definition or its usage; other fields are extras."""

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Entry)
_strict_decoder = msgspec.json.Decoder(_StrictEntry)
_EMPTY = msgspec.Raw(b"{}")


def encode_tool(tool: Tool) -> bytes:
    """Return a definition as a JSON object.

    Raises:
        InvalidToolError: when JSON cannot represent it exactly.
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
    """Return the definition in a JSON object; unknown fields are ignored, unless ``strict``.

    The schemas refer to the text and keep all of it in memory: pass one entry, not a whole file.

    Raises:
        ValueError: when the text is not the entry of a tool, or, if ``strict``, has other fields
            or one that is ``null``.
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
    """Return extras as a JSON object.

    Raises:
        ValueError: when JSON cannot represent them exactly.
    """
    return encode_value({name: it for name, it in extras.items() if name not in KNOWN_FIELDS})


def encode_value(value: object) -> bytes:
    """Return a value as JSON text.

    Raises:
        ValueError: when JSON cannot represent it exactly.
    """
    try:
        text = _encoder.encode(value)
        if _depth(text) > MAX_DEPTH:
            raise ValueError(f"It is nested more than {MAX_DEPTH} levels deep.")
        # NaN becomes null, and a date or a number as a key becomes text.
        if msgspec.json.decode(text) == value:
            return text
    except RecursionError:
        raise ValueError(f"It is nested more than {MAX_DEPTH} levels deep.") from None
    except (TypeError, OverflowError, msgspec.MsgspecError) as error:
        raise ValueError(f"It is not JSON: {error}.") from error
    raise ValueError("It contains a value that JSON does not have, such as NaN or a date.")


def row_of(tool: object) -> Row:
    """Return the database row of a tool.

    Raises:
        TypeError: when it is neither a `Tool` nor a `StoredTool`.
        InvalidToolError, ValueError: when JSON cannot represent it exactly.
    """
    extras = None
    if isinstance(tool, StoredTool):
        tool, extras = tool.tool, encode_extras(tool.extras)
    if not isinstance(tool, Tool):
        raise TypeError(f"A store saves tools, not {type(tool).__name__!r}.")
    return tool.name, encode_tool(tool), extras


def read_row(body: bytes, revision: int, extras: str | bytes | None) -> StoredTool:
    """Return the tool of a database row.

    Raises:
        TypeError, ValueError: when the row is damaged.
    """
    if extras is None or extras in ("{}", b"{}"):
        return StoredTool(tool=decode_tool(body), revision=revision)
    known = freeze(msgspec.json.decode(extras))
    return StoredTool(tool=decode_tool(body), revision=revision, extras=known)


def check_schemas(stored: StoredTool) -> None:
    """Decode the schemas of a tool, which are otherwise decoded at their first use.

    Raises:
        ValueError: when one of them is not JSON.
    """
    _ = stored.tool.input_schema, stored.tool.output_schema


def encode_named_value(key: str, value: object) -> bytes:
    """Return the value of a key as JSON text.

    Raises:
        ValueError: when the key is not valid, or JSON cannot represent the value exactly.
    """
    check_key("key", key)
    try:
        return encode_value(value)
    except ValueError as error:
        raise ValueError(f"The value of {key!r} cannot be stored. {error}") from error


def check_key(kind: str, key: object) -> str:
    """Return a key, or the name of a namespace or tenant, if every backend accepts it.

    Raises:
        TypeError: when it is not a string.
        ValueError: when a backend does not accept it.
    """
    if not isinstance(key, str):
        raise TypeError(f"A {kind} is a string, not {type(key).__name__!r}.")
    if not 0 < len(key) <= MAX_KEY_LENGTH:
        raise ValueError(
            f"A {kind} has 1 to {MAX_KEY_LENGTH} characters, but this one has {len(key)}."
        )
    if not _PLAIN_KEY.fullmatch(key) or any("\ud800" <= letter <= "\udfff" for letter in key):
        raise ValueError(
            f"A {kind} must not contain control characters or lone surrogates: {key!r}."
        )
    return key


def check_tenant(tenant: object) -> str:
    """Return the name of a tenant if it is valid.

    Raises:
        ValueError: when it is empty, too long, or contains control characters.
    """
    return check_key("tenant", tenant)


def _depth(text: bytes) -> int:
    """Return how deep JSON is nested, or 0 when it is certainly not too deep."""
    if text.count(b"{") + text.count(b"[") <= MAX_DEPTH:
        return 0
    deepest = depth = 0
    # One by one: to take all strings out at once would stop all threads for a second.
    for found in _STRING_OR_BRACKET.finditer(text):
        sign = found[0]
        if sign in (b"{", b"["):
            depth += 1
            deepest = max(deepest, depth)
        elif sign in (b"}", b"]"):
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
