"""Calls in flight over one session: match progress, logs and elicitation with their call."""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from functools import partial
from itertools import islice
from types import TracebackType
from typing import Any

import anyio

from pegboard.model.hidden_characters import visible, visible_json
from pegboard.upstream.call_context import CallContext, OnLog, told

__all__ = ["LAST_NOTES", "CallInFlight", "CallsInFlight", "UnclaimedRequestError", "reaches"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

MOST_NOTES = 1000
"""The most progress and log notifications of one call that may wait for a slow client.

Beyond that, only the newest progress waits, and of further logs only their number.
"""
MOST_UNCLAIMED = 100
"""The most server requests that may wait until their call is known."""
MOST_ASKED = 50
"""The most calls that are asked whether they want a log message, the newest first."""
GIVEN_UP = 300.0
"""Seconds during which a server may still send messages about a cancelled call.

It ends earlier if the server answers the cancelled call after all, as many do.
"""
_MOST_GIVEN_UP = 1000
"""The most cancelled calls of one client whose answers are awaited one by one."""
LAST_NOTES = 2.0
"""Seconds that a result waits until the notifications before it are delivered."""

_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")


class UnclaimedRequestError(Exception):
    """Raised for a server request that may belong to calls of several clients."""


class CallInFlight:
    """One call while it runs; enter it for as long as that lasts.

    Args:
        context: the context of the call.
        calls: the calls of its session; ``None`` if the server sends no requests or logs for it.
    """

    def __init__(self, context: CallContext, calls: "CallsInFlight | None") -> None:
        self.context: CallContext = context
        self.number: int | str | None = None
        """The id of its request."""
        self._calls = calls
        self._notes: deque[Callable[[], object]] = deque()
        self._newest: Callable[[], object] | None = None
        """The newest progress for which there was no room; it replaces the ones before."""
        self._logs = 0
        """How many of the waiting notifications are logs."""
        self._left_out = 0
        self._turn: anyio.Lock | None = None

    def __enter__(self) -> "CallInFlight":
        if self._calls is not None:
            self._calls.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._calls is not None:
            is_given_up = error is not None and not isinstance(error, Exception)
            self._calls.discard(self, answered=error is None, given_up=is_given_up)

    @property
    def is_waiting(self) -> bool:
        """True when notifications wait, and no task delivers them yet."""
        return bool(self._notes) and (self._turn is None or not self._turn.locked())

    @property
    def is_behind(self) -> bool:
        """True when so many notifications wait that the next ones may be left out."""
        return len(self._notes) >= MOST_NOTES // 2

    def note_progress(self, params: Mapping[str, Any]) -> None:
        """Queue the progress in a notification; invalid progress is ignored."""
        tell = self.context.on_progress
        done, message = _number(params.get("progress")), params.get("message")
        if tell is None or done is None:
            return
        words = visible(message) if isinstance(message, str) else None
        self._note_progress(partial(tell, done, _number(params.get("total")), words))

    def note(self, note: Callable[[], object]) -> None:
        """Queue any other callback; when too many wait, it is left out."""
        if len(self._notes) < MOST_NOTES:
            self._notes.append(note)

    def wants(self, params: Mapping[str, Any]) -> bool:
        """Tell whether the client of the call wants this log message."""
        context = self.context
        return context.on_log is not None and reaches(params.get("level"), context.log_level)

    def note_log(self, params: Mapping[str, Any]) -> None:
        """Queue a log message of the server."""
        tell = self.context.on_log
        if tell is None or not self.wants(params):
            return
        if len(self._notes) < MOST_NOTES:
            self._logs += 1
            self._notes.append(partial(self._tell_log, tell, visible_json(params)))
            return
        self._left_out += 1
        if self._left_out == 1:
            self._notes.append(partial(self._tell_left_out, tell))

    async def tell(self) -> None:
        """Deliver the queued notifications, unless another task already does.

        So a limited queue waits for a slow client, and not one task for each notification.
        """
        if self._turn is None or not self._turn.locked():
            await self._tell_all()

    async def catch_up(self) -> None:
        """Wait until the queued notifications are delivered."""
        await self._tell_all()

    async def all_told(self) -> None:
        """Wait a little until all notifications before the result are delivered."""
        if self.context.on_progress is None and self.context.on_log is None:
            return
        with anyio.move_on_after(LAST_NOTES) as patience:
            await self._tell_all()
        if patience.cancelled_caught:
            self._give_up()

    def _give_up(self) -> None:
        """Drop the queued notifications, and report the number of dropped logs."""
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
        words = (
            f"Log messages left out, because they came faster than the client read them: {count}."
        )
        return {"level": level, "logger": "pegboard", "data": words}

    @staticmethod
    async def _tell_one(note: Callable[[], object]) -> None:
        try:
            await told(note())
        except Exception:
            # The call goes on: the callback failed, not the server.
            logger.exception("note_failed: a callback for progress or logs failed")


class CallsInFlight:
    """All running calls of one session, the newest last."""

    def __init__(self) -> None:
        self._calls = _ByClient()
        self._unclaimed: set[_Unclaimed] = set()
        self._given_up: dict[str, _GivenUp] = {}
        """The cancelled calls by client; the client that cancelled last is the last."""
        self._unanswered: dict[int | str, str] = {}
        """The clients of the cancelled calls, by the ids of their requests."""

    def add(self, call: CallInFlight) -> None:
        """Note that a call has begun."""
        self._calls.add(call)

    def discard(self, call: CallInFlight, *, answered: bool, given_up: bool = False) -> None:
        """Note that a call has ended: with a response of the server, or cancelled.

        A server need not notice a cancellation: later messages may be about that call.
        """
        self._calls.discard(call)
        if given_up:
            self._give_up(call)
        for unclaimed in self._unclaimed:
            unclaimed.take_note(call, answered=answered)

    def answered_late(self, number: int | str | None) -> None:
        """Note the response to a cancelled request: its call is over in the server, too."""
        client = None if number is None else self._unanswered.pop(number, None)
        if client is None:
            return
        given_up = self._given_up[client]
        given_up.numbers.discard(number)
        if not given_up.numbers:
            del self._given_up[client]

    def owners(self, came_with: CallInFlight | None = None) -> list[CallInFlight] | None:
        """Return the calls that a message may belong to, the newest last.

        That is one call, if the message came with it (over HTTP, in memory); otherwise all, if they
        are of one client. ``None`` if they are of several clients: no client may get the messages
        of another.
        """
        if came_with is not None and came_with in self._calls:
            return [came_with]
        return list(self._calls) if self._are_of_one_client() else None

    def _are_of_one_client(self) -> bool:
        left_behind = self._left_behind()
        if len(left_behind) > 1 or self._calls.clients > 1:
            return False
        client = self._calls.any_client()
        return not left_behind or client is None or client in left_behind

    def _give_up(self, call: CallInFlight) -> None:
        client = call.context.client
        given_up = self._given_up.pop(client, None) or _GivenUp()
        given_up.until = anyio.current_time() + GIVEN_UP
        number = call.number if len(given_up.numbers) < _MOST_GIVEN_UP else None
        given_up.numbers.add(number)
        if number is not None:
            self._unanswered[number] = client
        self._given_up[client] = given_up

    def _left_behind(self) -> Set[str]:
        """Return the clients of cancelled calls that may still run in the server."""
        if self._given_up:
            now = anyio.current_time()
            while self._given_up:
                client, given_up = next(iter(self._given_up.items()))
                if given_up.until > now:
                    break
                del self._given_up[client]
                for number in given_up.numbers:
                    if number is not None:
                        self._unanswered.pop(number, None)
        return self._given_up.keys()

    async def asking_call(self, came_with: CallInFlight | None = None) -> CallInFlight | None:
        """Return the call that a server request belongs to; ``None`` if it is of no call.

        While calls of several clients run, it waits for some to end: a finished call sends no more
        requests.

        Raises:
            UnclaimedRequestError: when the request may belong to several clients.
        """
        owners = self.owners(came_with)
        if owners is None and self._left_behind():
            raise UnclaimedRequestError
        if owners is None:
            owners = await self._settled(_Unclaimed(self._calls))
        if not owners:
            return None
        # They are of one client, which may have closed the stream of the newest.
        return next((it for it in reversed(owners) if it.context.is_reachable()), owners[-1])

    async def _settled(self, unclaimed: "_Unclaimed") -> list[CallInFlight]:
        if len(self._unclaimed) >= MOST_UNCLAIMED:
            raise UnclaimedRequestError
        self._unclaimed.add(unclaimed)
        try:
            await unclaimed.settled.wait()
        finally:
            self._unclaimed.discard(unclaimed)
        if unclaimed.is_lost:
            raise UnclaimedRequestError
        return list(unclaimed.calls)

    def note_log(
        self, params: Mapping[str, Any], came_with: CallInFlight | None = None
    ) -> CallInFlight | None:
        """Queue a log message for one of the calls that it may belong to, and return that call.

        The newest call that wants it gets it: all are of one client, which needs it once. Not all
        are asked: a server may send thousands of messages while thousands of calls run.
        """
        if came_with is not None and came_with in self._calls:
            asked: Iterable[CallInFlight] = (came_with,)
        else:
            asked = reversed(self._calls) if self._are_of_one_client() else ()
        for call in islice(asked, MOST_ASKED):
            if call.wants(params):
                call.note_log(params)
                return call
        return None


class _GivenUp:
    """The cancelled calls of one client, and until when the server may send messages about them."""

    __slots__ = ("numbers", "until")

    def __init__(self) -> None:
        self.numbers: set[int | str | None] = set()
        """The ids of their requests; ``None`` for those whose answers are not awaited."""
        self.until = 0.0


class _Unclaimed:
    """The calls that a server request may belong to."""

    def __init__(self, calls: Iterable[CallInFlight]) -> None:
        self.calls = _ByClient(calls)
        self.settled: anyio.Event = anyio.Event()
        self.is_lost: bool = False

    def take_note(self, call: CallInFlight, *, answered: bool) -> None:
        if call not in self.calls:
            return
        self.calls.discard(call)
        # The request may be of the cancelled call, so it must not reach another client.
        self.is_lost = self.is_lost or not answered
        if self.is_lost or self.calls.clients <= 1:
            self.settled.set()


class _ByClient:
    """Some calls, the newest last, and how many each client has: asked for every message."""

    def __init__(self, calls: "Iterable[CallInFlight]" = ()) -> None:
        self._calls: dict[CallInFlight, None] = {}
        self._counts: dict[str, int] = {}
        for it in calls:
            self.add(it)

    def __contains__(self, call: CallInFlight) -> bool:
        return call in self._calls

    def __iter__(self) -> Iterator[CallInFlight]:
        return iter(self._calls)

    def __reversed__(self) -> Iterator[CallInFlight]:
        return reversed(self._calls)

    @property
    def clients(self) -> int:
        """How many clients they are of."""
        return len(self._counts)

    def any_client(self) -> str | None:
        """Return one of their clients; ``None`` if there is no call."""
        return next(iter(self._counts), None)

    def add(self, call: CallInFlight) -> None:
        if call not in self._calls:
            client = call.context.client
            self._counts[client] = self._counts.get(client, 0) + 1
            self._calls[call] = None

    def discard(self, call: CallInFlight) -> None:
        if call not in self._calls:
            return
        del self._calls[call]
        client = call.context.client
        self._counts[client] -= 1
        if not self._counts[client]:
            del self._counts[client]


def _number(value: object) -> float | None:
    try:
        return float(value) if isinstance(value, int | float) else None
    except OverflowError:
        return None


def reaches(level: object, wanted: str | None) -> bool:
    """Tell whether a log level is at least the wanted one; unknown levels are."""
    if wanted not in _LEVELS or level not in _LEVELS:
        return True
    return _LEVELS.index(str(level)) >= _LEVELS.index(wanted)
