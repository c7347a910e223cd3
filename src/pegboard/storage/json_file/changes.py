"""Changes of a JSON store, and the lines of the journal that say them."""

import zlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import uuid4

import msgspec

from pegboard.model import Usage

__all__ = [
    "JOURNAL_VERSION",
    "Change",
    "Counted",
    "Forgotten",
    "Header",
    "Position",
    "Put",
    "Removed",
    "Saved",
    "Signature",
    "Signatures",
    "encode_frame",
    "encode_header",
    "new_header",
    "read_frames",
    "read_header",
]

JOURNAL_VERSION = 1

Signature = tuple[int, int, int] | None
"""Of a file: its number, when it was written and its size; ``None`` when there is none."""
Signatures = tuple[Signature, Signature]
"""Of the file with the tools and of the one with the state."""


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


class Position(msgspec.Struct, frozen=True, array_like=True):
    """How far somebody has followed which journal, over which files."""

    generation: str
    offset: int
    files: Signatures


class Header(msgspec.Struct, frozen=True, array_like=True):
    """The first line: which files the journal continues."""

    generation: str
    files: Signatures
    follows: Position | None = None
    """What these files hold: that journal up to that offset, over those files.

    What that journal said after the offset is what this one begins with.
    """
    tenant: str | None = None
    """Whose it is; ``None`` is the default tenant."""
    version: int = JOURNAL_VERSION


class Frame(NamedTuple):
    """One line: changes that happened together, and where the line ends."""

    changes: Sequence[Change]
    end: int


_encoder = msgspec.json.Encoder()
_decode_changes = msgspec.json.Decoder(list[Change]).decode
_decode_header = msgspec.json.Decoder(Header).decode
_START = b'{"sum":"'
_MIDDLE = b'","do":'
_BODY = len(_START) + 8 + len(_MIDDLE)


def encode_header(header: Header) -> bytes:
    """Return the first line of a new journal."""
    return _framed(_encoder.encode(header))


def new_header(files: Signatures, follows: Position | None, tenant: str | None) -> Header:
    """Return a header that nobody else has."""
    return Header(uuid4().hex, files, follows, tenant)


def encode_frame(changes: Sequence[Change]) -> bytes:
    """Return a line that says changes; it counts as a whole or not at all."""
    return _framed(_encoder.encode(changes))


def read_header(content: bytes) -> tuple[Header | None, int]:
    """Return the header and where it ends; none and 0 when it is not whole."""
    end = content.find(b"\n") + 1
    body = _body(content[:end])
    return (None, 0) if body is None else (_decode_header(body), end)


def read_frames(content: bytes, start: int) -> Iterator[Frame | None]:
    """Give every line from an offset on, ``None`` for one that is not whole."""
    while start < len(content):
        end = content.find(b"\n", start) + 1 or len(content)
        body = _body(content[start:end])
        yield None if body is None else Frame(_decode_changes(body), end)
        start = end


def _framed(body: bytes) -> bytes:
    return b'{"sum":"%08x","do":%b}\n' % (zlib.crc32(body), body)


def _body(line: bytes) -> bytes | None:
    # What a dead writer left of its last line has no end, or another sum.
    body = line[_BODY:-2]
    return body if line == _framed(body) else None
