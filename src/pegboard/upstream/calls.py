"""The calls that are under way over one session, and to which of them a message belongs."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

import anyio

from pegboard.upstream.call_context import CallContext, told

__all__ = ["LAST_NOTES", "CallInFlight", "CallsInFlight", "reaches"]

MOST_NOTES = 1000
"""So many notes of one call may wait for a slow client; further ones are dropped."""
LAST_NOTES = 2.0
"""How many seconds a result waits for the notes that came before it to be delivered."""

_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

_current: ContextVar["CallInFlight | None"] = ContextVar("call_in_flight", default=None)
"""The call in whose answer a message came, where the transport can tell (over HTTP, in memory)."""


class CallInFlight:
    """One call while it runs; enter it for as long as that lasts.

    Args:
        context: what it brings along.
        calls: those it is one of; ``None`` if a server has nothing to ask or to log because of it.
    """

    def __init__(self, context: CallContext, calls: "CallsInFlight | None") -> None:
        self.context: CallContext = context
        self._calls = calls
        self._turn: anyio.Lock | None = None
        self._waiting = 0
        self._before: Token[CallInFlight | None] | None = None

    def __enter__(self) -> "CallInFlight":
        if self._calls is not None:
            self._calls.add(self)
        self._before = _current.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._before is not None
        _current.reset(self._before)
        if self._calls is not None:
            self._calls.discard(self)

    async def progressed(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell how far the call is, after everything that was to be told before."""
        tell = self.context.on_progress
        if tell is not None:
            await self._in_turn(lambda: tell(progress, total, message))

    async def progressed_as(self, params: Mapping[str, Any]) -> None:
        """Tell how far the call is, as the server said it; what is no progress is ignored."""
        done, total, message = (params.get(it) for it in ("progress", "total", "message"))
        if isinstance(done, int | float):
            await self.progressed(
                float(done),
                float(total) if isinstance(total, int | float) else None,
                message if isinstance(message, str) else None,
            )

    async def logged(self, params: Mapping[str, Any]) -> None:
        """Tell what the server logged, after everything that was to be told before."""
        tell = self.context.on_log
        if tell is not None and reaches(params.get("level"), self.context.log_level):
            await self._in_turn(lambda: tell(params))

    async def all_told(self) -> None:
        """Wait a little until everything that came before the result is delivered."""
        if self._turn is not None and self._waiting:
            with anyio.move_on_after(LAST_NOTES):
                async with self._turn:
                    pass

    async def _in_turn(self, work: Callable[[], object]) -> None:
        if self._waiting >= MOST_NOTES:
            return
        if self._turn is None:
            self._turn = anyio.Lock()
        self._waiting += 1
        try:
            async with self._turn:
                await told(work())
        finally:
            self._waiting -= 1


class CallsInFlight:
    """All calls of one session that are under way, the newest last."""

    def __init__(self) -> None:
        self._calls: dict[CallInFlight, None] = {}

    def add(self, call: CallInFlight) -> None:
        """Note that a call began."""
        self._calls[call] = None

    def discard(self, call: CallInFlight) -> None:
        """Note that a call ended."""
        self._calls.pop(call, None)

    def owners(self) -> list[CallInFlight] | None:
        """Return the calls that a message may belong to, the newest last.

        Only one where it came in the answer to it; otherwise all, if they are of one client.
        ``None`` when they are of several, so that nobody is told or asked what is not theirs.
        """
        call = _current.get()
        if call is not None and call in self._calls:
            return [call]
        if len({it.context.client for it in self._calls}) > 1:
            return None
        return list(self._calls)

    async def log(self, params: Mapping[str, Any]) -> None:
        """Give a log message of the server to the calls that it may belong to."""
        for call in self.owners() or ():
            await call.logged(params)


def reaches(level: object, wanted: str | None) -> bool:
    """Tell whether a log level is at least the wanted one; what nobody knows is."""
    if wanted not in _LEVELS or level not in _LEVELS:
        return True
    return _LEVELS.index(str(level)) >= _LEVELS.index(wanted)
