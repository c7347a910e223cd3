"""Server-sent events (SSE): parse a stream that comes in pieces of any size."""

import msgspec

__all__ = ["Event", "EventReader", "EventTooLargeError"]

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LONGEST_FIELD = 1024
"""The longest ``id`` or ``event`` that is read."""
_LINE_COSTS = 50
"""The bytes of memory that each line of an event takes besides its text."""


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

    @property
    def held(self) -> int:
        """How many bytes of an incomplete event there are."""
        return self._size + self._held

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that this piece completes.

        Raises:
            EventTooLargeError: when an event is larger than the limit.
        """
        if self._ended_in_cr and chunk:
            # The second half of a line end that was cut in two.
            chunk = chunk.removeprefix(b"\n")
            self._ended_in_cr = False
        events: list[Event] = []
        if b"\n" in chunk or b"\r" in chunk:
            self._ended_in_cr = chunk.endswith(b"\r")
            lines = chunk.splitlines()
            rest = b"" if chunk.endswith((b"\n", b"\r")) else lines.pop()
            # A line of many pieces is joined once, when it ends; a search for its end in all of
            # it would take half a second.
            lines[0] = b"".join((*self._pieces, lines[0]))
            if self._is_first:
                self._is_first = False
                lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
            self._pieces, self._held = [rest], len(rest)
            events = [event for line in lines if (event := self._take(line)) is not None]
        else:
            self._pieces.append(chunk)
            self._held += len(chunk)
        if self.held > self._largest:
            raise EventTooLargeError
        return events

    def _take(self, line: bytes) -> Event | None:
        if not line:
            event = self._event()
            self._start()
            return event
        colon = line.find(b":")
        name = line if colon < 0 else line[:colon]
        # Copied once: it may have 64 MiB.
        start = len(line) if colon < 0 else colon + 1
        value = line[start + 1 :] if line[start : start + 1] == b" " else line[start:]
        match name:
            case b"data":
                self._data.append(value)
                self._size += len(value) + (1 if len(self._data) == 1 else _LINE_COSTS)
            case b"event" | b"id" if len(value) > _LONGEST_FIELD:
                pass
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
