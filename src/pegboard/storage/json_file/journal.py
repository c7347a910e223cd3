"""Journal of a JSON store: one line with a checksum for each write, on the disk before it counts.

A journal continues the files that its header names, and each change says what it replaced. So a
journal can be merged into other files: those that a person has edited since.
"""

import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import uuid4

import msgspec

from pegboard.model import Usage
from pegboard.storage.json_file.paths import Signatures
from pegboard.storage.json_file.positions import damaged

__all__ = [
    "JOURNAL_VERSION",
    "Change",
    "Counted",
    "Forgotten",
    "Header",
    "Put",
    "Removed",
    "Saved",
    "encode_frame",
    "encode_header",
    "is_torn_header",
    "read_frames",
    "read_header",
    "read_journal",
]

JOURNAL_VERSION = 1


class Saved(msgspec.Struct, frozen=True, array_like=True, tag="save"):
    """The entry of a tool is now this one, where ``before`` was the revision."""

    name: str
    before: int | None
    text: msgspec.Raw


class Removed(msgspec.Struct, frozen=True, array_like=True, tag="remove"):
    """There is no such tool any more."""

    name: str
    before: int


class Counted(msgspec.Struct, frozen=True, array_like=True, tag="count"):
    """A tool was now used so often."""

    name: str
    before: Usage | None
    after: Usage | None


class Put(msgspec.Struct, frozen=True, array_like=True, tag="put"):
    """A value of a namespace is now this one."""

    namespace: str
    key: str
    before: int | None
    text: msgspec.Raw


class Forgotten(msgspec.Struct, frozen=True, array_like=True, tag="forget"):
    """There is no such value any more."""

    namespace: str
    key: str
    before: int


Change = Saved | Removed | Counted | Put | Forgotten


class Header(msgspec.Struct, frozen=True, array_like=True):
    """The first line: which files the journal continues."""

    generation: str
    files: Signatures
    follows: object = None
    """Not used any more; earlier versions wrote here which journal the files held already."""
    tenant: str | None = None
    """``None`` is the default tenant."""
    version: int = JOURNAL_VERSION


_encoder = msgspec.json.Encoder()
_decode_changes = msgspec.json.Decoder(list[Change]).decode
_decode_header = msgspec.json.Decoder(Header).decode
_START = b'{"sum":"'
_BODY = len('{"sum":"01234567","do":')
_LONGEST_HEADER = 2_000


def encode_header(files: Signatures, tenant: str | None, version: int = JOURNAL_VERSION) -> bytes:
    """Return the first line of a new journal."""
    return _framed(_encoder.encode(Header(uuid4().hex, files, None, tenant, version)))


def encode_frame(changes: Sequence[Change]) -> bytes:
    """Return a line that says changes: all of them count, or none."""
    return _framed(_encoder.encode(changes))


def read_header(content: bytes) -> tuple[Header | None, int]:
    """Return the header and where it ends; none and 0 when it is not whole."""
    end = content.find(b"\n") + 1
    body = _body(content[:end])
    return (None, 0) if body is None else (_decode_header(body), end)


def is_torn_header(content: bytes) -> bool:
    """Tell whether a journal without a whole header is one whose writer died in its first line.

    Such a writer leaves the beginning of a line. Anything else was a journal once, and its changes
    were perhaps acknowledged.
    """
    is_start = content.startswith(_START) or _START.startswith(content)
    return is_start and b"\n" not in content and len(content) <= _LONGEST_HEADER


def read_frames(content: bytes, start: int) -> Iterator[tuple[list[Change] | None, int]]:
    """Give the changes of each line from an offset on, ``None`` if it is not whole, and its end."""
    while start < len(content):
        end = content.find(b"\n", start) + 1 or len(content)
        body = _body(content[start:end])
        yield None if body is None else _decode_changes(body), end
        start = end


def read_journal(data: bytes, start: int, path: Path) -> tuple[list[Change], int]:
    """Return the changes from an offset on, and where the last whole line ends.

    What follows it was never acknowledged: its writer died.

    Raises:
        StoreDamagedError: when a line is not whole and is not the last.
    """
    changes: list[Change] = []
    end = start
    is_broken = False
    try:
        for line, line_end in read_frames(data, start):
            if line is None:
                is_broken = True
            elif is_broken:
                problem = "This line of the journal is not what was written."
                break
            else:
                changes += line
                end = line_end
        else:
            return changes, end
    except msgspec.MsgspecError as error:
        problem = f"This line of the journal is not known: {error}."
    raise damaged(path, problem, data[:end].decode(errors="replace"), end)


def _framed(body: bytes) -> bytes:
    return b'{"sum":"%08x","do":%b}\n' % (zlib.crc32(body), body)


def _body(line: bytes) -> bytes | None:
    # What a dead writer left of its last line has no end, or another sum.
    body = line[_BODY:-2]
    return body if line == _framed(body) else None
