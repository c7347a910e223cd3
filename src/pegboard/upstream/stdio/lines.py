"""Lines: cut a stream of bytes at its line ends, in time linear in its length."""

__all__ = ["LineTooLongError", "Lines"]


class LineTooLongError(Exception):
    """A line is longer than allowed."""


class Lines:
    """Collects chunks and gives back the lines that are complete."""

    def __init__(self, *, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that this chunk completes, without their ends.

        Raises:
            LineTooLongError: when a line, complete or not, is longer than the limit.
        """
        *lines, rest = chunk.split(b"\n")
        if lines:
            if self._size + len(lines[0]) > self._limit:
                raise LineTooLongError
            if self._parts:
                lines[0] = b"".join((*self._parts, lines[0]))
                self._parts.clear()
                self._size = 0
        if rest:
            self._parts.append(rest)
            self._size += len(rest)
            if self._size > self._limit:
                raise LineTooLongError
        return lines
