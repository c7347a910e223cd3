"""The text of `tools.json` and of the state beside it: read with every mistake in its place."""

import re
import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from pegboard.errors import StorageError, StoreDamagedError, StoreVersionError
from pegboard.storage.encoding import KNOWN_FIELDS, decode_tool
from pegboard.storage.json_file.content import JsonContent
from pegboard.storage.json_file.entries import EntryError, Raws, StoredUsage, counted, read_entry
from pegboard.storage.json_file.paths import JsonPaths
from pegboard.storage.json_file.pieces import VERSION, read_as_written
from pegboard.storage.json_file.places import items, members, place_of, syntax_error
from pegboard.storage.open_store import DEFAULT_TENANT

__all__ = [
    "check_tenant",
    "damaged",
    "load_content",
    "offset_said",
    "read_state",
    "read_tools",
]

_encode = msgspec.json.Encoder().encode
_decode_members = msgspec.json.Decoder(Raws).decode
_decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_decode_rooms = msgspec.json.Decoder(dict[str, Raws]).decode
_decode_tenant = msgspec.json.Decoder(str | None).decode
_BOM = b"\xef\xbb\xbf"
_decode_usages = msgspec.json.Decoder(dict[str, StoredUsage]).decode
_SERVER_FILES = frozenset({"mcpServers", "servers", "context_servers"})
"""What a client's configuration has at its top; people mix the two up."""


def load_content(paths: JsonPaths, tenant: str | None) -> JsonContent:
    """Return what the files of a tenant hold, as far as there are any.

    Raises:
        StorageError: when they are somebody else's, are damaged, or are newer than this.
    """
    content = JsonContent()
    with suppress(FileNotFoundError), paths.tools.open("rb", buffering=0) as file:
        if not read_as_written(content, file):
            file.seek(0)
            read_tools(content, file.read(), paths.tools)
        check_tenant(content.tenant, tenant, paths.tools)
    with suppress(FileNotFoundError):
        read_state(content, paths.state.read_bytes(), paths.state)
        check_tenant(content.tenant, tenant, paths.state)
    content.tenant = tenant
    return content


def check_tenant(found: str | None, wanted: str | None, path: Path) -> None:
    """Keep everybody from what is somebody else's, by whatever path they come.

    Raises:
        StorageError: when it is.
    """
    found, wanted = found or DEFAULT_TENANT, wanted or DEFAULT_TENANT
    if found != wanted:
        raise StorageError(
            f"{path} belongs to the tenant {found!r}, not to {wanted!r}. Nothing was changed. Use "
            f'another path, or give it away: `"tenant": "{wanted}"` beside the `version` in it.',
            url=str(path),
        )


def read_tools(content: JsonContent, data: bytes, path: Path) -> None:
    """Take the tools and their usage from the bytes of a file.

    Raises:
        StoreDamagedError: when it is not what it should be.
        StoreVersionError: when it is newer than this.
    """
    compact = _compact(data, path)
    # The file is large, and wanted again only to say where it is damaged.
    del data
    around = _listed(compact, path) if compact[:1] == b"[" else _object(compact, path)
    del compact
    version = _version(around, path) if "version" in around or "tools" in around else 0
    if not version and not around.keys().isdisjoint(_SERVER_FILES):
        raise _wrong(path, "These are servers, not tools: open the file with `Hub.open`.")
    for migrate in MIGRATIONS[version:]:
        around = migrate(around)
    content.tools_version = version
    within = ("tools",) if version else ()
    if "tools" not in around:
        raise _wrong(path, "There is a `version`, but there are no `tools`.")
    raws = _object(around["tools"], path, *within)
    around["tools"] = msgspec.Raw(b"{}")
    content.tenant = _tenant(around, path)
    content.tools_around = _copied(around)
    del around
    for name, raw in raws.items():
        try:
            content.add(name, read_entry(name, bytes(raw)))
        except EntryError as error:
            field = () if error.field is None else (error.field,)
            problem = f"The entry {name!r} is not that of a tool: {error.problem}"
            raise _wrong(path, problem, *within, name, *field) from None


def read_state(content: JsonContent, data: bytes, path: Path) -> None:
    """Take the values of other rooms, and the usage of tools that are not in the file.

    Raises:
        StoreDamagedError: when it is not what it should be.
        StoreVersionError: when it is newer than this.
    """
    around = _object(_compact(data, path), path)
    _version(around, path)
    content.tenant = _tenant(around, path)
    field = "usage"
    try:
        for name, usage in _decode_usages(around.get("usage", b"{}")).items():
            found = counted(usage)
            content.state_uses.add(name)
            if found is not None:
                # What stands in the entry of a tool was written later.
                content.uses.setdefault(name, found)
        field = "values"
        rooms = _decode_rooms(around.get("values", b"{}"))
    except (ValueError, OverflowError) as error:
        raise _wrong(path, f"This is not of the right shape: {error}.", field) from error
    content.state_around = _copied(around)
    content.values = {
        name: {key: bytes(it) for key, it in room.items()} for name, room in rooms.items() if room
    }


def damaged(path: Path, problem: str, text: str, offset: int) -> StoreDamagedError:
    """Return the error that says what is wrong with a file, and where."""
    place = place_of(text, offset)
    store = path.with_suffix("") if path.suffix == ".journal" else path
    return StoreDamagedError(
        problem,
        url=str(path),
        remedy=f"pegboard store recover --store {shlex.quote(str(store))}",
        line=place.line,
        column=place.column,
    )


def offset_said(error: Exception, data: bytes) -> int:
    """Return which letter of a text it is whose byte an error of msgspec speaks of."""
    number = re.search(r"\(byte ([0-9]+)\)", str(error))
    return len(data[: int(number[1])].decode(errors="ignore")) if number else 0


def _wrapped(entries: Raws) -> Raws:
    # The document's file is the entries and nothing else.
    return {"version": msgspec.Raw(b"1"), "tools": msgspec.Raw(_encode(entries))}


MIGRATIONS: tuple[Callable[[Raws], Raws], ...] = (_wrapped,)
"""Each takes the file from the version of its number to the next one."""


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


def _copied(around: Raws) -> Raws:
    # What was read refers to the whole text, which may be large.
    return {name: raw.copy() for name, raw in around.items()}


def _object(compact: bytes | msgspec.Raw, path: Path, *within: str) -> Raws:
    whole = memoryview(compact)
    if bytes(whole[:1]) != b"{":
        raise _wrong(path, "A JSON object is expected here.", *within)
    found = _decode_members(compact)
    # A name that is there twice is longer in the text than in what was read; so is one with
    # needless escapes, for which a closer look is no harm.
    length = len(_encode(list(found))) + sum(memoryview(it).nbytes + 1 for it in found.values())
    if length != whole.nbytes:
        text = path.read_text("utf-8-sig")
        seen: set[str] = set()
        for member in members(text, _offset(text, within, value=True)):
            if member.key in seen:
                raise damaged(path, f"{member.key!r} is here a second time.", text, member.start)
            seen.add(member.key)
    return found


def _listed(compact: bytes, path: Path) -> Raws:
    found: Raws = {}
    for number, raw in enumerate(_decode_items(compact)):
        try:
            name = decode_tool(raw).name
        except (ValueError, RecursionError) as error:
            raise _wrong(path, f"This is not the entry of a tool: {error}.", number) from None
        if name in found:
            raise _wrong(path, f"{name!r} is here a second time.", number)
        found[name] = raw
    return found


def _version(around: Raws, path: Path) -> int:
    text = bytes(around.get("version", b""))
    if text[:1] == b"{":
        # A tool of this name.
        return 0
    if not text:
        inside = bytes(around.get("tools", b""))
        if inside[:1] == b"{" and any(
            field in KNOWN_FIELDS and bytes(it)[:1] != b"{"
            for field, it in _decode_members(inside).items()
        ):
            # Again a tool of this name.
            return 0
        raise _wrong(path, f'There is no version: add `"version": {VERSION}`.')
    if not text.isdigit() or text == b"0" or len(text) > 9:
        raise _wrong(path, "This is not the number of a version.", "version")
    if int(text) > VERSION:
        raise StoreVersionError(url=str(path), found=int(text), known=VERSION)
    return int(text)


def _tenant(around: Raws, path: Path) -> str | None:
    try:
        return _decode_tenant(around.get("tenant", b"null"))
    except msgspec.ValidationError:
        raise _wrong(path, "This is not the name of a tenant.", "tenant") from None


def _wrong(path: Path, problem: str, *steps: str | int) -> StoreDamagedError:
    try:
        text = path.read_text("utf-8-sig")
        offset = _offset(text, steps)
    except (OSError, ValueError):
        # Somebody is writing it at this moment.
        text, offset = "", 0
    return damaged(path, problem, text, offset)


def _offset(text: str, steps: tuple[str | int, ...], *, value: bool = False) -> int:
    """Where the last of the steps that can be found leads to: to its key, or to its value."""
    key_at = value_at = len(text) - len(text.lstrip())
    for step in steps:
        inside = members(text, value_at) if isinstance(step, str) else items(text, value_at)
        for number, member in enumerate(inside):
            if step in (member.key, number):
                key_at, value_at = member.start, member.value_start
        # The last of several counts, as when they are read.
    return value_at if value else key_at
