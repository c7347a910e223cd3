"""The pages of an SQLite file, read without SQLite: what is left of them when it cannot."""

import struct
from collections.abc import Iterator

__all__ = ["Cell", "Pages", "Record"]

Record = tuple[str | bytes | int | float | None, ...]
Cell = tuple[bool, Record | None]
"""Whether it is a row (or else of an index, or of a table that is one), and what it holds."""

# https://www.sqlite.org/fileformat2.html
_MAGIC = b"SQLite format 3\0"
_HEADER = 100
_USUAL_SIZE = 4096
_ROWS, _KEYS, _INNER_KEYS = 0x0D, 0x0A, 0x02
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_LOG_MAGIC = 0x377F0682


class Pages:
    """A database file with the log of changes beside it, both as bytes."""

    def __init__(self, main: bytes, log: bytes) -> None:
        self._main = main
        self._has_header = self._main.startswith(_MAGIC) and len(self._main) >= _HEADER
        size = int.from_bytes(self._main[16:18], "big") if self._has_header else _USUAL_SIZE
        self._size = 65536 if size == 1 else size
        if self._size < 512 or self._size & (self._size - 1):
            self._has_header, self._size = False, _USUAL_SIZE
        reserved = self._main[20] if self._has_header else 0
        self._usable = self._size - reserved
        self._log = dict(_committed(log, self._size))
        self.count: int = max([-(-len(self._main) // self._size), *self._log])

    def lost(self) -> list[str]:
        """Return sentences about pages that are not there."""
        found: list[str] = []
        if not self._has_header:
            found.append("The first page is not the one of an SQLite database.")
        if missing := self._missing():
            pages = "1 page is" if missing == 1 else f"{missing} pages are"
            # Of tools and values an index has the names.
            found.append(f"{pages} missing or blank; usage that was counted there is lost.")
        return found

    def cells(self) -> Iterator[Cell]:
        """Yield everything that looks like a row or a key; None for what is broken."""
        # The first page holds only the schema.
        for number in range(2, self.count + 1):
            page = self._page(number)
            kind = page[0] if page else 0
            if kind in (_ROWS, _KEYS, _INNER_KEYS):
                for at in _cell_places(page, kind):
                    try:
                        yield kind == _ROWS, _record(self._payload(page, at, kind))
                    except (IndexError, ValueError, struct.error):
                        yield kind == _ROWS, None

    def _missing(self) -> int:
        """Return how many pages there should be and are not, as far as is known."""
        first = self._page(1)
        if not first.startswith(_MAGIC):
            return 0
        wanted, free = (int.from_bytes(first[at : at + 4], "big") for at in (28, 36))
        pages = [self._page(number) for number in range(1, self.count + 1)]
        cut = sum(len(page) < self._size for page in pages)
        blank = sum(not any(page) for page in pages)
        return cut + max(0, wanted - self.count) + max(0, blank - free)

    def _page(self, number: int) -> bytes:
        start = (number - 1) * self._size
        return self._log.get(number) or self._main[start : start + self._size]

    def _payload(self, page: bytes, at: int, kind: int) -> bytes:
        if kind == _INNER_KEYS:
            at += 4
        length, at = _varint(page, at)
        if kind == _ROWS:
            _, at = _varint(page, at)
        here = self._local_length(length, rows=kind == _ROWS)
        payload = page[at : at + here]
        if here < length:
            payload += self._overflow(page[at + here : at + here + 4], length - here)
        if len(payload) != length:
            raise ValueError("It does not end.")
        return payload

    def _local_length(self, length: int, *, rows: bool) -> int:
        usable = self._usable
        most = usable - 35 if rows else (usable - 12) * 64 // 255 - 23
        if length <= most:
            return length
        least = (usable - 12) * 32 // 255 - 23
        here = least + (length - least) % (usable - 4)
        return here if here <= most else least

    def _overflow(self, pointer: bytes, length: int) -> bytes:
        parts: list[bytes] = []
        seen: set[int] = set()
        while length > 0:
            number = int.from_bytes(pointer, "big")
            if not 1 < number <= self.count or number in seen:
                raise ValueError("It leads nowhere.")
            seen.add(number)
            page = self._page(number)
            pointer = page[:4]
            parts.append(page[4 : min(self._usable, 4 + length)])
            length -= self._usable - 4
        return b"".join(parts)


def _committed(log: bytes, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield the pages of a log up to the last transaction that was finished."""
    if len(log) < 32 or int.from_bytes(log[:4], "big") & ~1 != _LOG_MAGIC:
        return
    salts = log[16:24]
    waiting: list[tuple[int, bytes]] = []
    for start in range(32, len(log) - size - 23, 24 + size):
        number, pages_after = struct.unpack_from(">II", log, start)
        if log[start + 8 : start + 16] != salts:
            return
        waiting.append((number, log[start + 24 : start + 24 + size]))
        if pages_after:
            yield from waiting
            waiting.clear()


def _cell_places(page: bytes, kind: int) -> Iterator[int]:
    count = int.from_bytes(page[3:5], "big")
    first = 12 if kind == _INNER_KEYS else 8
    for pointer in range(first, min(first + 2 * count, len(page) - 1), 2):
        yield int.from_bytes(page[pointer : pointer + 2], "big")


def _record(payload: bytes) -> Record:
    header, at = _varint(payload, 0)
    kinds: list[int] = []
    while at < header:
        kind, at = _varint(payload, at)
        kinds.append(kind)
    values: list[str | bytes | int | float | None] = []
    for kind in kinds:
        length = _length(kind)
        values.append(_value(kind, payload[at : at + length]))
        at += length
    if at != len(payload):
        raise ValueError("It is shorter or longer than it says.")
    return tuple(values)


def _length(kind: int) -> int:
    if kind >= 12:
        return (kind - 12) // 2
    return 8 if kind == 7 else _INTEGERS.get(kind, 0)


def _value(kind: int, data: bytes) -> str | bytes | int | float | None:
    if kind >= 12:
        return data.decode() if kind % 2 else data
    if kind in _INTEGERS:
        return int.from_bytes(data, "big", signed=True)
    if kind == 7:
        return struct.unpack(">d", data)[0]
    if kind > 9:
        raise ValueError("Nothing is of this kind.")
    return {8: 0, 9: 1}.get(kind)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(at, at + 8):
        value = value << 7 | data[index] & 0x7F
        if data[index] < 0x80:
            return value, index + 1
    return value << 8 | data[at + 8], at + 9
