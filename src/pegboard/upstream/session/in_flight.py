"""The calls that are under way over one session, and to which of them a message belongs."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar, Token
from functools import partial
from types import TracebackType
from typing import Any

import anyio
import anyio.lowlevel

from pegboard.upstream.call_context import CallContext, OnLog, told

__all__ = ["LAST_NOTES", "CallInFlight", "CallsInFlight", "UnclaimedRequestError", "reaches"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

MOST_NOTES = 1000
"""So many notes of one call may wait for a slow client.

Of further progress the newest waits in place of all, and of further logs only their number.
"""
MOST_UNCLAIMED = 100
"""So many may wait until it is known whose they are; further ones are refused."""
GIVEN_UP = 300.0
"""For so many seconds a server may still speak about a call that nobody waits for any more."""
LAST_NOTES = 2.0
"""How many seconds a result waits for the notes that came before it to be delivered."""

_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

_current: ContextVar["CallInFlight | None"] = ContextVar("call_in_flight", default=None)
"""The call in whose answer a message came, where the transport can tell (over HTTP, in memory)."""


class UnclaimedRequestError(Exception):
    """Raised when calls of several clients are under way, and one of them asks."""


class CallInFlight:
    """One call while it runs; enter it for as long as that lasts.

    Args:
        context: what it brings along.
        calls: those it is one of; ``None`` if a server has nothing to ask or to log because of it.
    """

    def __init__(self, context: CallContext, calls: "CallsInFlight | None") -> None:
        self.context: CallContext = context
        self._calls = calls
        self._notes: deque[Callable[[], object]] = deque()
        self._newest: Callable[[], object] | None = None
        """Progress for which there was no room; what came before it is of no use any more."""
        self._logs = 0
        """How many of the notes are logs."""
        self._left_out = 0
        self._turn: anyio.Lock | None = None
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
            is_given_up = error is not None and not isinstance(error, Exception)
            self._calls.discard(self, answered=error is None, given_up=is_given_up)

    async def progressed(self, progress: float, total: float | None, message: str | None) -> None:
        """Tell how far the call is, after everything that was to be told before."""
        tell = self.context.on_progress
        if tell is not None:
            self._note_progress(partial(tell, progress, total, message))
            await self.tell()

    async def progressed_as(self, params: Mapping[str, Any]) -> None:
        """Tell how far the call is, as the server said it; what is no progress is ignored."""
        done, total, message = (params.get(it) for it in ("progress", "total", "message"))
        if isinstance(done, int | float):
            await self.progressed(
                float(done),
                float(total) if isinstance(total, int | float) else None,
                message if isinstance(message, str) else None,
            )

    def wants(self, params: Mapping[str, Any]) -> bool:
        """Tell whether somebody is to be told what the server logged."""
        context = self.context
        return context.on_log is not None and reaches(params.get("level"), context.log_level)

    def note_log(self, params: Mapping[str, Any]) -> None:
        """Keep what the server logged until it is told."""
        tell = self.context.on_log
        if tell is None or not self.wants(params):
            return
        if len(self._notes) < MOST_NOTES:
            self._logs += 1
            self._notes.append(partial(self._tell_log, tell, params))
            return
        self._left_out += 1
        if self._left_out == 1:
            self._notes.append(partial(self._tell_left_out, tell))

    async def logged(self, params: Mapping[str, Any]) -> None:
        """Tell what the server logged, after everything that was to be told before."""
        self.note_log(params)
        await self.tell()

    async def tell(self) -> None:
        """Tell what waits to be told, unless somebody is at it: who is tells of this, too.

        So the notes of a slow client wait, whose number has a limit, and not a task for each.
        """
        if self._turn is None or not self._turn.locked():
            await self._tell_all()

    async def all_told(self) -> None:
        """Wait a little until everything that came before the result is delivered."""
        if self.context.on_progress is None and self.context.on_log is None:
            return
        # The SDK gives each note a task of its own: those that wait to start are before us.
        await anyio.lowlevel.checkpoint()
        with anyio.move_on_after(LAST_NOTES) as patience:
            await self._tell_all()
        if patience.cancelled_caught:
            self._give_up()

    def _give_up(self) -> None:
        """Tell nobody what still waits, and let the number of its logs follow the result."""
        self._notes.clear()
        count, self._logs, self._left_out = self._logs + self._left_out, 0, 0
        tell = self.context.on_logs_lost
        if count and tell is not None:
            tell(self._lost(count))

    async def _tell_all(self) -> None:
        if not self._notes and self._turn is None:
            return
        if self._turn is None:
            self._turn = anyio.Lock(fast_acquire=True)
        async with self._turn:
            while self._notes:
                await self._tell_one(self._notes.popleft())

    def _note_progress(self, note: Callable[[], object]) -> None:
        if self._newest is None and len(self._notes) < MOST_NOTES:
            self._notes.append(note)
            return
        if self._newest is None:
            self._notes.append(self._tell_newest)
        self._newest = note

    def _tell_newest(self) -> object:
        note, self._newest = self._newest, None
        return None if note is None else note()

    async def _tell_log(self, tell: OnLog, params: Mapping[str, Any]) -> None:
        self._logs -= 1
        try:
            await told(tell(params))
        except anyio.get_cancelled_exc_class():
            self._logs += 1
            raise

    def _tell_left_out(self, tell: OnLog) -> object:
        count, self._left_out = self._left_out, 0
        return tell(self._lost(count))

    def _lost(self, count: int) -> dict[str, Any]:
        wanted = self.context.log_level
        level = "warning" if reaches("warning", wanted) else wanted
        words = f"Log messages left out, because they came faster than they were taken: {count}."
        return {"level": level, "logger": "pegboard", "data": words}

    @staticmethod
    async def _tell_one(note: Callable[[], object]) -> None:
        try:
            await told(note())
        except Exception:
            # The call goes on: it is not the server that failed.
            logger.exception("note_failed: a note of a call was not taken")


class CallsInFlight:
    """All calls of one session that are under way, the newest last."""

    def __init__(self) -> None:
        self._calls: dict[CallInFlight, None] = {}
        self._undecided: set[_Undecided] = set()
        self._given_up: dict[str, float] = {}
        """Until when the server may still speak to a client whose call was given up."""

    def add(self, call: CallInFlight) -> None:
        """Note that a call began."""
        self._calls[call] = None

    def discard(self, call: CallInFlight, *, answered: bool, given_up: bool = False) -> None:
        """Note that a call ended: with the answer of the server, or because it was given up.

        A server need not notice that: what it says later may be about that call.
        """
        self._calls.pop(call, None)
        if given_up:
            self._given_up[call.context.client] = anyio.current_time() + GIVEN_UP
        for undecided in self._undecided:
            undecided.take_note(call, answered=answered)

    def owners(self) -> list[CallInFlight] | None:
        """Return the calls that a message may belong to, the newest last.

        Only one where it came in the answer to it; otherwise all, if they are of one client.
        ``None`` when they are of several, so that nobody is told or asked what is not theirs.
        """
        call = _current.get()
        if call is not None and call in self._calls:
            return [call]
        if len({it.context.client for it in self._calls} | self._left_behind()) > 1:
            return None
        return list(self._calls)

    def _left_behind(self) -> set[str]:
        """Return the clients of calls that were given up not long ago."""
        if self._given_up:
            now = anyio.current_time()
            self._given_up = {it: end for it, end in self._given_up.items() if end > now}
        return {*self._given_up}

    async def asking_call(self) -> "CallInFlight | None":
        """Return the call that a question just now belongs to; ``None`` if it is of no call.

        When calls of several clients are under way, it has to wait for some to end: a call that
        the server has answered asks nothing more.

        Raises:
            UnclaimedRequestError: when nobody can tell whose it is.
        """
        owners = self.owners()
        if owners is None and self._left_behind():
            raise UnclaimedRequestError
        if owners is None:
            owners = await self._settled(_Undecided(self._calls))
        return owners[-1] if owners else None

    async def _settled(self, undecided: "_Undecided") -> list[CallInFlight]:
        if len(self._undecided) >= MOST_UNCLAIMED:
            raise UnclaimedRequestError
        self._undecided.add(undecided)
        try:
            await undecided.settled.wait()
        finally:
            self._undecided.discard(undecided)
        if undecided.is_lost:
            raise UnclaimedRequestError
        return list(undecided.calls)

    async def log(self, params: Mapping[str, Any]) -> None:
        """Give a log message of the server to one of the calls that it may belong to.

        The newest that wants it: they are of one client, which is not to have it several times.
        """
        for call in reversed(self.owners() or ()):
            if call.wants(params):
                await call.logged(params)
                return


class _Undecided:
    """The calls that a question may belong to."""

    def __init__(self, calls: Iterable[CallInFlight]) -> None:
        self.calls: dict[CallInFlight, None] = dict.fromkeys(calls)
        self.settled: anyio.Event = anyio.Event()
        self.is_lost: bool = False

    def take_note(self, call: CallInFlight, *, answered: bool) -> None:
        if call not in self.calls:
            return
        del self.calls[call]
        # One that was given up may be the one that asks: its question is not to reach another.
        self.is_lost = self.is_lost or not answered
        if self.is_lost or len({it.context.client for it in self.calls}) <= 1:
            self.settled.set()


def reaches(level: object, wanted: str | None) -> bool:
    """Tell whether a log level is at least the wanted one; what nobody knows is."""
    if wanted not in _LEVELS or level not in _LEVELS:
        return True
    return _LEVELS.index(str(level)) >= _LEVELS.index(wanted)
