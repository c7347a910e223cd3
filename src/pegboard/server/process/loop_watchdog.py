"""Loop watchdog: reports the code that uses the CPU of the event loop for too long at a stretch.

Between two polls, the event loop runs what is ready. While that takes CPU time, every client
waits. A thread samples the CPU clock of the loop's thread, so time on a busy machine and waiting
do not count.
"""

import asyncio  # noqa: TID251 - the event loop itself is the matter
import logging
import selectors
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

__all__ = ["LoopWatchdog", "WatchedEventLoop", "place_of", "watched"]

logger: logging.Logger = logging.getLogger("pegboard.server")

_SAMPLES = 4
"""How many samples are taken in the time that is allowed."""
_IDLE_SAMPLES = 20
"""After so many samples without a poll the thread sleeps, until the loop has something to do."""
_MOST_PLACES = 200
_OTHER = "other"
"""Stands for all places after the first ones."""


class _Polls(selectors.DefaultSelector):
    """The selector of the loop; it notes when the last poll ended."""

    ended: float = 0.0
    """When the last poll ended; 0 during a poll."""
    asleep: "tuple[LoopWatchdog, ...]" = ()
    """The watchdogs to wake at the next end of a poll."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.ended = 0.0
        ready = super().select(timeout)
        self.ended = time.monotonic()
        if self.asleep:
            asleep, self.asleep = self.asleep, ()
            for it in asleep:
                it.wake(self.ended)
        return ready


class WatchedEventLoop(asyncio.SelectorEventLoop):
    """An event loop that a `LoopWatchdog` can watch."""

    def __init__(self) -> None:
        self.polls: _Polls = _Polls()
        super().__init__(self.polls)


class LoopWatchdog:
    """A thread that samples a loop, and reports each stretch between two polls that is too long.

    A report comes while the code still runs, once for each stretch. A stretch is never reported if
    it took less CPU time than allowed. One that took a quarter more is always reported.

    Args:
        loop: the loop, which runs or will run in the current thread.
        seconds: how much CPU time a stretch may take.
        on_stall: called in the thread of the watchdog, with the frame that the loop is in.
    """

    def __init__(
        self, loop: WatchedEventLoop, *, seconds: float, on_stall: Callable[[FrameType], object]
    ) -> None:
        self._polls = loop.polls
        self._seconds, self._on_stall = seconds, on_stall
        self._loop_thread = threading.get_ident()
        self._clock = time.pthread_getcpuclockid(self._loop_thread)
        self._ended = False
        self._wake, self._woke = threading.Event(), 0.0
        self._thread = threading.Thread(target=self._run, name="loop-watchdog", daemon=True)

    def start(self) -> None:
        """Start to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Stop, before the thread of the loop ends."""
        self._ended = True
        self._wake.set()
        self._thread.join()

    def wake(self, ended: float) -> None:
        """Go on sampling, because a poll has ended."""
        self._woke = ended
        self._wake.set()

    def _run(self) -> None:
        stretch = spent = 0.0
        quiet = 0
        is_reported = False
        _, before, cpu_before = self._sample()
        while not self._ended:
            if quiet >= _IDLE_SAMPLES:
                # The loop was in the poll all the time, so it used no CPU time meanwhile.
                before, quiet = self._sleep_until_work(before), 0
            else:
                self._wake.wait(self._seconds / _SAMPLES)
            ended, now, cpu = self._sample()
            if ended == 0.0:
                quiet, stretch = quiet + 1, 0.0
            else:
                quiet = 0
                if ended == stretch:
                    spent += cpu - cpu_before
                else:
                    # What the loop used since the last sample, before this stretch began, does
                    # not count. It was no more than the time that passed.
                    spent = cpu - cpu_before - max(0.0, ended - before)
                    stretch, is_reported = ended, False
                if spent > self._seconds and not is_reported:
                    is_reported = True
                    self._report(stretch)
            before, cpu_before = now, cpu

    def _sample(self) -> tuple[float, float, float]:
        """Return the end of the last poll, the time, and the CPU time of the loop."""
        while True:
            ended = self._polls.ended
            now, cpu = time.monotonic(), time.clock_gettime(self._clock)
            # The loop may have run between these lines; then they do not belong together.
            if self._polls.ended == ended:
                return ended, now, cpu

    def _sleep_until_work(self, before: float) -> float:
        """Sleep while the loop waits in a poll, so that an idle process stays idle.

        Returns:
            The time until which the loop was in the poll.
        """
        self._woke = before
        self._polls.asleep += (self,)
        if self._polls.ended == 0.0:
            self._wake.wait()
        if not self._ended:
            self._wake.clear()
        return self._woke

    def _report(self, stretch: float) -> None:
        frame = sys._current_frames().get(self._loop_thread)  # pyright: ignore[reportPrivateUsage] - documented
        # The loop may have gone on since the sample.
        if frame is None or self._polls.ended != stretch:
            return
        try:
            self._on_stall(frame)
        except Exception:
            logger.exception("A stall of the event loop could not be reported.")


def place_of(frame: FrameType) -> str:
    """Return where a frame is: the innermost function of Pegboard, and what it has called."""
    own, called = _own_frame(frame)
    if own is None:
        return _words(frame)
    return _words(own) if called is None else f"{_words(own)} > {_words(called)}"


def line_of(frame: FrameType) -> int:
    """Return the line that a frame is at, or the first of its function while it is at none."""
    line: int | None = frame.f_lineno
    return frame.f_code.co_firstlineno if line is None else line


def _own_frame(frame: FrameType) -> tuple[FrameType | None, FrameType | None]:
    """Return the innermost frame of Pegboard, and the frame of a library that it has called."""
    own: FrameType | None = frame
    called: FrameType | None = None
    while own is not None and not _module_of(own).startswith("pegboard."):
        own, called = own.f_back, own
    return own, called


def _module_of(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _words(frame: FrameType) -> str:
    return f"{_module_of(frame)}:{frame.f_code.co_qualname}"


class _Stalls:
    """Counts the stalls by place, and logs the first one of each place."""

    def __init__(self, seconds: float, count: Callable[[str], object]) -> None:
        self._milliseconds, self._count = round(seconds * 1000), count
        self._known: set[str] = set()

    def note(self, frame: FrameType) -> None:
        place = place_of(frame)
        is_new = place not in self._known
        if is_new and len(self._known) >= _MOST_PLACES:
            self._count(_OTHER)
            return
        self._count(place)
        if is_new:
            self._known.add(place)
            own, _ = _own_frame(frame)
            line = line_of(own or frame)
            logger.warning(
                "loop_stall: the event loop used more than %d ms of CPU time at a stretch, "
                "at %s (line %d)",
                self._milliseconds,
                place,
                line,
                extra={"place": place, "line": line},
            )


@contextmanager
def watched(seconds: float, count: Callable[[str], object]) -> Generator[None]:
    """Watch the running loop, if it is a `WatchedEventLoop` and this system has CPU clocks.

    Args:
        seconds: how much CPU time a stretch may take; 0 to watch nothing.
        count: called with the place of each stall, in another thread.
    """
    loop = asyncio.get_running_loop()
    if not (seconds and isinstance(loop, WatchedEventLoop)) or not hasattr(
        time, "pthread_getcpuclockid"
    ):
        yield
        return
    watchdog = LoopWatchdog(loop, seconds=seconds, on_stall=_Stalls(seconds, count).note)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.stop()
