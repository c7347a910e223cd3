"""Server-sent events (SSE): parse a stream that comes in pieces of any size."""

import re

import msgspec

__all__ = ["Event", "EventReader", "EventTooLargeError"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\n|\r")


class Event(msgspec.Struct, frozen=True):
    """One event of a stream."""

    kind: str
    data: bytes
    id: str | None = None
    retry: int | None = None
    """Milliseconds after which the client is to reconnect."""


class EventTooLargeError(Exception):
    """An event is larger than the limit."""


class EventReader:
    """Parses server-sent events from a stream that comes in pieces of any size."""

    def __init__(self, *, largest: int) -> None:
        self._largest = largest
        self._pieces: list[bytes] = []
        self._held = 0
        self._is_first = True
        self._ended_in_cr = False
        self._start()

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that this piece completes.

        Raises:
            EventTooLargeError: when an event is larger than the limit.
        """
        if self._ended_in_cr and chunk:
            # The second half of a line end that was cut in two.
            chunk = chunk.removeprefix(b"\n")
            self._ended_in_cr = False
        self._pieces.append(chunk)
        self._held += len(chunk)
        events: list[Event] = []
        # A line of many pieces is joined once, when it ends.
        if b"\n" in chunk or b"\r" in chunk:
            text = b"".join(self._pieces)
            if self._is_first:
                self._is_first = False
                text = text.removeprefix(_BYTE_ORDER_MARK)
            self._ended_in_cr = text.endswith(b"\r")
            *lines, rest = _LINE_END.split(text)
            self._pieces, self._held = [rest], len(rest)
            events = [event for line in lines if (event := self._take(line)) is not None]
        if self._size + self._held > self._largest:
            raise EventTooLargeError
        return events

    def _take(self, line: bytes) -> Event | None:
        if not line:
            event = self._event()
            self._start()
            return event
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match name:
            case b"data":
                self._data.append(value)
                self._size += len(value) + 1
            case b"event":
                self._kind = value.decode("utf-8", "replace")
            case b"id" if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
            case b"retry" if value.isdigit() and len(value) < 10:
                self._retry = int(value)
            case _:
                pass
        return None

    def _event(self) -> Event | None:
        if not self._data and self._id is None and self._retry is None:
            return None
        return Event(self._kind or "message", b"\n".join(self._data), self._id, self._retry)

    def _start(self) -> None:
        self._kind = ""
        self._data: list[bytes] = []
        self._size = 0
        self._id: str | None = None
        self._retry: int | None = None
