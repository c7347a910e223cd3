"""An entry of `tools.json`: taken apart when it is read, put together when it is written."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple, cast

import msgspec

from pegboard.errors import InvalidToolError
from pegboard.model import Annotations, Tool, Usage
from pegboard.model.lazy import LazyTool
from pegboard.model.tool_names import check_name
from pegboard.storage.encoding import KNOWN_FIELDS, decode_tool

__all__ = [
    "USAGE_FIELDS",
    "Entry",
    "EntryError",
    "Raws",
    "StoredUsage",
    "counted",
    "extras_of",
    "has_usage",
    "plain_tool",
    "read_entry",
    "read_usage",
    "with_usage",
]

USAGE_FIELDS: frozenset[str] = frozenset(Usage.__struct_fields__)

Raws = dict[str, msgspec.Raw]

_encode = msgspec.json.Encoder().encode
_decode_members = msgspec.json.Decoder(Raws).decode
# We write it last: then it can be cut off without reading the entry.
_TAIL_START = b',"use_frequency":'
_TAIL = re.compile(rb',("use_frequency":[0-9]+(?:,"last_used":"[^"]*")?\})')
_LONGEST_TAIL = 120
_FIELD = re.compile(r"at `\$\.(\w+)")
_OBJECT = ord("{")


class Entry(NamedTuple):
    """An entry of the file."""

    text: bytes
    """Without its usage."""
    extras: bytes | None
    usage: Usage | None
    tool: Tool


class EntryError(ValueError):
    """An entry, or one of its fields, is not of the right shape."""

    def __init__(self, problem: str, field: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.field = field


class StoredUsage(msgspec.Struct):
    """A usage in the words of the file."""

    use_frequency: Annotated[int, msgspec.Meta(ge=0)] | None = None
    last_used: datetime | None = None


class _PlainEntry(msgspec.Struct, forbid_unknown_fields=True):
    """An entry as we write it, without unknown fields and without anything that is ``null``."""

    name: str = ""
    description: str = ""
    # Absent is `None`, but `null` is not plain.
    mcp_server: str = cast("str", None)
    category: str = cast("str", None)
    tags: tuple[str, ...] = ()
    defer_loading: bool = True
    annotations: Annotations = Tool(name="any").annotations
    input_schema: msgspec.Raw = msgspec.Raw(b"{}")
    output_schema: msgspec.Raw = cast("msgspec.Raw", None)


_decode_plain = msgspec.json.Decoder(_PlainEntry).decode
_decode_usage = msgspec.json.Decoder(StoredUsage).decode


def read_entry(name: str, text: bytes) -> Entry:
    """Take an entry apart.

    Raises:
        EntryError: when it is not that of a tool of this name.
    """
    try:
        check_name(name)
        usage = None
        start = text.rfind(_TAIL_START, -_LONGEST_TAIL)
        tail = _TAIL.fullmatch(text, start) if start > 0 else None
        plain = text
        if tail is not None:
            usage = counted(_decode_usage(b"{" + tail[1]))
            plain = text[:start] + b"}"
        tool = plain_tool(plain)
        if tool is not None and tool.name == name:
            return Entry(plain, None, usage, tool)
        return _mended(name, text)
    except InvalidToolError as error:
        raise EntryError(str(error)) from None
    except EntryError:
        raise
    except (ValueError, OverflowError, RecursionError) as error:
        found = _FIELD.search(str(error))
        raise EntryError(f"{error}.", found and found[1]) from None


def read_usage(fields: Raws) -> Usage | None:
    """Return the usage that fields of an entry say, ``None`` for none.

    Raises:
        ValueError: when they are not of the right shape.
    """
    return counted(_decode_usage(_encode(fields)))


def counted(usage: StoredUsage) -> Usage | None:
    """Return a usage as the store has it, ``None`` for none."""
    last = usage.last_used
    if last is not None:
        last = last.replace(tzinfo=UTC) if last.tzinfo is None else last.astimezone(UTC)
    found = Usage(use_frequency=usage.use_frequency or 0, last_used=last)
    return None if found == Usage() else found


def with_usage(text: bytes, usage: Usage) -> bytes:
    """Return an entry with its usage in it."""
    start = text[:-1] + _TAIL_START + b"%d" % usage.use_frequency
    if usage.last_used is None:
        return start + b"}"
    return start + b',"last_used":%b}' % _encode(usage.last_used)


def has_usage(text: bytes) -> bool:
    """Tell whether an entry may end in its usage."""
    return text.rfind(_TAIL_START, -_LONGEST_TAIL) > 0


def plain_tool(text: bytes) -> Tool | None:
    """Return the tool of an entry that is as we write it and has no usage, otherwise ``None``.

    It is read once, both to check it and to have it.
    """
    try:
        entry = _decode_plain(text)
    except msgspec.ValidationError:
        return None
    given, returned = entry.input_schema, entry.output_schema
    if memoryview(given)[0] != _OBJECT:
        return None
    if cast("Any", returned) is not None and memoryview(returned)[0] != _OBJECT:
        return None
    return LazyTool(
        name=entry.name,
        description=entry.description,
        input_schema=cast("Any", given),
        output_schema=cast("Any", returned),
        annotations=entry.annotations,
        server=entry.mcp_server,
        tags=entry.tags,
        category=entry.category,
        defer_loading=entry.defer_loading,
    )


def extras_of(text: bytes) -> bytes | None:
    """Return the fields of an entry that Pegboard does not know, ``None`` when there are none."""
    try:
        _decode_plain(text)
    except msgspec.ValidationError:
        found = _decode_members(text)
        extras = {name: it for name, it in found.items() if name not in KNOWN_FIELDS}
        return _encode(extras) if extras else None
    return None


def _mended(name: str, text: bytes) -> Entry:
    """An entry that is not as we write it: by hand, or by whoever wrote version 0."""
    found = _decode_members(text)
    usage = {field: found.pop(field) for field in USAGE_FIELDS if field in found}
    kept = {
        field: it
        for field, it in found.items()
        if field not in KNOWN_FIELDS or bytes(it) != b"null"
    }
    if "name" not in kept:
        kept = {"name": msgspec.Raw(_encode(name)), **kept}
    for field in ("input_schema", "output_schema"):
        if field in kept and bytes(kept[field])[:1] != b"{":
            raise EntryError("Expected `object`.", field)
    text = _encode(kept)
    tool = decode_tool(text)
    if tool.name != name:
        problem = (
            f"The tool is called {tool.name!r} inside: rename it there too, or leave that out."
        )
        raise EntryError(problem, "name")
    return Entry(text, extras_of(text), read_usage(usage), tool)
