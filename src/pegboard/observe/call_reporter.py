"""CallReporter: the one place that every call of a gateway passes, so that all numbers agree."""

import logging
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import blake2b
from time import perf_counter, time
from types import TracebackType
from typing import Any, Self

import msgspec
from msgspec.structs import force_setattr

from pegboard.errors import Outcome, PegboardError, ServerNotFoundError
from pegboard.model.call import CallRecord, HoldingRecord, Phases
from pegboard.model.json_values import FrozenDict

__all__ = ["MOST_OF_NAME", "CallReporter", "Caller", "GatewayCall", "caller_of"]

logger: logging.Logger = logging.getLogger("pegboard.observe")

Caller = Mapping[str, Any]
"""Who called: ``tenant``, ``subject``, ``client`` and ``session``, the ``meta`` of a record."""
MOST_RECORDED = 100_000
"""The most bytes of arguments, or of a result, that are recorded."""


MOST_OF_NAME = 1_000
"""The most characters of a name that are kept in memory where a client chooses it."""


@lru_cache(maxsize=4096)
def caller_of(tenant: str, subject: str, client: str = "", session: str = "") -> Caller:
    """Return a caller; the same for equal ones, with a digest of the session's id, a secret."""
    found = {"tenant": tenant, "subject": subject}
    if client:
        found["client"] = client
    if session:
        given = session.encode("utf-8", "replace")
        found["session"] = blake2b(given, digest_size=6).hexdigest()
    return FrozenDict(found)


class GatewayCall(Phases, gc=True, kw_only=True):
    """One call of a client, from its arrival to its result; it reports itself when it is left."""

    reporter: "CallReporter"
    tool: str
    caller: Caller
    started: float
    began: float
    record: CallRecord | None = None
    """What the registry reported; of two attempts, at two generations of a server, the last."""
    attempts: int = 0
    """How often the tool was started before that record."""
    error: BaseException | None = None
    """Why there is no result, where the client gets the reason as a result."""
    arguments: msgspec.Raw | None = None
    result: msgspec.Raw | None = None
    is_left: bool = False
    """True when the request is over; a parked call goes on, and its record comes later."""
    is_told: bool = False
    """True when the observers were told."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.is_left = True
        if error is not None:
            self.error = error
        self.reporter.running.pop(id(self), None)
        self.reporter.left(self)
        # Its traceback holds this call, and all that the call has read.
        self.error = None

    def keep_arguments(self, arguments: object) -> None:
        """Record the arguments, as they are now, where the operator has switched that on."""
        if self.reporter.arguments:
            self.arguments = _recorded(arguments)

    def note_result(self, server: str, *, is_error: bool) -> None:
        """Note the result of a call that began in another process, so that no registry ran it."""
        outcome: Outcome = "tool_error" if is_error else "ok"
        self.record = HoldingRecord(
            self.tool, self.started, 0.0, outcome, server=server, meta=self.caller
        )

    def keep_result(self, result: object) -> None:
        """Record the result, where the operator has switched that on."""
        if self.reporter.results:
            self.result = _recorded(result)


class CallReporter:
    """Tells every observer of each call once, however it ended: as refused, too.

    A registry tells it of the calls that it ran; of a call of a client, it waits until the client
    has its result. Of a call that did not reach the registry, it makes the record itself.

    Args:
        observers: they get the record of each call.
        arguments: whether arguments are recorded.
        results: whether results are recorded.
    """

    def __init__(
        self,
        *observers: Callable[[CallRecord], object],
        arguments: bool = False,
        results: bool = False,
    ) -> None:
        self._observers = observers
        self.arguments: bool = arguments
        self.results: bool = results
        self.running: dict[int, GatewayCall] = {}
        """The calls whose requests run now, in the order in which they came."""

    def begin(self, tool: str, caller: Caller) -> GatewayCall:
        """Return a call that has just arrived; enter it for as long as its request runs."""
        call = GatewayCall(
            reporter=self, tool=tool, caller=caller, started=time(), began=perf_counter()
        )
        self.running[id(call)] = call
        return call

    def observer(self, find_server: Callable[[str], object]) -> Callable[[CallRecord], None]:
        """Return the observer of a registry.

        Args:
            find_server: raises `ServerNotFoundError` for a server that does not exist. A client
                that registers a definition may name any server.
        """

        def observe(record: CallRecord) -> None:
            if record.server is not None:
                try:
                    find_server(record.server)
                except ServerNotFoundError:
                    force_setattr(record, "server", None)
            self._take(record)

        return observe

    def _take(self, record: CallRecord) -> None:
        call = record.phases
        if not isinstance(call, GatewayCall):
            self._tell(record)
        elif call.is_left:
            # It was parked, and its client has got its result by another request.
            if not call.is_told:
                force_setattr(record, "phases", _phases_of(call))
                self._tell(record)
        else:
            if call.record is not None:
                call.attempts += call.record.attempts
            call.record = record

    def left(self, call: GatewayCall) -> None:
        """Report a call whose request is over, unless it is parked."""
        record = call.record
        if record is None:
            record = _without_registry(call)
            if record is None:
                return
        else:
            # Else both would hold each other.
            call.record = None
            force_setattr(record, "duration", perf_counter() - call.began)
            force_setattr(record, "started", call.started)
            if call.attempts:
                force_setattr(record, "attempts", record.attempts + call.attempts)
        force_setattr(record, "phases", _phases_of(call))
        if call.arguments is not None:
            force_setattr(record, "arguments", call.arguments)
        if call.result is not None:
            force_setattr(record, "result", call.result)
        call.is_told = True
        self._tell(record)

    def refused(self, tool: str, caller: Caller, code: str) -> None:
        """Report a call that was refused before it was looked at, such as by a rate limit."""
        self._tell(_record(tool, caller, time(), 0.0, outcome="refused", code=code))

    def _tell(self, record: CallRecord) -> None:
        for observer in self._observers:
            try:
                observer(record)
            except Exception:
                # A client gets its result, whatever becomes of the record.
                logger.exception("observer_failed")


def _without_registry(call: GatewayCall) -> CallRecord | None:
    """Return the record of a call that did not reach the registry; ``None`` if it was no call."""
    error = call.error
    if isinstance(error, PegboardError):
        outcome, code = error.outcome, error.code
    elif error is not None and not isinstance(error, Exception):
        outcome, code = "cancelled", "cancelled"
    else:
        # It is parked, or was the answer to a question of a parked call, or was no valid request.
        return None
    seconds = perf_counter() - call.began
    return _record(call.tool, call.caller, call.started, seconds, outcome=outcome, code=code)


def _record(
    tool: str, caller: Caller, started: float, seconds: float, *, outcome: Outcome, code: str
) -> CallRecord:
    return HoldingRecord(tool[:MOST_OF_NAME], started, seconds, outcome, code, meta=caller)


def _phases_of(call: GatewayCall) -> Phases:
    return Phases(call.queued, call.connecting, call.at_server, call.waiting, call.caching)


def _recorded(value: object) -> msgspec.Raw | None:
    try:
        written = msgspec.json.encode(value, enc_hook=repr)
    except (ValueError, RecursionError):
        return None
    if len(written) > MOST_RECORDED:
        written = msgspec.json.encode({"left_out": f"{len(written):,} bytes"})
    return msgspec.Raw(written)
