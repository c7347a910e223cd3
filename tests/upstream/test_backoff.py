from hypothesis import given
from hypothesis import strategies as st

from pegboard.upstream.backoff import FIRST_PAUSE, LONGEST_PAUSE, STEADY, Backoff


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@given(st.integers(1, 5000))
def test_pauses_grow_but_never_beyond_the_limit(failures: int) -> None:
    backoff = Backoff(clock=Clock())
    for before in range(failures):
        backoff.failed()
        ceiling = min(FIRST_PAUSE * 2 ** min(before, 99), LONGEST_PAUSE)
        assert ceiling / 2 <= backoff.pause <= ceiling


def test_what_lasted_is_tried_again_soon_and_what_did_not_ever_more_rarely() -> None:
    clock = Clock()
    backoff = Backoff(clock=clock)
    for _ in range(10):
        backoff.ended(began=clock.now)
    assert backoff.pause >= LONGEST_PAUSE / 2
    backoff.ended(began=clock.now - STEADY)
    assert backoff.pause <= FIRST_PAUSE
