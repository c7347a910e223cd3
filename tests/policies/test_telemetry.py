import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import anyio
import msgspec
import pytest

from pegboard import (
    CallRecord,
    Registry,
    Telemetry,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    Validation,
)
from pegboard.model import Step
from pegboard.policies import Target


def good(text: str) -> str:
    return text


def bad() -> None:
    raise ZeroDivisionError


def costly() -> dict[str, Any]:
    return {"output": 1, "meta": {"cost": 0.25, "cached": True}}


def reports_failure() -> ToolResult:
    return ToolResult(content=(Text(text="no"),), is_error=True, meta={"cost": 2})


@pytest.mark.covers("R-SAGE-38")
def test_each_call_gives_one_record_with_time_outcome_sizes_and_cost(
    records: list[CallRecord],
) -> None:
    registry = Registry(observers=[records.append])
    registry.register_many([good, bad, costly, reports_failure])
    registry.call("good", {"text": "hi"}, meta={"trace": "t1"})
    registry.call("costly")
    registry.call("reports_failure")
    with pytest.raises(ZeroDivisionError):
        registry.call("bad")
    with pytest.raises(KeyError):
        registry.call("absent")
    assert [
        (it.tool, it.outcome, it.error_code, it.attempts, it.arguments_size, it.cost)
        for it in records
    ] == [
        ("good", "ok", None, 1, 13, None),
        ("costly", "ok", None, 1, 2, 0.25),
        ("reports_failure", "tool_error", "tool_error", 1, 2, 2),
        ("bad", "raised", "ZeroDivisionError", 1, 2, None),
        ("absent", "refused", "not_found", 0, 2, None),
    ]
    assert records[0].result_size == 4
    assert records[0].meta == {"trace": "t1"}
    assert all(it.started > 1.7e9 and it.duration > 0 for it in records)
    assert [it.arguments for it in records] == [None] * 5
    assert [it.result for it in records] == [None] * 5


def test_the_result_of_a_server_is_counted_once_as_received(records: list[CallRecord]) -> None:
    received = {"content": [{"type": "text", "text": "x" * 2000}], "isError": False}
    answer = ToolResult(content=(Text(text="x" * 2000),), wire=received)
    registry = Registry(observers=[records.append])
    registry.register(tool_returning(answer))
    registry.call("odd")
    assert records[0].result_size == len(msgspec.json.encode(received))


@pytest.mark.covers("R-SAGE-30")
def test_any_return_value_is_accepted_unchanged(records: list[CallRecord]) -> None:
    odd = object()
    registry = Registry(observers=[records.append])
    registry.register(tool_returning(odd))
    assert registry.call("odd") is odd
    assert records[0].result_size is None
    registry.register(
        tool_returning({"output": 1, "meta": {"cost": "high"}}), on_conflict="override"
    )
    assert registry.call("odd") == {"output": 1, "meta": {"cost": "high"}}
    assert records[1].cost is None


def tool_returning(value: object) -> object:
    class Odd:
        name = "odd"

        def call(self, arguments: dict[str, Any]) -> object:
            return value

    return Odd()


def test_arguments_and_results_are_kept_only_when_asked_for(records: list[CallRecord]) -> None:
    registry = Registry(telemetry=Telemetry([records.append], arguments=True, results=True))
    registry.register(good)
    registry.call("good", {"text": "hi"})
    with pytest.raises(ValueError, match="missing"):
        registry.call("good", {})
    assert [(it.arguments, it.result) for it in records] == [({"text": "hi"}, "hi"), ({}, None)]


def test_records_say_what_was_given_even_if_the_tool_changes_it(records: list[CallRecord]) -> None:
    def empty(items: list[int]) -> None:
        items.clear()

    registry = Registry(telemetry=Telemetry([records.append], arguments=True))
    registry.register(empty)
    registry.call("empty", {"items": [1, 2]})
    assert (records[0].arguments, records[0].arguments_size) == ({"items": [1, 2]}, 15)


@pytest.mark.parametrize("cost", [True, 10**400, float("nan"), "much", None], ids=type)
def test_a_cost_that_is_no_number_is_left_out(cost: Any, records: list[CallRecord]) -> None:
    registry = Registry(observers=[records.append])
    registry.register(tool_returning({"meta": {"cost": cost}}))
    registry.call("odd")
    assert records[0].cost is None


def test_a_record_is_frozen() -> None:
    record = CallRecord("t", 0.0, 0.0, "ok")
    with pytest.raises(AttributeError):
        record.tool = "u"  # pyright: ignore[reportAttributeAccessIssue]


async def test_a_cancelled_call_is_recorded_as_such(records: list[CallRecord]) -> None:
    started = anyio.Event()

    async def stuck() -> None:
        started.set()
        await anyio.sleep_forever()

    registry = Registry(observers=[records.append])
    registry.register(stuck)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(registry.acall, "stuck")
        await started.wait()
        tasks.cancel_scope.cancel()
    assert [(it.outcome, it.error_code, it.attempts) for it in records] == [
        ("cancelled", "cancelled", 1)
    ]


@pytest.mark.parametrize("how", ["one observer", "two observers"])
async def test_an_observer_that_fails_harms_neither_the_call_nor_other_observers(
    how: str, records: list[CallRecord], caplog: pytest.LogCaptureFixture
) -> None:
    def broken(record: CallRecord) -> None:
        raise OSError("disk full")

    async def plain(text: str) -> str:
        return text

    observers = [broken] if how == "one observer" else [broken, records.append]
    registry = Registry(observers=observers)
    registry.register_many([plain, good])
    with caplog.at_level(logging.ERROR, "pegboard.policies"):
        assert await registry.acall("plain", {"text": "a"}) == "a"
        assert await registry.acall("plain", {"text": "a"}) == "a"
        assert await registry.acall("good", {"text": "a"}) == "a"
    assert [it.getMessage() for it in caplog.records] == ["observer_failed"] * 3
    assert len(records) == (0 if how == "one observer" else 3)


def test_observers_can_come_and_go(records: list[CallRecord]) -> None:
    registry = Registry()
    registry.register(good)
    registry.call("good", {"text": "a"})
    stop = registry.observe(records.append)
    registry.call("good", {"text": "b"})
    stop()
    registry.call("good", {"text": "c"})
    assert len(records) == 1


def test_what_cannot_observe_or_subscribe_is_refused_at_once() -> None:
    registry = Registry()
    anything: Any = 3
    for attempt in (registry.observe, registry.subscribe, Telemetry):
        with pytest.raises(TypeError):
            attempt(anything)
    with pytest.raises(TypeError, match="list of callables"):
        Registry(observers=anything_callable)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="takes a CallRecord"):
        Registry(observers=[anything])


def anything_callable(record: CallRecord) -> None: ...


def test_two_registries_made_with_one_telemetry_keep_their_observers_apart(
    records: list[CallRecord],
) -> None:
    shared = Telemetry()
    first, second = Registry(telemetry=shared), Registry(telemetry=shared)
    first.observe(records.append)
    second.register(good)
    second.call("good", {"text": "a"})
    assert records == []


class Span:
    """A tracer that writes down when it was entered, told and left."""

    def __init__(self) -> None:
        self.events: list[str] = []

    @contextmanager
    def around(self, call: ToolCall, /) -> Generator[None]:
        self.events.append(f"enter {call.tool.name}")
        try:
            yield
        finally:
            self.events.append("leave")

    def __call__(self, record: CallRecord, /) -> None:
        self.events.append(record.outcome)


async def test_a_tracer_surrounds_the_call_and_is_told_inside() -> None:
    span = Span()
    registry = Registry()

    async def inner() -> None:
        span.events.append("running")

    registry.register(inner)
    stop = registry.observe(span)
    await registry.acall("inner")
    stop()
    await registry.acall("inner")
    assert span.events == ["enter inner", "running", "ok", "leave", "running"]


async def test_a_tracer_can_neither_swallow_nor_replace_what_a_tool_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Greedy:
        def __init__(self, *, fails: bool) -> None:
            self.fails = fails

        def around(self, call: ToolCall, /) -> Any:
            return self

        def __enter__(self) -> None: ...

        def __exit__(self, *_: object) -> bool:
            if self.fails:
                raise OSError
            return True

        def __call__(self, record: CallRecord, /) -> None: ...

    registry = Registry(observers=[Greedy(fails=True), Greedy(fails=False)])
    registry.register_many([good, bad])
    assert await registry.acall("good", {"text": "a"}) == "a"
    with pytest.raises(ZeroDivisionError):
        await registry.acall("bad")
    assert "observer_failed" in caplog.text


async def test_a_tools_own_telemetry_is_told_on_every_call(records: list[CallRecord]) -> None:
    async def echo(text: str) -> str:
        return text

    mine: list[CallRecord] = []
    registry = Registry(observers=[records.append])
    registry.register(echo, telemetry=Telemetry([mine.append]))
    for _ in range(3):
        await registry.acall("echo", {"text": "a"})
    assert (len(mine), len(records)) == (3, 0)


async def test_a_validation_of_ones_own_is_used_on_every_call() -> None:
    class Counting(Validation):
        calls = 0

        def wrap(self, step: Step, target: Target) -> Step:
            inner = super().wrap(step, target)

            def counted(call: ToolCall) -> Any:
                self.calls += 1
                return inner(call)

            return counted

    async def echo(text: str) -> str:
        return text

    mine = Counting()
    registry = Registry(validation=mine)
    registry.register(echo)
    for _ in range(3):
        await registry.acall("echo", {"text": "a"})
    assert mine.calls == 3


def test_telemetry_can_be_switched_off(records: list[CallRecord]) -> None:
    registry = Registry(telemetry=None)
    registry.register(good)
    assert registry.call("good", {"text": "a"}) == "a"
    with pytest.raises(KeyError):
        registry.call("absent")
    with pytest.raises(TypeError, match="telemetry=None"):
        registry.observe(records.append)
    with pytest.raises(TypeError, match="telemetry=None"):
        Registry(telemetry=None, observers=[records.append])


def test_a_refusal_is_recorded_with_what_the_caller_gave(records: list[CallRecord]) -> None:
    registry = Registry(telemetry=Telemetry([records.append], arguments=True))
    registry.register(good, groups=["g"])
    registry.disable_group("g")
    with pytest.raises(RuntimeError):
        registry.call("good", {"text": "abc"})
    assert (records[0].arguments, records[0].arguments_size) == ({"text": "abc"}, 14)


async def test_a_call_refused_because_it_would_deadlock_is_recorded(
    records: list[CallRecord],
) -> None:
    registry = Registry(observers=[records.append])

    async def inner() -> None: ...

    async def outer() -> None:
        registry.call("inner")

    registry.register_many([inner, outer])
    with pytest.raises(RuntimeError):
        registry.call("outer")
    assert [(it.tool, it.outcome, it.error_code) for it in records] == [
        ("inner", "refused", "would_deadlock"),
        ("outer", "raised", "WouldDeadlockError"),
    ]


async def test_a_tracer_that_fails_does_not_harm_the_call(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Span):
        def around(self, call: ToolCall, /) -> Any:
            raise OSError

    registry = Registry(observers=[Broken()])
    registry.register(good)
    assert await registry.acall("good", {"text": "a"}) == "a"
    assert "observer_failed" in caplog.text


def test_a_definition_alone_refuses_calls_and_says_why(records: list[CallRecord]) -> None:
    registry = Registry(observers=[records.append])
    registry.register(Tool(name="planned", description="later"))
    assert "planned" in registry.describe()
    with pytest.raises(RuntimeError, match="definition only"):
        registry.call("planned")
    assert [(it.outcome, it.error_code, it.attempts) for it in records] == [
        ("refused", "no_implementation", 0)
    ]
