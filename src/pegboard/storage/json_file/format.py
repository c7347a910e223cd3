"""Format of `tools.json` and of the state file beside it: parsing with exact errors, writing."""

import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import msgspec

from pegboard.errors import InvalidToolError, StorageError, StoreVersionError
from pegboard.model import Tool, Usage
from pegboard.model.tool_names import check_name
from pegboard.storage.encoding import KNOWN_FIELDS, decode_tool
from pegboard.storage.json_file.content import JsonContent
from pegboard.storage.json_file.paths import JsonPaths
from pegboard.storage.json_file.positions import damaged, offset_of, syntax_error, walk
from pegboard.storage.open_store import DEFAULT_TENANT

__all__ = [
    "VERSION",
    "FileReader",
    "Raws",
    "ShapeError",
    "check_tenant",
    "load_content",
    "offset_said",
    "read_entry",
    "read_state",
    "read_tools",
    "read_usage",
    "state_text",
    "tools_text",
    "unknown_fields",
]

VERSION = 1
_USAGE_FIELDS = frozenset(Usage.__struct_fields__)

Raws = dict[str, msgspec.Raw]
FileReader = Callable[[JsonContent, Path], None]


class ShapeError(ValueError):
    """Something in a file is not of the right shape; keys and indices lead there."""

    def __init__(self, problem: str, *steps: str | int) -> None:
        super().__init__(problem)
        self.problem = problem
        self.steps = steps


class _StoredUsage(msgspec.Struct):
    use_frequency: Annotated[int, msgspec.Meta(ge=0)] | None = None
    last_used: datetime | None = None


_encode = msgspec.json.Encoder().encode
_decode_members = msgspec.json.Decoder(Raws).decode
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_rooms = msgspec.json.Decoder(dict[str, Raws]).decode
_decode_tenant = msgspec.json.Decoder(str | None).decode
_decode_usage = msgspec.json.Decoder(_StoredUsage).decode
_decode_usages = msgspec.json.Decoder(dict[str, _StoredUsage]).decode
_BOM = b"\xef\xbb\xbf"
_FIELD = re.compile(r"at `\$\.(\w+)|^The `(\w+)` is not")
_SERVER_FILES = frozenset({"mcpServers", "servers", "context_servers"})
"""What a client's configuration has at its top; people mix the two up."""


def load_content(paths: JsonPaths, tenant: str | None) -> JsonContent:
    """Return what the files of a tenant hold, or raise a `StorageError`."""
    content = JsonContent()
    for path, read in ((paths.tools, read_tools), (paths.state, read_state)):
        with suppress(FileNotFoundError):
            read(content, path)
            check_tenant(content.tenant, tenant, path)
    content.tenant = tenant
    return content


def check_tenant(found: str | None, wanted: str | None, path: Path) -> None:
    """Raise a `StorageError` for the file of another tenant, whatever path leads to it."""
    found, wanted = found or DEFAULT_TENANT, wanted or DEFAULT_TENANT
    if found != wanted:
        raise StorageError(
            f"{path} belongs to the tenant {found!r}, not to {wanted!r}. Nothing was changed. Use "
            f'another path, or give it away: `"tenant": "{wanted}"` beside the `version` in it.',
            url=str(path),
        )


def _positioned(take: Callable[[JsonContent, bytes, Path], None]) -> FileReader:
    """Make a reader of compact JSON one of a file, whose errors say line and column."""

    @wraps(take)
    def read(content: JsonContent, path: Path) -> None:
        try:
            take(content, _compact(path.read_bytes(), path), path)
        except ShapeError as error:
            try:
                # Again: a large text is not kept in memory for this.
                text = path.read_text("utf-8-sig")
                offset = offset_of(text, error.steps)
            except (OSError, ValueError):
                # It is being edited at this moment.
                text, offset = "", 0
            raise damaged(path, error.problem, text, offset) from None

    return read


@_positioned
def read_tools(content: JsonContent, compact: bytes, path: Path) -> None:
    """Take the tools and their usage from a file; see `load_content`."""
    around = _listed(compact) if compact[:1] == b"[" else _object(compact)
    version = _version(around, path) if "version" in around or "tools" in around else 0
    within = ("tools",) if version else ()
    if version == 0:
        # The document's file is the entries and nothing else.
        if not around.keys().isdisjoint(_SERVER_FILES):
            raise ShapeError("These are servers, not tools: open the file with `Hub.open`.")
        entries, around = around, {}
    elif "tools" not in around:
        raise ShapeError("There is a `version`, but there are no `tools`.")
    else:
        entries = _object(around["tools"], "tools")
        around["tools"] = msgspec.Raw(b"{}")
    content.tools_version = version
    content.tenant, content.tools_around = _tenant(around), _copied(around)
    for name, raw in entries.items():
        try:
            # RegistryTools writes version 0, with local times.
            text, tool, usage = read_entry(name, bytes(raw), local=version == 0)
        except ShapeError as error:
            problem = f"The entry {name!r} is not that of a tool: {error.problem}"
            raise ShapeError(problem, *within, name, *error.steps) from None
        content.tools[name] = text
        if tool is not None:
            content.decoded[name] = tool
        if usage is not None:
            content.uses[name] = usage


@_positioned
def read_state(content: JsonContent, compact: bytes, path: Path) -> None:
    """Take values, and usage of tools that are not in their file; see `load_content`."""
    around = _object(compact)
    _version(around, path)
    content.tenant, content.state_around = _tenant(around), _copied(around)
    field = "usage"
    try:
        for name, usage in _decode_usages(around.get("usage", b"{}")).items():
            found = _counted(usage)
            if found is not None:
                # The entry of a tool was written later.
                content.uses.setdefault(name, found)
        field = "values"
        for name, room in _decode_rooms(around.get("values", b"{}")).items():
            if room:
                content.values[name] = {key: bytes(it) for key, it in room.items()}
    except (ValueError, OverflowError) as error:
        raise ShapeError(f"This is not of the right shape: {error}.", field) from error


def read_entry(
    name: str, text: bytes, *, local: bool = False
) -> tuple[bytes, Tool | None, Usage | None]:
    """Return the text of an entry without its usage, the tool unless it has more fields, the usage.

    A time without a zone is UTC, or else ``local``.
    A `ShapeError` says what keeps it from being that of a tool of this name.
    """
    try:
        check_name(name)
        try:
            # An entry as it is written, without usage and unknown fields, is decoded only once.
            tool = decode_tool(text, strict=True)
            if tool.name == name:
                return text, tool, None
        except ValueError:
            pass
        fields = _decode_members(text)
        usage = read_usage(fields, local=local)
        kept = {"name": msgspec.Raw(_encode(name))} if "name" not in fields else {}
        for field, it in fields.items():
            is_known = field in KNOWN_FIELDS
            if not is_known or (field not in _USAGE_FIELDS and bytes(it) != b"null"):
                kept[field] = it
        text = _encode(kept)
        tool = decode_tool(text)
    except InvalidToolError as error:
        raise ShapeError(str(error)) from None
    except (ValueError, OverflowError, RecursionError) as error:
        found = _FIELD.search(str(error))
        raise ShapeError(f"{error}.", *([found[1] or found[2]] if found else [])) from None
    if tool.name != name:
        problem = f"The tool is called {tool.name!r} inside: rename it there too, or leave it out."
        raise ShapeError(problem, "name")
    return text, tool if kept.keys() <= KNOWN_FIELDS else None, usage


def read_usage(fields: Raws, *, local: bool = False) -> Usage | None:
    """Return the usage that fields of an entry say, ``None`` for none, or raise a `ValueError`."""
    usage = _decode_usage(_encode({it: fields[it] for it in _USAGE_FIELDS & fields.keys()}))
    return _counted(usage, local=local)


def unknown_fields(text: bytes) -> Raws:
    """Return the fields of an entry that Pegboard does not know."""
    return {name: it for name, it in _decode_members(text).items() if name not in KNOWN_FIELDS}


def tools_text(content: JsonContent) -> bytes:
    """Return the file with the tools."""
    tools = {name: _with_usage(content, name) for name in content.tools}
    return _pretty(_top(content, content.tools_around) | {"tools": tools})


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


def offset_said(error: Exception, data: bytes) -> int:
    """Return which letter of a text it is whose byte an error of msgspec speaks of."""
    number = re.search(r"\(byte ([0-9]+)\)", str(error))
    return len(data[: int(number[1])].decode(errors="ignore")) if number else 0


def _compact(data: bytes, path: Path) -> bytes:
    if not data.strip():
        raise damaged(path, "The file is empty.", "", 0)
    try:
        if not data.isascii():
            data.decode()
        return msgspec.json.format(data.removeprefix(_BOM), indent=-1)
    except UnicodeDecodeError as error:
        text = data[: error.start].decode()
        raise damaged(path, "This is not UTF-8.", text, len(text)) from None
    except (msgspec.DecodeError, RecursionError) as error:
        text = data.decode()
        found = syntax_error(text)
        if found is None:
            # What Python reads as JSON and the standard does not know, such as NaN.
            offset = offset_said(error, data)
            raise damaged(path, f"This is not JSON: {error}.", text, offset) from None
        raise damaged(path, found.problem, text, found.offset) from None


def _object(compact: bytes | msgspec.Raw, *within: str) -> Raws:
    whole = memoryview(compact)
    if bytes(whole[:1]) != b"{":
        raise ShapeError("A JSON object is expected here.", *within)
    found = _decode_members(compact)
    # A name that is there twice is longer in the text than in what was read; so is one with
    # needless escapes, for which a closer look is no harm.
    names = len(_encode(list(found))) + len(found)
    if names + sum(map(len, map(memoryview, found.values()))) != whole.nbytes:
        seen: set[str] = set()
        for _, member in walk(bytes(whole).decode(), 0):
            if member.key in seen:
                raise ShapeError(f"{member.key!r} is here a second time.", *within, member.key)
            seen.add(member.key)
    return found


def _listed(compact: bytes) -> Raws:
    found: Raws = {}
    for number, raw in enumerate(_decode_items(compact)):
        try:
            name = decode_tool(raw).name
        except (ValueError, RecursionError) as error:
            raise ShapeError(f"This is not the entry of a tool: {error}.", number) from None
        if name in found:
            raise ShapeError(f"{name!r} is here a second time.", number)
        found[name] = raw
    return found


def _version(around: Raws, path: Path) -> int:
    text = bytes(around.get("version", b""))
    inside = bytes(around.get("tools", b""))
    if text[:1] == b"{":
        # A tool of this name.
        return 0
    if not text:
        fields = _decode_members(inside) if inside[:1] == b"{" else {}
        if any(it in KNOWN_FIELDS and bytes(fields[it])[:1] != b"{" for it in fields):
            # Again a tool of this name.
            return 0
        raise ShapeError(f'There is no version: add `"version": {VERSION}`.')
    if not text.isdigit() or text == b"0" or len(text) > 9:
        raise ShapeError("This is not the number of a version.", "version")
    if int(text) > VERSION:
        raise StoreVersionError(url=str(path), found=int(text), known=VERSION)
    return int(text)


def _tenant(around: Raws) -> str | None:
    try:
        return _decode_tenant(around.get("tenant", b"null"))
    except msgspec.ValidationError:
        raise ShapeError("This is not the name of a tenant.", "tenant") from None


def _copied(around: Raws) -> Raws:
    # What was read refers to the whole text, which may be large.
    return {name: raw.copy() for name, raw in around.items()}


def _counted(usage: _StoredUsage, *, local: bool = False) -> Usage | None:
    last = usage.last_used
    if last is not None:
        is_utc = last.tzinfo is None and not local
        last = last.replace(tzinfo=UTC) if is_utc else last.astimezone(UTC)
    found = Usage(use_frequency=usage.use_frequency or 0, last_used=last)
    return None if found == Usage() else found


def _with_usage(content: JsonContent, name: str) -> msgspec.Raw:
    text, usage = content.tools[name], content.uses.get(name)
    if usage is not None:
        last = b"" if usage.last_used is None else b',"last_used":' + _encode(usage.last_used)
        text = b'%b,"use_frequency":%d%b}' % (text[:-1], usage.use_frequency, last)
    return msgspec.Raw(text)


def _top(content: JsonContent, around: Raws) -> dict[str, Any]:
    top: dict[str, Any] = {**around, "version": VERSION}
    return top if content.tenant is None else top | {"tenant": content.tenant}


def _pretty(value: dict[str, Any]) -> bytes:
    return msgspec.json.format(_encode(value), indent=2) + b"\n"
