"""Telemetry: observers receive one CallRecord for each call; tracers also surround the call."""

import copy
import logging
import math
from asyncio import CancelledError  # noqa: TID251 - anyio names it only inside a running loop
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractContextManager
from time import perf_counter, time
from typing import Any, ClassVar, Protocol, cast, runtime_checkable

import msgspec

from pegboard.errors import Outcome, PegboardError
from pegboard.model import CallRecord, Step, ToolCall, ToolResult
from pegboard.model.call import HoldingRecord
from pegboard.policies.policy import Target

__all__ = ["Observer", "Telemetry", "Tracer"]

logger: logging.Logger = logging.getLogger("pegboard.policies")
_encode = msgspec.json.Encoder().encode
_PLAIN_TYPES = frozenset({str, int, float, bool, bytes, list, tuple, type(None)})

Observer = Callable[[CallRecord], object]
"""Receives each record right after its call. The caller waits for it, so it should be quick. What
it raises is logged, and never reaches the caller."""


@runtime_checkable
class Tracer(Protocol):
    """An observer that also surrounds the call, as a tracing span does."""

    def __call__(self, record: CallRecord, /) -> object:
        """Receive the record, still inside `around`."""
        ...

    def around(self, call: ToolCall, /) -> AbstractContextManager[object]:
        """Return a context that is entered before the call, and left after its record."""
        ...


class Telemetry:
    """Tells observers about every call, also about refused ones.

    Args:
        observers: the observers to tell.
        arguments: keep the arguments in the records. Off by default: they may hold secrets.
        results: keep the results in the records. Off by default: they may be large.
    """

    needs_loop: ClassVar[bool] = False

    def __init__(
        self, observers: Iterable[Observer] = (), *, arguments: bool = False, results: bool = False
    ) -> None:
        self.arguments = arguments
        self.results = results
        self.observers: tuple[Observer, ...] = ()
        self._tracers: tuple[Tracer, ...] = ()
        self.watch(observers)

    def __repr__(self) -> str:
        kept = f"arguments={self.arguments}, results={self.results}"
        return f"Telemetry({list(self.observers)!r}, {kept})"

    def watch(self, observers: Iterable[Observer]) -> None:
        """Replace the observers by these."""
        self.observers = _checked(observers)
        self._tracers = tuple(it for it in self.observers if isinstance(it, Tracer))

    def tell(self, record: CallRecord) -> None:
        """Give a record to every observer; what an observer raises is logged."""
        for observer in self.observers:
            try:
                observer(record)
            except Exception:
                logger.exception("observer_failed")

    def wrap(self, step: Step, target: Target) -> Step:
        """Observe the step."""

        async def watched(call: ToolCall) -> object:
            # Both before the tool runs: it may change its arguments.
            size = _json_size(call.arguments)
            kept = _copy(call.arguments) if self.arguments else None
            started = time()
            began = perf_counter()
            try:
                value = await step(call)
            except BaseException as error:
                self.failed(call, started, perf_counter() - began, error, size=size, kept=kept)
                raise
            self.finished(call, started, perf_counter() - began, value, size=size, kept=kept)
            return value

        async def traced(call: ToolCall) -> object:
            entered = [context for it in self._tracers if (context := _enter(it, call)) is not None]
            try:
                return await watched(call)
            finally:
                for context in reversed(entered):
                    _leave(context)

        def observed(call: ToolCall) -> Awaitable[object]:
            if not self.observers:
                return step(call)
            return traced(call) if self._tracers else watched(call)

        return observed

    def finished(
        self,
        call: ToolCall,
        started: float,
        duration: float,
        value: object,
        *,
        size: int | None,
        kept: Any = None,
    ) -> None:
        """Tell the observers that a call returned a value."""
        # `isinstance` is slow here, so it is skipped for what certainly is no ToolResult.
        reports = type(value) not in _PLAIN_TYPES
        result = value if reports and isinstance(value, ToolResult) else None
        failed = result is not None and result.is_error
        # The result of a server is counted as it was received, without what was read from it.
        counted = value if result is None or result.wire is None else result.wire
        record = self._kind(call)(
            call.tool.name,
            started,
            duration,
            "tool_error" if failed else "ok",
            "tool_error" if failed else None,
            1 if call.tally is None else call.tally.attempts,
            size,
            _json_size(counted),
            _cost(value) if reports else None,
            call.tool.server,
            call.meta,
            kept,
            value if self.results else None,
            call.phases,
        )
        self.tell(record)

    def failed(
        self,
        call: ToolCall,
        started: float,
        duration: float,
        error: BaseException,
        *,
        size: int | None,
        kept: Any = None,
    ) -> None:
        """Tell the observers that a call ended without a value."""
        outcome, code = _classify(error, call)
        attempts = 0 if outcome == "refused" else 1
        record = self._kind(call)(
            call.tool.name,
            started,
            duration,
            outcome,
            code,
            attempts if call.tally is None else call.tally.attempts,
            size,
            server=call.tool.server,
            meta=call.meta,
            arguments=kept,
            phases=call.phases,
        )
        self.tell(record)

    def _kind(self, call: ToolCall) -> type[CallRecord]:
        return (
            HoldingRecord
            if call.meta or call.phases is not None or self.arguments or self.results
            else CallRecord
        )


def _copy(arguments: Any) -> Any:
    try:
        return copy.deepcopy(arguments)
    except Exception:  # noqa: BLE001 - not JSON, and not copyable either
        return arguments


def _checked(observers: Iterable[Observer]) -> tuple[Observer, ...]:
    if callable(observers):
        raise TypeError("`observers` takes a list of callables, not a single callable.")
    found = tuple(observers)
    for observer in found:
        if not callable(observer):
            raise TypeError(f"An observer is a callable that takes a CallRecord, not {observer!r}.")
    return found


def _enter(tracer: Tracer, call: ToolCall) -> AbstractContextManager[object] | None:
    try:
        context = tracer.around(call)
        context.__enter__()
    except Exception:
        logger.exception("observer_failed")
        return None
    return context


def _leave(context: AbstractContextManager[object]) -> None:
    # Without the exception: a tracer is told by its record, and must not swallow or replace it.
    try:
        context.__exit__(None, None, None)
    except Exception:
        logger.exception("observer_failed")


def _classify(error: BaseException, call: ToolCall) -> tuple[Outcome, str]:
    # A refusal after the tool was started, or about another tool, is what this one raised after
    # calling it.
    if isinstance(error, PegboardError) and error.tool == call.tool.name:
        started = call.tally is not None and call.tally.attempts > 0
        if error.outcome != "refused" or not started:
            return error.outcome, error.code
    if isinstance(error, CancelledError):
        return "cancelled", "cancelled"
    return "raised", type(error).__name__


def _json_size(value: object) -> int | None:
    """Return the bytes a value takes as JSON, or ``None`` when it cannot be JSON."""
    try:
        return len(_encode(value))
    except Exception:  # noqa: BLE001 - any object may be a result; its size is simply not known
        return None


def _cost(value: object) -> float | None:
    meta: Any = None
    if isinstance(value, dict):
        meta = cast("dict[str, Any]", value).get("meta")
    elif isinstance(value, ToolResult):
        meta = value.meta
    cost = cast("dict[str, Any]", meta).get("cost") if isinstance(meta, dict) else None
    if isinstance(cost, bool) or not isinstance(cost, int | float):
        return None
    try:
        plain = float(cost)
    except OverflowError:
        return None
    return plain if math.isfinite(plain) else None
