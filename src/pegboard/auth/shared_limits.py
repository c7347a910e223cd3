"""Rate limits across replicas: each uses a portion of a limit and settles with the shared store."""

import logging
import time
from collections.abc import Callable, Mapping
from functools import partial
from hashlib import sha256

import anyio
import anyio.to_thread

from pegboard.errors import RateLimitedError

__all__ = ["Portion", "SharedLimits"]

logger: logging.Logger = logging.getLogger("pegboard.auth")

TENTH = 6.0
"""A portion: a tenth of the calls of a minute, as the seconds that they take up."""
MOST = 120.0
"""The fullest bucket: the calls of a minute, and the portions of ten replicas."""
INTERVAL = 1.0
"""The longest time, in seconds, between a call and the report of it to the store."""
PATIENCE = 5.0
"""Seconds without an answer of the store after which a portion refills by itself."""
LOOK = 5.0
"""Seconds between two looks for other replicas, where there may be none."""
SOON = 1.0
"""Seconds after which to retry while the store confirms a portion."""

Fill = Callable[[Mapping[str, float]], Mapping[str, float]]
"""Adds to buckets of the store, and returns their levels; it blocks."""


class SharedLimits:
    """Keeps the portions of this replica, and settles what was used of them in the background.

    A call takes from its caller's portion and never waits for the store. The store has a leaky
    bucket for each caller, which all replicas fill. Its answer is the level, a length of time, so
    the clocks of the replicas need not agree. Used by one event loop only.

    Args:
        fill: `Store.fill_buckets` of the shared store.
        has_others: tells whether other replicas run; it blocks. ``None`` if there may always be
            some. While there are none, a portion is the whole limit.
        clock: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        fill: Callable[..., Mapping[str, float]],
        *,
        has_others: Callable[[], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fill: Fill = partial(fill, most=MOST)
        self._has_others = has_others
        self._clock = clock
        self._owing: dict[str, Portion] = {}
        self._some = anyio.Event()
        self._soon = anyio.Event()
        self._asked_at: float | None = None
        self.is_failing: bool = False
        """Whether the last attempt to settle has failed."""
        self.is_alone: bool = False
        """Whether no other replica ran when it was last looked for one."""

    def portion_of(self, tenant: str, subject: str) -> "Portion":
        """Return a new portion for a caller."""
        return Portion(self, sha256(f"{tenant}\0{subject}".encode()).hexdigest()[:32])

    async def run(self) -> None:
        """Settle when a portion is half used, or a second after a call; until cancelled."""
        async with anyio.create_task_group() as tasks:
            if self._has_others is not None:
                tasks.start_soon(self._look_for_others, self._has_others)
            await self._settle_in_time()

    async def _look_for_others(self, has_others: Callable[[], bool]) -> None:
        while True:
            self.is_alone = not await anyio.to_thread.run_sync(has_others, abandon_on_cancel=True)
            await anyio.sleep(LOOK)

    async def _settle_in_time(self) -> None:
        try:
            while True:
                await self._some.wait()
                with anyio.move_on_after(INTERVAL):
                    await self._soon.wait()
                await self.settle()
                if self.is_failing:
                    await anyio.sleep(INTERVAL)
        finally:
            if not self.is_failing:
                with anyio.move_on_after(INTERVAL, shield=True):
                    await self.settle()

    async def settle(self) -> None:
        """Report what was used to the store, and learn what all replicas used together."""
        owing, self._owing = self._owing, {}
        self._some, self._soon = anyio.Event(), anyio.Event()
        amounts = {key: it.report() for key, it in owing.items()}
        if not amounts:
            return
        self._asked_at = self._clock()
        try:
            levels = await anyio.to_thread.run_sync(self._fill, amounts, abandon_on_cancel=True)
        except Exception as error:
            if not self.is_failing and not self.is_alone:
                words = "rate_limits_not_shared: until the store answers, each replica allows a "
                words += "tenth of each limit: %s"
                logger.warning(words, error, exc_info=True)
            self.is_failing = True
            for key, it in owing.items():
                it.owed += amounts[key]
                self._owing[key] = it
            self._some.set()
            return
        finally:
            self._asked_at = None
        if self.is_failing:
            logger.warning("rate_limits_shared_again")
        self.is_failing = False
        now = self._clock()
        for key, it in owing.items():
            it.renew(levels[key], now)

    def note(self, portion: "Portion", *, is_half_used: bool) -> None:
        """Remember a portion to settle, soon if half of it is used."""
        if portion.key not in self._owing:
            self._owing[portion.key] = portion
            self._some.set()
        if is_half_used and not self.is_alone:
            self._soon.set()

    def is_cut_off(self, now: float) -> bool:
        """Tell whether the store has not answered for some seconds."""
        return self.is_failing or (self._asked_at is not None and now - self._asked_at > PATIENCE)


class Portion:
    """The part of one caller's limit that may be used here before the store has heard of it.

    All amounts are seconds: with 60 calls a minute, each call takes up one.
    """

    __slots__ = ("_limits", "_since", "_used", "key", "known_until", "owed")

    def __init__(self, limits: SharedLimits, key: str) -> None:
        self._limits = limits
        self.key: str = key
        self.known_until: float = 0.0
        """When the calls at all replicas, as far as known here, would have been evenly spread."""
        self.owed: float = 0.0
        """What was used and is not reported yet."""
        self._used: float = 0.0
        self._since: float = 0.0

    def take(self, seconds: float, per_minute: int, *, now: float, tool: str) -> None:
        """Use some of the portion; what exceeds a whole portion needs a fresh one, and passes.

        Raises:
            RateLimitedError: when too little of it is left.
        """
        size = max(TENTH, 60.0 / per_minute)
        if not self._used:
            self._since = now
        elif now - self._since > PATIENCE:
            # The store is gone: a portion a minute, so ten replicas stay within the limit.
            self._used = max(0.0, self._used - (now - self._since) * size / 60.0)
            self._since = now
        # Not quite: the sum of six sixtieths may be more than a tenth, in floats.
        missing = self._used + seconds - size * (1 + 1e-6)
        if missing > 0 and self._used and not self._limits.is_alone:
            wait = SOON
            if self._limits.is_cut_off(now):
                wait = max(SOON, min(missing, self._used) * 60.0 / size)
            at_once = int(size * per_minute / 60.0 * (1 + 1e-6))
            words = f"You may make {per_minute} calls a minute, {at_once} of them at once. "
            words += f"Try again in {round(wait)} s."
            raise RateLimitedError(words, tool=tool, retry_after=wait)
        self._used += seconds
        self.owed += seconds
        self._limits.note(self, is_half_used=self._used >= size / 2)

    def report(self) -> float:
        """Return what is owed; it counts as reported from now on."""
        owed, self.owed = self.owed, 0.0
        return owed

    def renew(self, level: float, now: float) -> None:
        """Start a new portion; what was used since the report is taken from it."""
        self.known_until = now + level + self.owed
        self._used = self.owed
        self._since = now
