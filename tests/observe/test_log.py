import logging

import pytest

from pegboard import CallRecord, Registry
from pegboard.observe import CallLog


def divide(a: int, b: int) -> float:
    return a / b


def test_each_call_is_one_structured_record(caplog: pytest.LogCaptureFixture) -> None:
    registry = Registry(observers=[CallLog()])
    registry.register(divide)
    with caplog.at_level(logging.INFO, "pegboard.observe"):
        registry.call("divide", {"a": 1, "b": 2})
        with pytest.raises(ZeroDivisionError):
            registry.call("divide", {"a": 1, "b": 0})
    first, second = caplog.records
    assert (first.levelname, second.levelname) == ("INFO", "WARNING")
    assert first.getMessage().startswith("tool_call tool=divide outcome=ok ms=")
    assert "error=ZeroDivisionError" in second.getMessage()
    fields = second.__dict__["call"]
    assert fields["outcome"] == "raised"
    assert "arguments" not in fields


def test_a_level_that_is_off_costs_and_writes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    quiet = logging.getLogger("tests.quiet")
    quiet.setLevel(logging.ERROR)
    CallLog(quiet)(CallRecord("t", 0.0, 0.0, "ok"))
    assert caplog.records == []
