"""The file of a saved search index, so that a start need not build the index again."""

import hashlib
import logging
import os
import sys
import tempfile
import time
import unicodedata
import zlib
from collections.abc import Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import Stemmer

from pegboard.model import Tool
from pegboard.search.index.segment import Segment, TermTable, build_segment, merge_segments
from pegboard.search.index.snapshot import Snapshot
from pegboard.search.text import fields, words
from pegboard.search.text.postings import HIGHEST_IMPACT, Postings, as_ints
from pegboard.search.vectors.space import Space, ToolVectors

__all__ = ["fingerprint", "save_index", "take_saved"]

logger: logging.Logger = logging.getLogger("pegboard.search")

_MAGIC = b"Pegboard index 4\n"
_SUM = 4
_LENGTH = 4
_DIGEST = 16
# A multiple of the length of any number, so that numbers lie where they are read fast.
_ALIGNED = 64
_UNFINISHED = ".new"
# No process writes one file for so long: the process that began it was killed.
_ABANDONED_SECONDS = 60

Arrays = dict[str, "np.ndarray[Any, Any]"]


class _Array(msgspec.Struct, frozen=True):
    kind: str
    shape: tuple[int, ...]


class _Header(msgspec.Struct, frozen=True):
    maker: str
    """What the content depends on besides the tools."""
    arrays: dict[str, _Array]


def fingerprint(tool: Tool) -> bytes:
    """Return 16 bytes that differ where tools differ."""
    [found] = _fingerprints([tool])
    return found


def save_index(path: Path, snapshot: Snapshot, meaning: str) -> bool:
    """Write all tools of a snapshot to a file, atomically; tell whether that worked.

    Args:
        path: the file; its directory exists.
        snapshot: the snapshot to save.
        meaning: the version of the vectors, if there are any.
    """
    segment = _as_one(snapshot)
    if segment is None:
        return False
    try:
        _write(path, _packed(_arrays_of(segment, snapshot.space), _maker(meaning)))
    except OSError as error:
        logger.warning("index_not_saved", extra={"path": str(path), "reason": str(error)})
        return False
    return True


def take_saved(
    path: Path, tools: Sequence[Tool], meaning: str, space: Space | None
) -> tuple[Segment | None, list[Tool]]:
    """Return a segment of the tools that a file holds unchanged, and the other tools.

    A file that is missing, damaged, or made by another version holds none of them.
    """
    try:
        arrays = _unpacked(_content(path), _maker(meaning))
        same = _all_of(arrays, tools)
        digests = {} if same else _digests(arrays)
        postings, vectors = _postings(arrays), _vectors(arrays, space)
    except (OSError, ValueError, IndexError, KeyError, msgspec.MsgspecError) as error:
        logger.debug("index_not_read", extra={"path": str(path), "reason": str(error)})
        return None, list(tools)
    if same:
        return _laid_out(same, arrays, postings, vectors), []
    found = [digests.get(it, -1) for it in _fingerprints(tools)]
    rows = np.array(found, np.int64)
    rest = [tool for tool, row in zip(tools, found, strict=True) if row < 0]
    # In the order of the file, which is the order that they get.
    order = np.argsort(rows)[len(rest) :]
    if not len(order):
        return None, rest
    taken = [tools[place] for place in as_ints(order)]
    if len(taken) == len(digests):
        return _laid_out(taken, arrays, postings, vectors), rest
    postings = postings.of_rows(rows[order])
    vectors = None if vectors is None else vectors.of_rows(rows[order])
    return build_segment(taken, postings, vectors), rest


def _content(path: Path) -> bytes:
    if not path.is_file():
        # Reading a pipe would wait for a writer that never comes.
        raise ValueError("It is not a file.")
    return path.read_bytes()


def _laid_out(
    tools: Sequence[Tool], arrays: Arrays, postings: Postings, vectors: ToolVectors | None
) -> Segment:
    """Return all tools of a file as a segment."""
    table = TermTable(arrays["bounds"], arrays["rows"], arrays["row_impacts"])
    return build_segment(tools, postings, vectors, table=table)


def _all_of(arrays: Arrays, tools: Sequence[Tool]) -> list[Tool]:
    """Return the tools in the order of a file, if they are just those that are in it."""
    by_name = sorted(tools, key=attrgetter("name"))
    whole = _whole(by_name)
    if not whole or whole != arrays["whole"].tobytes():
        return []
    return [by_name[place] for place in as_ints(arrays["places"])]


def _whole(tools: Sequence[Tool]) -> bytes:
    """Return one fingerprint of many tools, in half the time; nothing when there is none."""
    lines = _lines(tools)
    return hashlib.sha256(lines).digest() if lines else b""


def _lines(tools: Sequence[Tool]) -> bytes:
    """Return tools as JSON, one a line; nothing when that is not possible."""
    try:
        return msgspec.json.Encoder().encode_lines(tools)
    except (TypeError, ValueError, RecursionError):
        return b""


def _fingerprints(tools: Sequence[Tool]) -> list[bytes]:
    # All at once takes a fraction of the time.
    lines = _lines(tools).splitlines()
    if len(lines) != len(tools):
        lines = [_encoded(tool) for tool in tools]
    return [hashlib.blake2b(line, digest_size=_DIGEST).digest() for line in lines]


def _encoded(tool: Tool) -> bytes:
    try:
        return msgspec.json.encode(tool)
    except (TypeError, ValueError, RecursionError):
        return repr(tool).encode("utf-8", "backslashreplace")


def _as_one(snapshot: Snapshot) -> Segment | None:
    parts = [(view.segment, view.alive) for view in snapshot.segments]
    living = as_ints(np.flatnonzero(snapshot.tail.alive))
    if living:
        parts.append((snapshot.tail.tail.as_segment(living), None))
    if len(parts) == 1 and parts[0][1] is None:
        return parts[0][0]
    return merge_segments(parts) if parts else None


def _maker(meaning: str) -> str:
    """Return what an index depends on besides its tools."""
    return repr(
        (
            words.VERSION,
            fields.VERSION,
            list(fields.FIELDS.items()),
            HIGHEST_IMPACT,
            meaning,
            str(Stemmer.version()),  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
            unicodedata.unidata_version,
            sys.byteorder,
        )
    )


def _arrays_of(segment: Segment, space: Space | None) -> Arrays:
    postings, table, meaning = segment.postings, segment.table, segment.meaning
    terms = "\n".join(postings.vocabulary).encode("utf-8", "surrogatepass")
    tools = segment.tools
    digests = b"".join(_fingerprints(tools))
    by_name = sorted(range(len(tools)), key=lambda row: tools[row].name)
    arrays: Arrays = {
        "digests": np.frombuffer(digests, np.uint8),
        "whole": np.frombuffer(_whole([tools[row] for row in by_name]), np.uint8),
        "places": np.argsort(np.array(by_name)),
        "vocabulary": np.frombuffer(terms, np.uint8),
        "starts": postings.starts,
        "terms": postings.terms,
        "impacts": postings.impacts,
        "fields": postings.fields,
        "bounds": table.bounds,
        "rows": table.rows,
        "row_impacts": table.impacts,
    }
    if meaning is not None and space is not None:
        arrays |= {"vectors": meaning.vectors, "centroids": meaning.centroids}
        if space.directions is not None:
            arrays["coarse"] = meaning.coarse
    return arrays


def _postings(arrays: Arrays) -> Postings:
    terms = arrays["vocabulary"].tobytes().decode("utf-8", "surrogatepass").split("\n")
    vocabulary = dict(zip(terms, range(len(terms)), strict=True)) if terms != [""] else {}
    return Postings(
        vocabulary, arrays["starts"], arrays["terms"], arrays["impacts"], arrays["fields"]
    )


def _vectors(arrays: Arrays, space: Space | None) -> ToolVectors | None:
    if space is None:
        return None
    vectors = arrays["vectors"]
    coarse = vectors if space.directions is None else arrays["coarse"]
    return ToolVectors(vectors, coarse, arrays["centroids"], space.regions)


def _digests(arrays: Arrays) -> dict[bytes, int]:
    whole = arrays["digests"].tobytes()
    digests = [whole[place : place + _DIGEST] for place in range(0, len(whole), _DIGEST)]
    return dict(zip(digests, range(len(digests)), strict=True))


def _packed(arrays: Arrays, maker: str) -> list[bytes | memoryview]:
    described = {name: _Array(it.dtype.str, it.shape) for name, it in arrays.items()}
    header = msgspec.msgpack.encode(_Header(maker, described))
    padding = bytes(-(len(_MAGIC) + _SUM + _LENGTH + len(header)) % _ALIGNED)
    chunks: list[bytes | memoryview] = [len(header).to_bytes(_LENGTH, "little"), header, padding]
    for array in arrays.values():
        chunks.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        chunks.append(bytes(-array.nbytes % _ALIGNED))
    checksum = 0
    for chunk in chunks:
        checksum = zlib.crc32(chunk, checksum)
    return [_MAGIC, checksum.to_bytes(_SUM, "little"), *chunks]


def _unpacked(data: bytes, maker: str) -> Arrays:
    start = len(_MAGIC) + _SUM
    if not data.startswith(_MAGIC):
        raise ValueError("It is not an index.")
    if zlib.crc32(memoryview(data)[start:]) != int.from_bytes(data[len(_MAGIC) : start], "little"):
        raise ValueError("It is damaged.")
    place = start + _LENGTH
    length = int.from_bytes(data[start:place], "little")
    header = msgspec.msgpack.decode(data[place : place + length], type=_Header)
    if header.maker != maker:
        raise ValueError("It was made by another version.")
    place += length
    arrays: Arrays = {}
    for name, array in header.arrays.items():
        place += -place % _ALIGNED
        count = int(np.prod(array.shape))
        read = np.frombuffer(data, np.dtype(array.kind), count, place)
        arrays[name] = read.reshape(array.shape)
        place += read.nbytes
    return arrays


def _write(path: Path, chunks: Sequence[bytes | memoryview]) -> None:
    _remove_abandoned(path)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=_UNFINISHED)
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(chunks)
        Path(temporary).replace(path)
    except BaseException:
        with suppress(OSError):
            Path(temporary).unlink()
        raise


def _remove_abandoned(path: Path) -> None:
    """Remove the files of processes that were killed while they saved."""
    for other in list(path.parent.iterdir()):
        if other.name.startswith(path.name) and other.name.endswith(_UNFINISHED):
            with suppress(OSError):
                if time.time() - other.stat().st_mtime > _ABANDONED_SECONDS:
                    other.unlink()
