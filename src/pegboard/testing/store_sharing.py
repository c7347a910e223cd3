"""The store contract for concurrency: threads lose no writes, and tenants are isolated."""
# ruff: noqa: D102 - the names of the tests say it

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from pegboard.errors import RevisionConflictError
from pegboard.model import Usage
from pegboard.storage import Store, StoredTool, StoredValue, Use
from pegboard.testing.store_opening import OpensStores, tool

__all__ = ["SharingContract"]

THREADS = 16
EACH = 10
STEPS = 5
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


class SharingContract(OpensStores):
    """Several threads, stores and tenants at once."""

    def test_two_handles_see_each_other(self, store: Store, twin: Store) -> None:
        for writer, reader in ((store, twin), (twin, store)):
            writer.save(tool("a", writer.url))
            writer.namespace("pins").put("a", 1)
            writer.add_usage({"a": Use(1, NOON)})
            assert "a" in reader.load(["a"])
            assert [it.tool.name for it in reader.load_all()] == ["a"]
            assert reader.usage()["a"].use_frequency == 1
            assert reader.namespaces() == ["pins"]
            assert reader.namespace("pins").get("a") is not None
            assert writer.delete("a")
            assert writer.namespace("pins").delete(["a"]) == 1
            assert reader.load_all() == []
            assert reader.usage() == {}
            assert reader.namespaces() == []

    def test_sixteen_threads_lose_nothing(self, store: Store, twin: Store) -> None:
        def write(number: int) -> None:
            mine = (store, twin)[number % 2]
            for step in range(EACH):
                mine.save(tool(f"one-{number}-{step}"))
                mine.namespace("pins").put(f"{number}-{step}", step)
                mine.add_usage({"shared": Use(1, NOON), f"own-{number}": Use(1, NOON)})
            mine.save_many(tool(f"many-{number}-{step}") for step in range(EACH))

        at_once(write)
        numbers = [(number, step) for number in range(THREADS) for step in range(EACH)]
        for reader in (store, twin):
            assert {it.tool.name for it in reader.load_all()} == {
                f"{kind}-{number}-{step}" for number, step in numbers for kind in ("one", "many")
            }
            assert {key: it.value for key, it in reader.namespace("pins").items().items()} == {
                f"{number}-{step}": step for number, step in numbers
            }
            usage = reader.usage()
            assert usage.pop("shared") == Usage(use_frequency=THREADS * EACH, last_used=NOON)
            assert {it.use_frequency for it in usage.values()} == {EACH}

    def test_readers_see_all_or_nothing_of_a_batch(self, store: Store, twin: Store) -> None:
        sizes = set[int]()

        def work(number: int) -> None:
            if number == 0:
                for step in range(EACH):
                    store.save_many(tool(f"{name}", str(step)) for name in range(50))
            else:
                reader = (store, twin)[number % 2]
                found = reader.load_all()
                sizes.add(len(found))
                assert len({it.tool.description for it in found}) <= 1

        at_once(work)
        assert sizes <= {0, 50}

    def test_comparing_under_contention_counts_exactly(self, store: Store, twin: Store) -> None:
        store.namespace("pins").put("count", 0)
        store.save(tool("count", "0"))

        def count(number: int) -> None:
            mine = (store, twin)[number % 2]
            for _ in range(STEPS):
                until_it_is_done(lambda: _count_value(mine))
                until_it_is_done(lambda: _count_tool(mine))

        at_once(count)
        found = twin.namespace("pins").get("count")
        assert found is not None
        assert found.value == THREADS * STEPS
        assert store.load(["count"])["count"].tool.description == str(THREADS * STEPS)

    def test_of_many_who_expect_nothing_one_wins(self, store: Store, twin: Store) -> None:
        winners: list[str] = []

        def compete(number: int) -> None:
            mine = (store, twin)[number % 2]
            for what in ("value", "tool", "delete"):
                try:
                    if what == "value":
                        mine.namespace("pins").put("a", number, expected=None)
                    else:
                        mine.save(tool(what, str(number)), expected=None)
                except RevisionConflictError:
                    continue
                winners.append(what)

        at_once(compete)
        assert sorted(winners) == ["delete", "tool", "value"]

    def test_of_many_who_delete_one_is_told_so(self, store: Store, twin: Store) -> None:
        store.save(tool("a"))
        store.namespace("pins").put("a", 1)
        told: list[int] = []

        def remove(number: int) -> None:
            mine = (store, twin)[number % 2]
            told.append(int(mine.delete("a")))
            told.append(mine.namespace("pins").delete(["a"]))

        at_once(remove)
        assert sum(told) == 2

    def test_tenants_never_see_each_other(self, store: Store, stranger: Store) -> None:
        _fill(store, "mine")
        assert _everything(stranger) == ([], {}, {}, {}, [], {}, None)
        assert not stranger.delete("a")
        assert stranger.namespace("pins").delete(["a"]) == 0
        stranger.save(tool("a", "theirs"), expected=None)
        stranger.namespace("pins").put("a", "theirs", expected=None)
        stranger.delete("a")
        stranger.namespace("pins").delete(["a"])
        mine = _everything(store)
        assert [it.tool.description for it in mine[0]] == ["mine"]
        _fill(stranger, "theirs")
        stranger.set_usage({"a": Usage(use_frequency=70)})
        assert _everything(store) == mine
        assert [it.tool.description for it in stranger.load_all()] == ["theirs"]

    def test_a_bucket_that_was_never_filled_is_empty_and_drains_by_itself(
        self, store: Store, twin: Store
    ) -> None:
        assert store.fill_buckets({}, most=60.0) == {}
        assert store.fill_buckets({"a": 0.0}, most=60.0) == {"a": pytest.approx(0.0, abs=0.001)}
        assert 0.0 <= store.fill_buckets({"a": 1e-4}, most=60.0)["a"] <= 0.001
        levels = [twin.fill_buckets({"a": 0.0}, most=60.0)["a"] for _ in range(100)]
        assert max(levels) <= 0.001

    def test_a_bucket_holds_what_all_have_filled_in_and_no_more_than_most(
        self, store: Store, twin: Store, stranger: Store
    ) -> None:
        store.fill_buckets({"a": 1_000.0, "é b": 500.0}, most=50_000.0)
        levels = twin.fill_buckets({"é b": 500.0, "a": 1_000.0}, most=50_000.0)
        # The minutes that a slow machine may take.
        assert 1_500.0 <= levels["a"] <= 2_000.0
        assert 500.0 <= levels["é b"] <= 1_000.0
        assert 900.0 <= twin.fill_buckets({"a": 90_000.0}, most=1_000.0)["a"] <= 1_000.0
        assert 400.0 <= stranger.fill_buckets({"a": 500.0}, most=50_000.0)["a"] <= 500.0

    def test_of_many_who_fill_a_bucket_none_is_forgotten(self, store: Store, twin: Store) -> None:
        def add(number: int) -> None:
            mine = (store, twin)[number % 2]
            for _ in range(STEPS):
                mine.fill_buckets({"a": 1_000.0, f"{number}": 1.0}, most=1e6)

        at_once(add)
        level = store.fill_buckets({"a": 0.0}, most=1e6)["a"]
        assert 1_000.0 * (THREADS * STEPS - 1) < level <= 1_000.0 * THREADS * STEPS

    def test_one_at_a_time_is_elected_for_a_job(self, store: Store, twin: Store) -> None:
        with store.elected("clean-up") as first:
            assert first is True
            with twin.elected("clean-up") as second:
                assert second is False
            with twin.elected("clean-up") as third:
                assert third is False
            with twin.elected("something else") as other:
                assert other is True
        with twin.elected("clean-up") as next_one:
            assert next_one is True

    def test_who_fails_at_a_job_gives_it_back(self, store: Store, twin: Store) -> None:
        def fail() -> None:
            with store.elected("clean-up") as first:
                assert first
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        with twin.elected("clean-up") as second:
            assert second

    def test_every_tenant_elects_its_own(self, store: Store, stranger: Store) -> None:
        with store.elected("clean-up") as mine, stranger.elected("clean-up") as theirs:
            assert mine
            assert theirs

    def test_of_many_candidates_one_is_elected(self, store: Store, twin: Store) -> None:
        elected: list[int] = []
        asked = threading.Barrier(THREADS)

        def stand(number: int) -> None:
            with (store, twin)[number % 2].elected("clean-up") as mine:
                if mine:
                    elected.append(number)
                asked.wait(timeout=15)

        at_once(stand)
        assert len(elected) == 1


def at_once(work: Callable[[int], object]) -> None:
    """Run something in many threads that start together."""
    start = threading.Barrier(THREADS)

    def run(number: int) -> None:
        start.wait(timeout=15)
        work(number)

    usual = sys.getswitchinterval()
    # Threads take turns in the middle of everything, as they would on a bad day.
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            for _ in pool.map(run, range(THREADS)):
                pass
    finally:
        sys.setswitchinterval(usual)


def until_it_is_done(attempt: Callable[[], object]) -> None:
    """Retry until no other thread wrote first."""
    while True:
        try:
            attempt()
        except RevisionConflictError:
            continue
        return


def _count_value(store: Store) -> None:
    found = store.namespace("pins").get("count")
    assert found is not None
    store.namespace("pins").put("count", found.value + 1, expected=found.revision)


def _count_tool(store: Store) -> None:
    found = store.load(["count"])["count"]
    store.save(tool("count", str(int(found.tool.description) + 1)), expected=found.revision)


def _fill(store: Store, word: str) -> None:
    store.save(StoredTool(tool=tool("a", word), extras={"owner": word}))
    store.add_usage({"a": Use(1, NOON), "elsewhere": Use(1, NOON)})
    store.namespace("pins").put("a", word)


def _everything(
    store: Store,
) -> tuple[
    list[StoredTool],
    dict[str, StoredTool],
    dict[str, Usage],
    dict[str, Usage],
    list[str],
    dict[str, StoredValue],
    StoredValue | None,
]:
    values = store.namespace("pins")
    return (
        store.load_all(),
        store.load(["a", "elsewhere"]),
        store.usage(),
        store.usage(["a", "elsewhere"]),
        store.namespaces(),
        dict(values.items()),
        values.get("a"),
    )
