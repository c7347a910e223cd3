"""A gateway's log: a complaint that comes again and again is written a bounded number of times."""

import io
import logging
from typing import Any

from pegboard.cli.serving import LogFloods


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def log_into(stream: io.StringIO, clock: Clock) -> logging.Logger:
    logger = logging.getLogger("tests.flooded")
    handler = logging.StreamHandler(stream)
    handler.addFilter(LogFloods(most=3, seconds=60, clock=clock))
    logger.handlers, logger.propagate = [handler], False
    return logger


def test_a_flood_of_one_complaint_is_cut_and_counted() -> None:
    stream, clock = io.StringIO(), Clock()
    logger = log_into(stream, clock)
    for number in range(10):
        logger.warning("refused: %d", number)
    logger.warning("another matter")
    clock.now = 61
    logger.warning("refused: %d", 10)
    logger.warning("refused: %d", 11)
    assert stream.getvalue().splitlines() == [
        "refused: 0",
        "refused: 1",
        "refused: 2 [others like it are left out for 60 seconds]",
        "another matter",
        "refused: 10 [7 like it were left out]",
        "refused: 11",
    ]


def test_complaints_of_ever_new_words_do_not_pile_up() -> None:
    stream, clock = io.StringIO(), Clock()
    logger = log_into(stream, clock)
    for number in range(1000):
        logger.warning(f"refused: {number}")  # noqa: G004 - the point is that the words differ
    assert len(stream.getvalue().splitlines()) == 1000
    [handler] = logger.handlers
    few: Any = handler.filters[0]
    assert len(few._seen) <= 256
