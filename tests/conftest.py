"""What every test needs: one backend, no blocking calls on an event loop, the programs it names."""

import gc
import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from types import FrameType
from typing import ClassVar

import pytest
from blockbuster import BlockBuster, blockbuster_ctx
from hypothesis import HealthCheck, settings

from pegboard import CallRecord
from pegboard.server.process.loop_watchdog import LoopWatchdog, WatchedEventLoop, place_of

# How long an example takes says more about the machine than about our code.
settings.register_profile(
    "unhurried", parent=settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("unhurried")

TOOLS = Path(__file__).parents[1] / ".tools"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", metavar="SEED", help="Run the tests in a random order.")


def pytest_configure() -> None:
    # `nohup`, and a script that runs the tests in the background, let them ignore these signals.
    # Every program that a test starts would inherit that; none inherits a handler.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_collection_finish() -> None:
    # The tests themselves are most of the heap. As in `pegboard serve`, no collection looks
    # through what was there at the start: that would keep the event loop busy.
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed = config.getoption("--shuffle")
    if seed:
        # The seed makes the same order in every process of pytest-xdist, which asks for that.
        random.Random(seed).shuffle(items)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose foreign programs are not installed, and name the recipe that does it."""
    for name, recipe in {"interop": "make interop", "interop_full": "make interop-full"}.items():
        for mark in item.iter_markers(name):
            missing = [it for it in mark.args if not (TOOLS / it / ".installed").exists()]
            if missing:
                pytest.skip(f"Missing in .tools: {', '.join(missing)}. Run `{recipe}`.")


def pytest_terminal_summary(terminalreporter: "pytest.TerminalReporter") -> None:
    """Print one line for each system that `tests/oracles` compared with ours."""
    lines = [
        str(value)
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "compared" and getattr(report, "when", "") == "call"
    ]
    if lines:
        terminalreporter.section("compared with the systems themselves")
        for line in sorted(lines):
            terminalreporter.write_line(line)


@pytest.fixture(scope="session", autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Give the run a home of its own: a running gateway announces itself in the user's home."""
    home = str(tmp_path_factory.mktemp("home"))
    with pytest.MonkeyPatch.context() as patch:
        for name in [it for it in os.environ if it.startswith(("PEGBOARD_", "XDG_"))]:
            patch.delenv(name)
        patch.setenv("HOME", home)
        patch.setenv("USERPROFILE", home)
        yield


TOLERATED_STALLS: frozenset[str] = frozenset()
"""Functions of Pegboard that may keep the event loop busy for longer than `STALL` in a test."""
STALL = 1.0
"""Seconds of CPU time; more than the gateway allows itself: a test may start a hundred servers in
one turn of its loop, and the heap of the tests makes each garbage collection long."""
_LONG_COLLECTION = 0.02


class _Collections:
    """When garbage was collected last: no other thread runs meanwhile, so it is learnt later."""

    began = ended = 0.0
    is_running = False

    def __call__(self, phase: str, _: dict[str, int]) -> None:
        self.is_running = phase == "start"
        if phase == "start":
            self.began = monotonic()
        elif monotonic() - self.began > _LONG_COLLECTION:
            self.ended = monotonic()


_collections = _Collections()
gc.callbacks.append(_collections)


class WatchedTestLoop(WatchedEventLoop):
    """The event loop of a test; it notes which code of ours keeps it busy."""

    stalls: ClassVar[list[str]] = []

    def __init__(self) -> None:
        super().__init__()
        self._watchdog = LoopWatchdog(self, seconds=STALL, on_stall=self._note)
        self._watchdog.start()

    def close(self) -> None:
        self._watchdog.stop()
        super().close()

    def _note(self, frame: FrameType) -> None:
        stack: list[str] = []
        outer: FrameType | None = frame
        while outer is not None:
            stack.append(outer.f_code.co_filename)
            outer = outer.f_back
        # What a test calls itself is its own affair, and an import happens once.
        is_own = any(
            it.startswith((str(Path(__file__).parent), "<frozen importlib")) for it in stack
        )
        place = place_of(frame)
        # A collection of garbage happens anywhere; its time belongs to all tests before.
        has_collected = _collections.is_running or monotonic() - _collections.ended < 1
        if not is_own and not has_collected and place.startswith("pegboard."):
            self.stalls.append(place)


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"loop_factory": WatchedTestLoop}


@pytest.fixture(autouse=True)
def no_loop_stalls() -> Iterator[None]:
    """Fail when our own code keeps the event loop of a test busy."""
    WatchedTestLoop.stalls.clear()
    yield
    found = [it for it in WatchedTestLoop.stalls if it not in TOLERATED_STALLS]
    assert not found, f"The event loop was busy for more than {STALL} s of CPU time."


@pytest.fixture(autouse=True)
def no_blocking_calls() -> Iterator[BlockBuster]:
    """Fail when our own code blocks an event loop."""
    with blockbuster_ctx("pegboard") as detector:
        # A record is one short write to a local file, like a line of any log.
        detector.functions["os.write"].can_block_in("pegboard/observe/json_lines.py", "__call__")
        # `call` inside a running loop waits on purpose; that is what it is for.
        for name in ("threading.Lock.acquire", "lock.acquire"):
            if name in detector.functions:
                detector.functions[name].deactivate()
        yield detector


@pytest.fixture
def records() -> list[CallRecord]:
    """Collects call records: pass its `append` as an observer."""
    return []
