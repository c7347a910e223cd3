"""How often, and how much at once, a caller may call."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.auth import CallLimits, limits
from pegboard.errors import RateLimitedError
from pegboard.model import Principal


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def caller(subject: str = "a", tenant: str = "t", **limits: int) -> Principal:
    return Principal(subject=subject, tenant=tenant, **limits)  # pyright: ignore[reportArgumentType]


def made(counting: CallLimits, principal: Principal, wanted: int) -> int:
    """Try so many calls at once, and return how many were let through."""
    for number in range(wanted):
        try:
            with counting.admit(principal):
                pass
        except RateLimitedError:
            return number
    return wanted


def test_without_limits_nothing_is_counted(clock: Clock) -> None:
    assert made(CallLimits(clock=clock), caller(), 10_000) == 10_000


def test_a_minutes_worth_at_once_and_then_evenly(clock: Clock) -> None:
    counting, somebody = CallLimits(clock=clock), caller(calls_per_minute=60)
    assert made(counting, somebody, 100) == 60
    with pytest.raises(RateLimitedError) as refused:
        counting.admit(somebody, tool="echo")
    assert refused.value.tool == "echo"
    assert refused.value.retry_after == pytest.approx(1.0)
    clock.now += refused.value.retry_after
    assert made(counting, somebody, 100) == 1
    clock.now += 10
    assert made(counting, somebody, 100) == 10
    clock.now += 3_600
    assert made(counting, somebody, 100) == 60


def test_what_counts_as_several_calls_is_admitted_as_a_whole_or_not_at_all(clock: Clock) -> None:
    counting, somebody = CallLimits(clock=clock), caller(calls_per_minute=60)
    counting.admit(somebody, uses=50)
    with pytest.raises(RateLimitedError) as refused:
        counting.admit(somebody, uses=20)
    assert refused.value.retry_after == pytest.approx(10.0)
    assert made(counting, somebody, 100) == 10
    clock.now += 3_600
    with pytest.raises(
        RateLimitedError, match="60 calls a minute, and this request counts as 61"
    ) as never:
        counting.admit(somebody, uses=61)
    assert never.value.retry_after == math.inf
    assert made(counting, somebody, 100) == 60


def test_so_many_calls_may_be_under_way(clock: Clock) -> None:
    counting, somebody = CallLimits(clock=clock), caller(concurrent_calls=2)
    with counting.admit(somebody), pytest.raises(ZeroDivisionError), counting.admit(somebody):
        with pytest.raises(RateLimitedError) as refused:
            counting.admit(somebody)
        assert refused.value.retry_after > 0
        raise ZeroDivisionError
    assert made(counting, somebody, 100) == 100


def test_a_call_that_has_no_place_costs_nothing_of_the_minute(clock: Clock) -> None:
    counting = CallLimits(clock=clock)
    somebody = caller(concurrent_calls=1, calls_per_minute=2)
    with counting.admit(somebody):
        assert made(counting, somebody, 100) == 0
    assert made(counting, somebody, 100) == 1


def test_everybody_has_a_minute_of_their_own(clock: Clock) -> None:
    counting = CallLimits(calls_per_minute=3, clock=clock)
    assert made(counting, caller(), 9) == 3
    assert made(counting, caller("b"), 9) == 3
    assert made(counting, caller(tenant="u"), 9) == 3
    assert made(counting, caller("c", calls_per_minute=5), 9) == 5


def test_memory_stays_bounded_however_many_callers_come(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_CALLERS", 10)
    counting = CallLimits(calls_per_minute=1, concurrent_calls=1, clock=clock)
    with counting.admit(caller("busy")):
        for number in range(100):
            assert made(counting, caller(str(number)), 1) == 1
        assert len(counting._callers) == 10  # pyright: ignore[reportPrivateUsage]
        assert made(counting, caller("busy"), 1) == 0
        assert made(counting, caller("99"), 1) == 0
        assert made(counting, caller("0"), 1) == 1


@given(
    per_minute=st.integers(1, 40),
    pauses=st.lists(st.floats(0, 90), min_size=1, max_size=8),
)
def test_in_no_stretch_of_time_more_is_let_through_than_it_brings(
    per_minute: int, pauses: list[float]
) -> None:
    clock = Clock()
    counting, somebody = CallLimits(clock=clock), caller(calls_per_minute=per_minute)
    began, total = clock.now, 0
    for pause in pauses:
        clock.now += pause
        total += made(counting, somebody, per_minute + 1)
        assert total <= per_minute * (1 + (clock.now - began) / 60) + 1e-3
    clock.now += 60
    assert made(counting, somebody, per_minute + 1) == per_minute


def test_parked_calls_are_under_way() -> None:
    counting = CallLimits()
    somebody = caller("s", concurrent_calls=2)
    with counting.admit(somebody, suspended=1), pytest.raises(RateLimitedError):
        counting.admit(somebody, suspended=1)
    with pytest.raises(RateLimitedError):
        counting.admit(somebody, suspended=2)
