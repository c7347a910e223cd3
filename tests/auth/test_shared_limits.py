"""Rate limits that several replicas hold together."""

import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial

import anyio
import anyio.lowlevel
import pytest

from pegboard.auth import CallLimits, SharedLimits
from pegboard.errors import RateLimitedError, StoreUnavailableError
from pegboard.model import Principal
from pegboard.storage import open_store
from pegboard.testing import Memory
from tests.auth.test_limits import Clock, made
from tests.storage.postgres_server import PostgresServer, database_of, postgres_server, postgres_url

__all__ = ["postgres_server", "postgres_url"]

HOUR = 60.0 * 60
ANN = Principal(subject="ann", calls_per_minute=600)
TENTH = 60


class Ledger:
    """The buckets of a store whose clock is that of the test, which a test may take away."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._empty_at: dict[str, float] = {}
        self.is_gone = False
        self.answers = 0

    def fill(self, amounts: Mapping[str, float], *, most: float) -> dict[str, float]:
        if self.is_gone:
            raise StoreUnavailableError("The store is gone.", url="memory:")
        self.answers += 1
        now = self._clock.now
        for key, amount in amounts.items():
            self._empty_at[key] = min(max(self._empty_at.get(key, now), now) + amount, now + most)
        return {key: self._empty_at[key] - now for key in amounts}


class Replica:
    """The limits of one process."""

    def __init__(self, ledger: Ledger, clock: Callable[[], float]) -> None:
        self.shared = SharedLimits(ledger.fill, clock=clock)
        self.limits = CallLimits(shared=self.shared, clock=clock)

    def calls(self, wanted: int, principal: Principal = ANN) -> int:
        return made(self.limits, principal, wanted)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(clock: Clock) -> Ledger:
    return Ledger(clock)


async def test_a_call_takes_from_the_portion_and_does_not_ask_the_store(
    ledger: Ledger, clock: Clock
) -> None:
    replica = Replica(ledger, clock)
    assert replica.calls(TENTH) == TENTH
    assert ledger.answers == 0
    with pytest.raises(RateLimitedError, match="600 calls a minute, 60 of them at once") as refused:
        replica.limits.admit(ANN, tool="echo")
    assert (refused.value.tool, refused.value.retry_after) == ("echo", 1.0)
    await replica.shared.settle()
    assert ledger.answers == 1
    assert replica.calls(TENTH + 1) == TENTH


@pytest.mark.parametrize("replicas", [1, 2, 3])
async def test_replicas_together_allow_the_limit_and_at_most_a_portion_each_beyond_it(
    ledger: Ledger, clock: Clock, replicas: int
) -> None:
    # Their clocks differ by hours.
    clocks = [lambda off=number: clock.now + off * HOUR for number in range(replicas)]
    all_of_them = [Replica(ledger, it) for it in clocks]
    total = 0
    for _ in range(30):
        total += sum(it.calls(1_000) for it in all_of_them)
        for it in all_of_them:
            await it.shared.settle()
    assert 600 <= total <= 600 + replicas * TENTH
    # What was too much is paid back, and the minutes after it bring no more than they should.
    for _ in range(600):
        clock.now += 1.0
        total += sum(it.calls(1_000) for it in all_of_them)
        for it in all_of_them:
            await it.shared.settle()
    assert 600 + 6_000 - 10 <= total <= 600 + 6_000 + replicas * TENTH


async def test_a_replica_that_joins_learns_what_the_others_have_used(
    ledger: Ledger, clock: Clock
) -> None:
    first, second = Replica(ledger, clock), Replica(ledger, clock)
    for _ in range(20):
        first.calls(1_000)
        await first.shared.settle()
    assert second.calls(1_000) == TENTH
    await second.shared.settle()
    assert second.calls(1_000) == 0


async def test_callers_of_one_name_in_two_tenants_have_limits_of_their_own(
    ledger: Ledger, clock: Clock
) -> None:
    replica = Replica(ledger, clock)
    theirs = Principal(subject="ann", tenant="other", calls_per_minute=600)
    for _ in range(20):
        replica.calls(1_000)
        await replica.shared.settle()
    assert replica.calls(1_000) == 0
    assert replica.calls(1_000, theirs) == TENTH


async def test_a_small_limit_has_portions_of_one_call(ledger: Ledger, clock: Clock) -> None:
    slow = Principal(subject="slow", calls_per_minute=4)
    first, second = Replica(ledger, clock), Replica(ledger, clock)
    total = 0
    for _ in range(10):
        allowed = first.calls(9, slow), second.calls(9, slow)
        assert max(allowed) <= 1
        total += sum(allowed)
        await first.shared.settle()
        await second.shared.settle()
    assert 4 <= total <= 6


async def test_a_request_of_more_than_a_portion_passes_as_a_whole_with_a_fresh_one(
    ledger: Ledger, clock: Clock
) -> None:
    replica = Replica(ledger, clock)
    replica.calls(1)
    with pytest.raises(RateLimitedError):
        replica.limits.admit(ANN, uses=100)
    await replica.shared.settle()
    replica.limits.admit(ANN, uses=100)
    assert replica.calls(1_000) == 0


async def test_refused_requests_count_at_all_replicas(ledger: Ledger, clock: Clock) -> None:
    first, second = Replica(ledger, clock), Replica(ledger, clock)
    for _ in range(20):
        for _ in range(TENTH):
            first.limits.charge(ANN)
        await first.shared.settle()
    second.calls(1)
    await second.shared.settle()
    assert second.calls(1_000) == 0


async def test_without_the_store_a_replica_allows_a_portion_a_minute_and_says_so_once(
    ledger: Ledger, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    replica = Replica(ledger, clock)
    ledger.is_gone = True
    assert replica.calls(1_000) == TENTH
    total = 0
    for _ in range(120):
        await replica.shared.settle()
        clock.now += 1.0
        total += replica.calls(1_000)
    assert 2 * TENTH - 10 <= total <= 2 * TENTH
    with pytest.raises(RateLimitedError) as refused:
        replica.limits.admit(ANN)
    assert refused.value.retry_after >= 1.0
    assert [it.message.split(":")[0] for it in caplog.records] == ["rate_limits_not_shared"]

    # Back again, it hears of every call that it missed.
    ledger.is_gone = False
    await replica.shared.settle()
    other = Replica(ledger, clock)
    other.calls(1)
    await other.shared.settle()
    allowed = 0
    for _ in range(20):
        allowed += other.calls(1_000)
        await other.shared.settle()
    assert allowed < 600
    assert caplog.messages[-1] == "rate_limits_shared_again"


async def test_what_is_owed_is_not_forgotten_with_its_caller(
    ledger: Ledger, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pegboard.auth.rate_limits.MOST_CALLERS", 1)
    replica = Replica(ledger, clock)
    assert replica.calls(1_000) == TENTH
    for number in range(10):
        replica.calls(1, Principal(subject=f"{number}", calls_per_minute=600))
    assert replica.calls(1_000) == 0


@asynccontextmanager
async def replica_on(url: str) -> AsyncGenerator[tuple[CallLimits, SharedLimits]]:
    """One replica with a connection of its own."""
    store = await anyio.to_thread.run_sync(partial(open_store, url))
    try:
        shared = SharedLimits(store.fill_buckets)
        yield CallLimits(shared=shared), shared
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(store.close)


async def all_that_is_allowed(limits: CallLimits, shared: SharedLimits) -> int:
    """Call as often as is allowed, until nothing is three times in a row."""
    allowed = refused = 0
    while refused < 3:
        got = made(limits, SLOW, 1_000)
        allowed, refused = allowed + got, 0 if got else refused + 1
        await shared.settle()
    return allowed


SLOW = Principal(subject="slow", calls_per_minute=100)
"""A limit that brings little while a test runs."""


@pytest.mark.parametrize("replicas", [2, 3])
async def test_replicas_on_one_postgresql_hold_a_limit_together(
    postgres_url: str, replicas: int
) -> None:
    totals: list[int] = []
    began = anyio.current_time()
    ready = anyio.Event()

    async def run(number: int) -> None:
        async with replica_on(postgres_url) as (limits, shared):
            if number == replicas - 1:
                ready.set()
            await ready.wait()
            totals.append(await all_that_is_allowed(limits, shared))

    with anyio.fail_after(50):
        async with anyio.create_task_group() as tasks:
            for number in range(replicas):
                tasks.start_soon(run, number)
    brought = 100 * (anyio.current_time() - began) / 60
    assert len(totals) == replicas
    assert 100 <= sum(totals) <= 100 + brought + replicas * 10


async def test_a_replica_that_is_killed_takes_no_more_than_its_portion_along(
    postgres_url: str,
) -> None:
    program = (
        "import sys, time\n"
        "from tests.auth.test_shared_limits import SLOW, made\n"
        "from pegboard.auth import CallLimits, SharedLimits\n"
        "from pegboard.storage import open_store\n"
        "shared = SharedLimits(open_store(sys.argv[1]).fill_buckets)\n"
        "print(made(CallLimits(shared=shared), SLOW, 1000), flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program, postgres_url]
    async with await anyio.open_process(command, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        with anyio.fail_after(30):
            lost = int(await process.stdout.receive())
        process.kill()
    assert lost == 10
    began = anyio.current_time()
    async with replica_on(postgres_url) as (limits, shared):
        with anyio.fail_after(50):
            allowed = await all_that_is_allowed(limits, shared)
    brought = 100 * (anyio.current_time() - began) / 60
    assert 100 <= lost + allowed <= 100 + brought + 2 * 10


async def test_calls_go_on_while_the_database_is_closed_and_portions_are_renewed_after_it(
    postgres_server: PostgresServer, postgres_url: str
) -> None:
    def opened(*, to_clients: bool) -> None:
        name = database_of(postgres_url)
        postgres_server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS {to_clients}")
        if not to_clients:
            postgres_server.cut_connections(postgres_url)

    async with replica_on(postgres_url) as (limits, shared), anyio.create_task_group() as tasks:
        tasks.start_soon(shared.run)
        await anyio.to_thread.run_sync(partial(opened, to_clients=False))
        try:
            assert made(limits, SLOW, 1_000) == 10
            await anyio.wait_all_tasks_blocked()
            assert made(limits, SLOW, 1_000) == 0
        finally:
            await anyio.to_thread.run_sync(partial(opened, to_clients=True))
        with anyio.fail_after(50):
            while not made(limits, SLOW, 2):
                await anyio.to_thread.run_sync(lambda: postgres_server.execute("SELECT 1"))
        tasks.cancel_scope.cancel()


async def test_alone_the_whole_limit_is_available_at_once_and_what_was_used_counts_for_others(
    ledger: Ledger, clock: Clock
) -> None:
    others = False
    first, second = Replica(ledger, clock), Replica(ledger, clock)
    first.shared = SharedLimits(ledger.fill, has_others=lambda: others, clock=clock)
    first.limits = CallLimits(shared=first.shared, clock=clock)

    async def looked() -> None:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(first.shared.run)
                while first.shared.is_alone is others:
                    await anyio.lowlevel.checkpoint()
                tasks.cancel_scope.cancel()

    await looked()
    assert first.calls(1_000) == 600
    await first.shared.settle()
    assert second.calls(1) == 1
    await second.shared.settle()
    assert second.calls(1_000) == 0
    clock.now += HOUR
    others = True
    await looked()
    assert first.calls(1_000) == TENTH


def test_replicas_on_stores_of_one_place_start_with_a_portion_each(clock: Clock) -> None:
    memory = Memory()
    with memory.open() as one, memory.open() as two:
        fillers = (one.fill_buckets, two.fill_buckets)
        limits = [CallLimits(shared=SharedLimits(it, clock=clock), clock=clock) for it in fillers]
        assert [made(it, ANN, 100) for it in limits] == [TENTH, TENTH]
