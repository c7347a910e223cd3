"""Rate limit and concurrency limit of each caller of the gateway."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from pegboard.auth.shared_limits import Portion, SharedLimits
from pegboard.errors import RateLimitedError
from pegboard.model.principal import Principal

__all__ = ["CallLimits"]

MOST_CALLERS = 10_000
"""How many callers are tracked; beyond that, the one that was idle longest starts anew."""
SOON = 1.0
"""Seconds after which to retry when another call has to end first."""


class CallLimits:
    """Counts the calls of each tenant and subject; used by one event loop only.

    ``calls_per_minute`` is a token bucket: a caller may make that many calls at once, and the
    bucket refills evenly within a minute. ``concurrent_calls`` limits the calls in flight.

    Args:
        calls_per_minute: the limit of callers that have none of their own.
        concurrent_calls: the limit of callers that have none of their own.
        shared: settles the calls of a minute with the other replicas; ``None`` to count only here.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        *,
        calls_per_minute: int | None = None,
        concurrent_calls: int | None = None,
        shared: SharedLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_minute = calls_per_minute
        self._concurrent = concurrent_calls
        self.limits_everyone: bool = calls_per_minute is not None or concurrent_calls is not None
        """Whether callers have limits that have none of their own."""
        self._shared = shared
        self._clock = clock
        self._callers: OrderedDict[tuple[str, str], _Caller] = OrderedDict()

    def admit(
        self, principal: Principal, *, tool: str = "", suspended: int = 0, uses: int = 1
    ) -> "Admission":
        """Return a context manager around one call: ``with limits.admit(principal): ...``.

        Args:
            principal: the caller.
            tool: the name of the called tool, for the error.
            suspended: how many of the caller's calls are in flight but wait for its input.
            uses: as how many calls of a minute this one counts; all are admitted, or none.

        Raises:
            RateLimitedError: when the caller has to wait; ``retry_after`` says how long. It is
                infinite if ``uses`` exceeds the calls of a minute.
        """
        per_minute = principal.calls_per_minute or self._per_minute
        concurrent = principal.concurrent_calls or self._concurrent
        if per_minute is None and concurrent is None:
            return _UNLIMITED
        caller = self._caller((principal.tenant, principal.subject))
        if concurrent is not None and caller.running + suspended >= concurrent:
            raise _too_many_running(concurrent, tool)
        if per_minute is not None:
            caller.take(uses, per_minute, now=self._clock(), tool=tool)
        return Admission(caller)

    def charge(self, principal: Principal) -> None:
        """Count a request that was refused before it could be admitted."""
        per_minute = principal.calls_per_minute or self._per_minute
        if per_minute is not None:
            caller = self._caller((principal.tenant, principal.subject))
            caller.charge(per_minute, now=self._clock())

    def check(self, principal: Principal) -> None:
        """Check, before a request is read, that one more would be admitted; count nothing.

        Raises:
            RateLimitedError: when the caller has to wait.
        """
        caller = self._callers.get((principal.tenant, principal.subject))
        if caller is None:
            return
        concurrent = principal.concurrent_calls or self._concurrent
        if concurrent is not None and caller.running >= concurrent:
            raise _too_many_running(concurrent)
        per_minute = principal.calls_per_minute or self._per_minute
        if per_minute is not None:
            caller.after(1, per_minute, now=self._clock(), tool="")

    def _caller(self, key: tuple[str, str]) -> "_Caller":
        found = self._callers.get(key)
        if found is None:
            portion = None if self._shared is None else self._shared.portion_of(*key)
            found = self._callers[key] = _Caller(portion)
            if len(self._callers) > MOST_CALLERS:
                self._forget_one()
        else:
            self._callers.move_to_end(key)
        return found

    def _forget_one(self) -> None:
        # A caller with calls in flight must not be forgotten: it would exceed its limit.
        idle = next((key for key, it in self._callers.items() if it.is_idle), None)
        if idle is not None:
            del self._callers[idle]


class Admission:
    """A context manager that counts one call in flight until it ends."""

    __slots__ = ("_caller",)

    def __init__(self, caller: "_Caller | None") -> None:
        self._caller = caller
        if caller is not None:
            caller.running += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._caller is not None:
            self._caller.running -= 1


class _Caller:
    __slots__ = ("paid_until", "portion", "running")

    def __init__(self, portion: Portion | None) -> None:
        self.portion: Portion | None = portion
        self.running: int = 0
        self.paid_until: float = 0.0
        """The moment at which all calls so far would have been evenly spread."""

    @property
    def is_idle(self) -> bool:
        return not self.running and (self.portion is None or not self.portion.owed)

    def take(self, uses: int, per_minute: int, *, now: float, tool: str) -> None:
        paid_until = self.after(uses, per_minute, now=now, tool=tool)
        if self.portion is not None:
            self.portion.take(uses * 60.0 / per_minute, per_minute, now=now, tool=tool)
        self.paid_until = paid_until

    def charge(self, per_minute: int, *, now: float) -> None:
        # No more than an empty bucket: the caller need not wait longer than a minute for a call.
        paid_until = max(self.paid_until, now) + 60.0 / per_minute
        self.paid_until = min(paid_until, now + 60.0)
        if self.portion is not None:
            with suppress(RateLimitedError):
                self.portion.take(60.0 / per_minute, per_minute, now=now, tool="")

    def after(self, uses: int, per_minute: int, *, now: float, tool: str) -> float:
        """Return the new ``paid_until``; raise `RateLimitedError` when it is too far away."""
        if uses > per_minute:
            words = f"You may make {per_minute} calls a minute, and this request counts as {uses}. "
            words += "Ask for less at once."
            raise RateLimitedError(words, tool=tool, retry_after=math.inf)
        each = 60.0 / per_minute
        spread = self.paid_until
        if self.portion is not None:
            spread = max(spread, self.portion.known_until)
        paid_until = max(spread, now) + uses * each
        wait = paid_until - now - 60.0
        # Not quite zero: sixty times a sixtieth of a minute is more than a minute, in floats.
        if wait > each * 1e-6:
            seconds = max(1, round(wait))
            words = f"You may make {per_minute} calls a minute. Try again in {seconds} s."
            raise RateLimitedError(words, tool=tool, retry_after=wait)
        return paid_until


def _too_many_running(concurrent: int, tool: str = "") -> RateLimitedError:
    words = (
        f"You have {concurrent} calls in flight, which is your limit. Wait for one of them to end."
    )
    return RateLimitedError(words, tool=tool, retry_after=SOON)


_UNLIMITED = Admission(None)
