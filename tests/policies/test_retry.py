from pathlib import Path
from typing import Any

import pytest

from pegboard import (
    Annotations,
    CallRecord,
    Concurrency,
    InvalidArgumentsError,
    QueueFullError,
    Registry,
    Retry,
    Tool,
    ToolCall,
    ToolNotFoundError,
    tool,
)
from pegboard.errors import PegboardError
from pegboard.model import ArgumentSchema, Tally
from pegboard.policies import Target
from pegboard.policies.retry import RULES, Outcome, may_repeat


class FlakyError(Exception):
    pass


class NotSentError(PegboardError):
    transient = True


class Flaky:
    """Fails a number of times, then works."""

    def __init__(self, failures: int, error: type[Exception] = FlakyError) -> None:
        self.runs = 0
        self._failures = failures
        self._error = error

    def __call__(self, items: list[int] | None = None) -> int:
        self.runs += 1
        if items is not None:
            items.append(1)
        if self.runs <= self._failures:
            raise self._error
        return len(items or [])


def flaky_tool(flaky: Flaky, *, idempotent: bool = False, read_only: bool = False) -> object:
    hints = Annotations(idempotent=idempotent, read_only=read_only)
    return tool(name="flaky", annotations=hints)(flaky)


@pytest.mark.covers("R-SAGE-37")
@pytest.mark.parametrize("hint", ["idempotent", "read_only"])
async def test_a_tool_declared_safe_is_repeated(hint: str, records: list[CallRecord]) -> None:
    flaky = Flaky(failures=2)
    registry = Registry(retry=Retry(3, initial=0), observers=[records.append])
    registry.register(flaky_tool(flaky, **{hint: True}))
    assert await registry.acall("flaky", {}) == 0
    assert flaky.runs == 3
    assert [(it.outcome, it.attempts) for it in records] == [("ok", 3)]


@pytest.mark.covers("R-SAGE-37")
async def test_the_last_error_reaches_the_caller_unchanged(records: list[CallRecord]) -> None:
    flaky = Flaky(failures=9)
    registry = Registry(retry=Retry(3, initial=0), observers=[records.append])
    registry.register(flaky_tool(flaky, idempotent=True))
    with pytest.raises(FlakyError):
        await registry.acall("flaky")
    assert flaky.runs == 3
    assert [(it.outcome, it.error_code, it.attempts) for it in records] == [
        ("raised", "FlakyError", 3)
    ]


async def test_an_undeclared_tool_is_started_only_once() -> None:
    flaky = Flaky(failures=1)
    registry = Registry(retry=Retry(3, initial=0))
    registry.register(flaky_tool(flaky))
    with pytest.raises(FlakyError):
        await registry.acall("flaky")
    assert flaky.runs == 1


async def test_what_was_certainly_not_started_is_repeated_for_any_tool() -> None:
    tried: list[ToolCall] = []

    async def unreachable_at_first(call: ToolCall) -> str:
        tried.append(call)
        if len(tried) == 1:
            raise NotSentError
        call.started()
        return "reached"

    tool = Tool(name="remote", server="s")
    target = Target(tool, ArgumentSchema({}, tool="remote"))
    step = Retry(2, initial=0).wrap(unreachable_at_first, target)
    call = ToolCall(tool, {}, tally=Tally())
    assert await step(call) == "reached"
    assert (len(tried), call.tally) == (2, Tally(attempts=1))


async def test_a_proxy_of_the_same_name_is_not_run_again_for_what_it_passes_on() -> None:
    outer = Registry(retry=Retry(3, initial=0))
    ran: list[int] = []

    async def search() -> object:
        ran.append(1)
        raise QueueFullError("search", limit=1, queue=0)

    outer.register(search)
    with pytest.raises(QueueFullError):
        await outer.acall("search")
    assert ran == [1]


def test_the_operator_can_declare_tools_by_pattern_and_a_servers_hint_is_not_enough() -> None:
    local = Tool(name="search", annotations=Annotations(read_only=True))
    remote = Tool(name="search", annotations=Annotations(read_only=True), server="s")
    assert Retry().may_repeat(local)
    assert not Retry().may_repeat(remote)
    assert Retry(idempotent=["sea*"]).may_repeat(remote)
    assert not Retry(idempotent=["other"]).may_repeat(remote)


async def test_each_attempt_gets_the_arguments_as_the_caller_gave_them() -> None:
    flaky = Flaky(failures=2)
    registry = Registry(retry=Retry(3, initial=0))
    registry.register(flaky_tool(flaky, idempotent=True))
    arguments = {"items": [7]}
    assert await registry.acall("flaky", arguments) == 2
    assert arguments == {"items": [7]}


async def test_wrong_arguments_are_not_tried_again() -> None:
    runs: list[int] = []

    @tool(annotations=Annotations(idempotent=True))
    def picky(n: int) -> None:
        runs.append(n)

    registry = Registry(retry=Retry(3, initial=0))
    registry.register(picky)
    with pytest.raises(InvalidArgumentsError):
        await registry.acall("picky", {"n": "x"})
    assert runs == []


async def test_a_full_queue_is_tried_again_and_counts_no_attempt(records: list[CallRecord]) -> None:
    async def never() -> None:
        pass

    places = Concurrency(1, queue=0)
    registry = Registry(concurrency=places, retry=Retry(3, initial=0), observers=[records.append])
    registry.register(never)
    await places._acquire("other")  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(QueueFullError):
        await registry.acall("never")
    assert records[0].attempts == 0


async def test_an_error_about_another_tool_does_not_make_this_one_run_again(
    records: list[CallRecord],
) -> None:
    paid: list[int] = []
    registry = Registry(retry=Retry(3, initial=0), observers=[records.append])

    async def pay() -> None:
        paid.append(1)
        await registry.acall("absent")

    registry.register(pay)
    with pytest.raises(ToolNotFoundError):
        await registry.acall("pay")
    assert paid == [1]
    assert [(it.tool, it.outcome, it.attempts) for it in records] == [
        ("absent", "refused", 0),
        ("pay", "raised", 1),
    ]


def test_pauses_grow_stay_below_their_ceiling_and_are_random() -> None:
    retry = Retry(6, initial=1, maximum=4)
    pauses: list[list[float]] = [
        list(retry._pauses())  # pyright: ignore[reportPrivateUsage]
        for _ in range(50)
    ]
    for tries in pauses:
        assert all(0 <= pause <= top for pause, top in zip(tries, [1, 2, 4, 4, 4], strict=True))
    assert len({tries[0] for tries in pauses}) > 40


@pytest.mark.parametrize(
    "options", [{"attempts": 0}, {"initial": -1}, {"initial": 2, "maximum": 1}]
)
def test_settings_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"attempts|initial"):
        Retry(**options)


GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "when-a-server-dies.md"
TIMES = {"never": 0, "once": 1, "three times": 3}


@pytest.mark.parametrize(
    ("outcome", "times", "times_if_idempotent"),
    [
        (Outcome.NOT_SENT, 1, 1),
        (Outcome.REFUSED, 1, 1),
        (Outcome.RESUMABLE, 3, 3),
        (Outcome.LOST, 0, 1),
        (Outcome.REPLACED, 1, 1),
        (Outcome.SETTLED, 0, 0),
    ],
)
def test_each_outcome_is_repeated_as_often_as_the_table_says(
    outcome: Outcome, times: int, times_if_idempotent: int
) -> None:
    def repetitions(*, idempotent: bool) -> int:
        return sum(may_repeat(outcome, idempotent=idempotent, before=it) for it in range(10))

    assert repetitions(idempotent=False) == times
    assert repetitions(idempotent=True) == times_if_idempotent


@pytest.mark.parametrize("outcome", Outcome)
def test_a_policy_has_its_own_number_but_repeats_nothing_more_than_the_table(
    outcome: Outcome,
) -> None:
    for idempotent in (False, True):
        allowed = may_repeat(outcome, idempotent=idempotent)
        assert may_repeat(outcome, idempotent=idempotent, before=4, times=5) is allowed
        assert not may_repeat(outcome, idempotent=idempotent, before=5, times=5)
        assert not may_repeat(outcome, idempotent=idempotent, times=0)


def test_the_guide_says_the_same_of_each_outcome_as_the_table() -> None:
    lines = GUIDE.read_text("utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| Outcome |"))
    rows: dict[str, str] = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        outcome, _, does = (cell.strip() for cell in line.strip("|").split("|"))
        rows[outcome] = does
    assert list(rows) == [it.value for it in Outcome]
    for outcome in Outcome:
        does, rule = rows[outcome.value], RULES[outcome]
        # "Never" also says what does not happen besides; the number comes first.
        numbers = [TIMES[it] for it in ("once", "three times", "never") if it in does]
        assert numbers[0] == rule.times, outcome
        assert ("only if the tool matches" in does) is rule.only_idempotent, outcome
