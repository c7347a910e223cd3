from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any, cast, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard import Registry, StorageError
from pegboard.errors import Outcome
from pegboard.model import CallRecord
from pegboard.observe import DailyUsage, History
from pegboard.observe.usage_totals import DAILY_USAGE, KEPT_DAYS, DailyTotals
from pegboard.storage import Store
from pegboard.testing import Memory
from tests.observe.steps import Killed, step_by_step

FOR_EVER = 10**9
MIDNIGHT = datetime(2026, 11, 16, tzinfo=UTC).timestamp()
HOUR = 60 * 60

CALLS = st.builds(
    CallRecord,
    tool=st.sampled_from(["a", "b", "' OR '1'='1", "日本"]),
    started=st.floats(MIDNIGHT - 30 * HOUR, MIDNIGHT + 30 * HOUR),
    duration=st.floats(0, 1_000),
    outcome=st.sampled_from(get_args(Outcome)),
)
KEEPS = st.integers(1, 5)
MOMENTS = st.integers(1, 12)
STEPS = st.one_of(
    st.tuples(st.just("write"), st.lists(CALLS, min_size=1, max_size=8)),
    st.tuples(st.just("forget"), KEEPS),
    st.tuples(st.just("be killed"), KEEPS, MOMENTS),
    st.tuples(st.just("be overtaken"), KEEPS, MOMENTS, CALLS),
)


def folded(calls: Iterable[CallRecord]) -> list[DailyUsage]:
    """What the usage has to be, in the most obvious way."""
    groups = defaultdict[tuple[date, str], list[CallRecord]](list)
    for call in calls:
        groups[datetime.fromtimestamp(call.started, UTC).date(), call.tool].append(call)
    found = list[DailyUsage]()
    for (day, tool), group in groups.items():
        outcomes = [it.outcome for it in group if it.outcome != "ok"]
        took = [round(it.duration * 1_000_000) for it in group]
        found.append(
            DailyUsage(
                day=day,
                tool=tool,
                calls=len(group),
                failures={it: outcomes.count(it) for it in outcomes},
                seconds=sum(took) / 1_000_000,
                slowest=max(took) / 1_000_000,
            )
        )
    return sorted(found, key=lambda it: (-it.day.toordinal(), -it.calls, it.tool))


def write(store: Store, calls: Iterable[CallRecord]) -> None:
    history = History(store, keep=FOR_EVER)
    for call in calls:
        history(call)
    history.close()


def forget(store: Store, keep: int) -> None:
    DailyTotals(store, store.namespace("calls")).forget(keep)


def at_moment(moment: int, act: Callable[[], object]) -> Callable[[int], None]:
    def before(number: int) -> None:
        if number == moment:
            act()

    return before


def die() -> None:
    raise Killed


@given(st.lists(STEPS, max_size=12))
def test_the_usage_is_that_of_all_calls_wherever_and_however_often_they_were_folded(
    steps: list[tuple[Any, ...]],
) -> None:
    all_calls = list[CallRecord]()
    memory = Memory()
    with memory.open() as store, memory.open() as other:

        def overtake(keep: int, call: CallRecord) -> None:
            all_calls.append(call)
            write(other, [call])
            # Twice: the second time everything that told of the first is cleared away.
            forget(other, keep)
            write(other, [call])
            all_calls.append(call)
            forget(other, keep)

        for step in steps:
            match step:
                case ["write", calls]:
                    all_calls += calls
                    write(store, calls)
                case ["forget", keep]:
                    forget(store, keep)
                case ["be killed", keep, moment]:
                    with suppress(Killed):
                        forget(step_by_step(store, at_moment(moment, die)), keep)
                case [_, keep, moment, call]:
                    act = at_moment(moment, lambda keep=keep, call=call: overtake(keep, call))
                    forget(step_by_step(store, act), keep)
                case _:
                    raise AssertionError(step)
            assert History(other).usage(FOR_EVER) == folded(all_calls)
        forget(store, 1)
        assert len(store.namespace("calls").items()) == min(1, len(all_calls))
        assert History(other).usage(FOR_EVER) == folded(all_calls)


@given(st.lists(CALLS, min_size=1, max_size=10), KEEPS, st.integers(1, 3))
def test_who_reads_while_calls_are_folded_counts_none_twice_and_misses_none(
    calls: list[CallRecord], keep: int, moment: int
) -> None:
    with Memory().open() as store:
        write(store, calls)

        def fold_twice() -> None:
            forget(store, keep + 1)
            forget(store, keep)

        reader = step_by_step(store, at_moment(moment, fold_twice))
        found = DailyTotals(reader, reader.namespace("calls")).since(date.min)
        assert found == folded(calls)


def test_a_day_begins_at_midnight_in_utc() -> None:
    moments = [MIDNIGHT - 1e-6, MIDNIGHT, MIDNIGHT + 24 * HOUR - 1e-6, MIDNIGHT + 24 * HOUR]
    with Memory().open() as store:
        write(store, [CallRecord("a", moment, 0.5, "ok") for moment in moments])
        forget(store, 1)
        found = History(store).usage(FOR_EVER)
        assert [(it.day.isoformat(), it.calls, it.seconds) for it in found] == [
            ("2026-11-17", 1, 0.5),
            ("2026-11-16", 2, 1.0),
            ("2026-11-15", 1, 0.5),
        ]


def test_calls_that_are_forgotten_still_count() -> None:
    with Memory().open() as store:
        history = History(store, keep=10)
        registry = Registry(observers=[history])

        @registry.register
        def divide(number: int) -> float:
            return 1 / number

        for number in (1, 2, 0, 4, 5):
            for _ in range(10):
                with suppress(ZeroDivisionError):
                    registry.call("divide", {"number": number})
                history.flush()
        assert len(history.calls(100)) < 20
        usage = history.usage()
        history.close()
    assert {it.tool for it in usage} == {"divide"}
    assert sum(it.calls for it in usage) == 50
    assert sum(it.failures["raised"] for it in usage if it.failed) == 10
    assert sum(it.failed for it in usage) == 10


def test_only_the_days_one_asks_for_are_told() -> None:
    now = datetime.now(UTC)
    days = [now - timedelta(days=ago) for ago in (0, 1, 29, 30, 31)]
    with Memory().open() as store:
        write(store, [CallRecord("a", day.timestamp(), 1, "ok") for day in days])
        history = History(store)
        asked = {number: len(history.usage(number)) for number in (1, 3, 31, 10**12)}
        # A new day may have begun since.
        assert asked[3] == 2
        assert asked[1] <= 1
        assert asked[31] >= 3
        assert asked[10**12] == 5
        for number in (0, -1):
            with pytest.raises(ValueError, match="days"):
                history.usage(number)


def test_the_oldest_days_are_dropped() -> None:
    with Memory().open() as store:
        days = [MIDNIGHT - number * 24 * HOUR for number in range(KEPT_DAYS + 5)]
        write(store, [CallRecord("a", day, 1, "ok") for day in days])
        forget(store, 2)
        kept = sorted(store.namespace(DAILY_USAGE).items())
        # The newest two calls are still kept by themselves.
        assert len(kept) == KEPT_DAYS
        assert kept[-1] == "2026-11-14"
        assert len(History(store).usage(FOR_EVER)) == KEPT_DAYS + 2


def test_what_is_no_call_of_any_day_is_forgotten_without_counting() -> None:
    with Memory().open() as store:
        calls = store.namespace("calls")
        call = {"tool": "a", "started": MIDNIGHT, "duration": 1.0, "outcome": "unheard of"}
        odd = [None, [], {}, {**call, "started": 1e300}, {**call, "duration": None}]
        calls.put_many({f"0{number}": it for number, it in enumerate(odd)})
        calls.put_many({"1": call, "2": {**call, "duration": 1e300}, "3": {**call, "duration": -1}})
        for _ in range(2):
            [found] = History(store).usage(FOR_EVER)
            assert (found.calls, found.failures) == (3, {"unheard of": 3})
            forget(store, 1)
        assert list(calls.items()) == ["3"]


@pytest.mark.parametrize(("key", "value"), [("2026-11-16", {"tools": 1}), ("monday", {})])
def test_totals_that_cannot_be_read_are_left_alone(key: str, value: object) -> None:
    with Memory().open() as store:
        store.namespace(DAILY_USAGE).put(key, value)
        write(store, [CallRecord("a", MIDNIGHT, 1, "ok")] * 3)
        with pytest.raises(StorageError, match=key):
            History(store).usage()
        with pytest.raises(StorageError, match=key):
            forget(store, 1)
        found = store.namespace(DAILY_USAGE).get(key)
        assert found is not None
        assert found.value == value
        assert len(store.namespace("calls").items()) == 3


def test_what_may_have_been_kept_is_written_again_under_the_same_key() -> None:
    with Memory().open() as store:
        history = History(store)
        put_many = history._calls.put_many  # pyright: ignore[reportPrivateUsage]

        def keep_and_fail(values: dict[str, object]) -> None:
            put_many(values)
            raise StorageError("Whether it was kept is not known.", url="memory:")

        calls = cast("Any", history._calls)  # pyright: ignore[reportPrivateUsage]
        calls.put_many = keep_and_fail
        history(CallRecord("a", MIDNIGHT, 1, "ok"))
        with pytest.raises(StorageError):
            history.flush()
        del calls.put_many
        assert [it.calls for it in history.usage(FOR_EVER)] == [1]
        assert len(history.calls()) == 1
        history.close()
