"""`tools.json` in pieces: so that a large one is never in memory as a whole, or even twice."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, BinaryIO

import msgspec

from pegboard.errors import InvalidToolError
from pegboard.model.tool_names import check_name
from pegboard.storage.json_file.content import JsonContent
from pegboard.storage.json_file.entries import (
    Raws,
    has_usage,
    plain_tool,
    read_entry,
    with_usage,
)

__all__ = ["VERSION", "read_as_written", "state_text", "tools_pieces"]

VERSION = 1

BLOCK = 1 << 18
"""Bytes that are read at once."""
LONGEST = 1 << 24
"""Bytes after which an entry is not looked for in pieces any more."""
ENTRIES = 64
"""Entries that are written at once: few enough that other threads hardly wait."""

# How `_pretty` separates entries. A line cannot break in a text, so what is between two of these is
# a row of entries, or it is not JSON.
_BEFORE = b'\n  "tools": {\n'
_BETWEEN = b"\n    },\n"
_AFTER = b"\n    }\n  }"

_encode = msgspec.json.Encoder().encode
_decode_members = msgspec.json.Decoder(Raws).decode


class _OtherwiseError(Exception):
    """The file is not as we write it."""


def read_as_written(content: JsonContent, file: BinaryIO) -> bool:
    """Take the tools from a file that is as we write it; otherwise tell so, and take nothing."""
    found = JsonContent()
    try:
        _read(found, file)
    except (_OtherwiseError, InvalidToolError, ValueError, RecursionError):
        # Whoever reads all of it at once can say what and where.
        return False
    content.tools, content.extras, content.uses = found.tools, found.extras, found.uses
    content.decoded, content.tools_around = found.decoded, found.tools_around
    content.tenant = found.tenant
    return True


def tools_pieces(content: JsonContent) -> Iterator[bytes]:
    """Give the file with the tools."""
    top = _top(content, content.tools_around)
    top["tools"] = {}
    names = list(top)
    place = names.index("tools") + 1
    yield _pretty({name: top[name] for name in names[:place]})[: -len(b"{}\n}\n")]
    if content.tools:
        yield from _entries(content)
    else:
        yield b"{}"
    rest = _pretty({name: top[name] for name in names[place:]})
    yield b"\n}\n" if place == len(names) else b"," + rest[1:]


def state_text(content: JsonContent) -> bytes | None:
    """Return the file with the state, ``None`` when there is nothing to keep."""
    usage = {name: it for name, it in content.uses.items() if name not in content.tools}
    values = {
        name: {key: msgspec.Raw(room[key]) for key in sorted(room)}
        for name, room in sorted(content.values.items())
    }
    around = _top(content, content.state_around) | {"usage": usage, "values": values}
    kept = {name: it for name, it in around.items() if it not in ({}, None)}
    return _pretty(kept) if kept.keys() - {"version", "tenant"} else None


def _top(content: JsonContent, around: Raws) -> dict[str, Any]:
    """Return what stands at the top of a file, with the version and the tenant in it."""
    top: dict[str, Any] = {**around, "version": VERSION}
    return top if content.tenant is None else top | {"tenant": content.tenant}


def _pretty(value: Mapping[str, Any]) -> bytes:
    """Return JSON as people like to read it."""
    return msgspec.json.format(_encode(value), indent=2) + b"\n"


def _entries(content: JsonContent) -> Iterator[bytes]:
    texts, uses = content.tools, content.uses
    names = iter(texts)
    start = b"{\n"
    while some := tuple(islice(names, ENTRIES)):
        entries = {
            name: msgspec.Raw(with_usage(texts[name], uses[name]) if name in uses else texts[name])
            for name in some
        }
        text = _pretty({"tools": entries})
        yield start + text[len(_BEFORE) + 1 : -len(b"\n  }\n}\n")]
        start = b",\n"
    yield b"\n  }"


def _read(content: JsonContent, file: BinaryIO) -> None:
    text = file.read(BLOCK)
    start = text.find(_BEFORE)
    if start < 0:
        raise _OtherwiseError
    before = _head(text[:start])
    text = text[start + len(_BEFORE) :]
    while True:
        last = text.rfind(_BETWEEN)
        rest = 0 if last < 0 else last + len(_BETWEEN)
        # Not in all of it: to look for it takes as long as to read it.
        end = text.find(_AFTER, rest)
        if end >= 0:
            break
        if rest:
            _take(content, text[:last])
        more = file.read(BLOCK)
        if not more or len(text) - rest > LONGEST:
            raise _OtherwiseError
        text = text[rest:] + more
    _take(content, text[:end])
    _surround(content, before, _tail(text[end + len(_AFTER) :] + file.read()))


def _take(content: JsonContent, text: bytes) -> None:
    entries = _members(b"{" + text + b"\n    }}")
    expected = len(content.tools) + len(entries)
    texts, decoded = content.tools, content.decoded
    for name, entry in zip(entries, map(bytes, entries.values()), strict=True):
        tool = None if has_usage(entry) else plain_tool(entry)
        if tool is not None and tool.name == check_name(name):
            texts[name] = entry
            decoded[name] = tool
        else:
            content.add(name, read_entry(name, entry))
    if len(texts) != expected:
        raise _OtherwiseError


def _surround(content: JsonContent, before: Raws, after: Raws) -> None:
    around = before | {"tools": msgspec.Raw(b"{}")} | after
    if len(around) < len(before) + 1 + len(after) or "tools" in before:
        raise _OtherwiseError
    if bytes(around.get("version", b"")) != b"%d" % VERSION:
        raise _OtherwiseError
    if "tenant" in around:
        content.tenant = msgspec.json.decode(around["tenant"], type=str)
    content.tools_around = {name: raw.copy() for name, raw in around.items()}


def _head(text: bytes) -> Raws:
    if text == b"{":
        return {}
    if not text.endswith(b","):
        raise _OtherwiseError
    return _members(text[:-1] + b"}")


def _tail(text: bytes) -> Raws:
    found = _members(b"{" + text.removeprefix(b","))
    if text.startswith(b",") != bool(found):
        raise _OtherwiseError
    return found


def _members(text: bytes) -> Raws:
    if not text.isascii():
        text.decode()
    compact = msgspec.json.format(text, indent=-1)
    found = _decode_members(compact)
    # What is there twice is shorter in what was read.
    names = len(_encode(list(found))) + len(found)
    if names + sum(map(_length, found.values())) != len(compact):
        raise _OtherwiseError
    return found


def _length(raw: msgspec.Raw) -> int:
    return memoryview(raw).nbytes
