from pathlib import Path

import pytest

from pegboard import Registry, StorageError, Telemetry
from pegboard.observe import History
from pegboard.storage import open_store
from pegboard.testing import Memory


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.parametrize("name", ["calls.json", "calls.db"])
def test_calls_are_there_in_the_next_run_the_newest_first(tmp_path: Path, name: str) -> None:
    with open_store(tmp_path / name) as store:
        history = History(store)
        registry = Registry(observers=[history])
        registry.register(add)
        registry.call("add", {"a": 1}, meta={"user": "me"})
        with pytest.raises(ValueError, match="required"):
            registry.call("add", {})
        history.close()
    with open_store(tmp_path / name) as store:
        calls = History(store).calls()
    assert [(it.tool, it.outcome, it.meta) for it in calls] == [
        ("add", "refused", {}),
        ("add", "ok", {"user": "me"}),
    ]


def test_only_the_last_calls_are_kept_and_those_of_a_tool_can_be_asked_for() -> None:
    with Memory().open() as store:
        history = History(store, keep=10)
        registry = Registry(telemetry=Telemetry([history], arguments=True))
        registry.register(add)
        for number in range(25):
            registry.call("add", {"a": number})
            history.flush()
        assert [it.arguments for it in history.calls(3)] == [{"a": 24}, {"a": 23}, {"a": 22}]
        assert history.calls(tool="other") == []
        assert 10 <= len(store.namespace("calls").items()) <= 12
        history.close()


def test_records_of_several_processes_come_together() -> None:
    memory = Memory()
    with memory.open() as one, memory.open() as two:
        for store in (one, two):
            history = History(store)
            registry = Registry(observers=[history])
            registry.register(add)
            registry.call("add", {"a": 1})
            history.close()
        assert len(History(one).calls()) == 2


def test_values_that_json_does_not_have_are_left_out_and_the_call_is_kept() -> None:
    with Memory().open() as store:
        history = History(store)
        registry = Registry(telemetry=Telemetry([history], arguments=True, results=True))

        @registry.register
        def odd() -> str:
            return "half a letter: \ud800"

        @registry.register
        def thing() -> object:
            return object

        registry.call("odd", {})
        registry.call("thing", {})
        found = {it.tool: it for it in history.calls()}
        assert found["odd"].result is None
        assert "object" in found["thing"].result
        history.close()


def test_keeping_less_than_one_call_makes_no_sense() -> None:
    with Memory().open() as store, pytest.raises(ValueError, match="keep"):
        History(store, keep=0)


def test_one_record_that_a_store_cannot_hold_costs_no_other(tmp_path: Path) -> None:
    with open_store(tmp_path / "calls.json") as store:
        history = History(store)
        registry = Registry(telemetry=Telemetry([history], results=True))

        @registry.register
        def deep() -> object:
            value: list[object] = []
            for _ in range(900):
                value = [value]
            return value

        registry.register(add)
        registry.call("add", {"a": 1})
        registry.call("deep", {})
        assert {it.tool: it.result for it in history.calls()} == {"add": 2, "deep": None}
        history.close()


def test_when_the_store_is_away_the_newest_calls_are_kept() -> None:
    memory = Memory()
    store = memory.open()
    history = History(store, keep=10)
    registry = Registry(telemetry=Telemetry([history], arguments=True))
    registry.register(add)
    for number in range(10):
        registry.call("add", {"a": number})
    put_many = history._calls.put_many  # pyright: ignore[reportPrivateUsage]

    def fail(values: dict[str, object]) -> None:
        for number in range(10, 15):
            registry.call("add", {"a": number})
        raise StorageError("Not now.", url="memory:")

    history._calls.put_many = fail  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    with pytest.raises(StorageError):
        history.flush()
    history._calls.put_many = put_many  # pyright: ignore[reportPrivateUsage, reportAttributeAccessIssue]
    assert [it.arguments["a"] for it in history.calls() if it.arguments] == [*range(14, 4, -1)]
    history.close()
