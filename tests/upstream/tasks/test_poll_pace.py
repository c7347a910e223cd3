"""The pauses between polls follow the server, within bounds."""

import pytest

from pegboard.upstream.tasks.poll_pace import LEAST_PAUSE, LONGEST_PAUSE, MOST_REFUSALS, PollPace


@pytest.mark.parametrize(
    ("interval_ms", "pause"), [(2000, 2.0), (29_000, 29.0), (10**15, LONGEST_PAUSE)]
)
async def test_the_pauses_grow_to_the_interval_of_the_server_within_bounds(
    interval_ms: int, pause: float
) -> None:
    pace = PollPace(interval_ms, patience=60)
    assert [pace.next_pause() for _ in range(3)] == [0.25, 0.5, 1.0]
    assert [pace.next_pause() for _ in range(50)][-40:] == [pause] * 40


async def test_a_server_that_refuses_gets_its_whole_interval_at_once() -> None:
    pace = PollPace(20_000, patience=60)
    assert pace.refused()
    assert pace.next_pause() == 20.0


@pytest.mark.parametrize("interval_ms", [0, 1, None])
async def test_a_short_interval_grows_while_the_task_goes_on(interval_ms: int | None) -> None:
    pace = PollPace(interval_ms, patience=60)
    pauses = [pace.next_pause() for _ in range(50)]
    assert pauses == sorted(pauses)
    assert pauses[0] >= LEAST_PAUSE
    assert pauses[-1] == (5.0 if interval_ms is None else 1.0)


async def test_the_newest_interval_counts() -> None:
    pace = PollPace(20_000, patience=60)
    assert [pace.next_pause() for _ in range(20)][-1] == 20.0
    pace.answered(3000)
    assert pace.next_pause() == 3.0
    pace.answered(None)
    assert pace.next_pause() <= 1


async def test_a_server_may_refuse_a_few_times_in_a_row() -> None:
    pace = PollPace(1, patience=60)
    assert [pace.refused() for _ in range(MOST_REFUSALS)] == [True] * (MOST_REFUSALS - 1) + [False]
    pace.answered(1)
    assert pace.refused()


async def test_a_silent_server_is_asked_until_the_patience_ends() -> None:
    assert not PollPace(10_000, patience=0).unreached()
    pace = PollPace(10_000, patience=2)
    assert [pace.next_pause() for _ in range(20)][-1] == 10.0
    assert pace.unreached()
    # Not after ten seconds: that would be too late.
    assert pace.next_pause() <= 2
    pace.answered(10_000)
    assert pace.next_pause() == 10.0


async def test_an_open_circuit_is_waited_for() -> None:
    pace = PollPace(100, patience=60)
    assert pace.unreached(retry_in=8)
    assert 7 < pace.next_pause() <= 8
