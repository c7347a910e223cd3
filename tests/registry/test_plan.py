from typing import Any

import pytest

from pegboard import InvalidPlanError, Registry, StepResult, arun_plan, run_plan


def board(seen: list[object]) -> Registry:
    registry = Registry(validation=None)

    class Note:
        name = "note"

        def call(self, arguments: dict[str, Any]) -> int:
            seen.append(arguments)
            return len(seen)

    registry.register(Note())
    return registry


PLAN: list[dict[str, Any]] = [
    {"type": "tool", "name": "note", "arguments": {"a": 1}},
    {"type": "reply", "text": "hello"},
    {"type": "tool", "name": "note"},
    {"type": "tool", "name": "note", "arguments": None},
]
EXPECTED = [
    StepResult(PLAN[0], ran=True, value=1),
    StepResult(PLAN[1], ran=False),
    StepResult(PLAN[2], ran=True, value=2),
    StepResult(PLAN[3], ran=True, value=3),
]


@pytest.mark.covers("R-SAGE-27", "R-SAGE-28", "R-SAGE-29")
def test_tool_steps_run_and_replies_are_left_to_the_caller() -> None:
    seen: list[object] = []
    assert list(run_plan(board(seen), PLAN)) == EXPECTED
    assert seen == [{"a": 1}, {}, {}]


@pytest.mark.covers("R-SAGE-27", "R-SAGE-28", "R-SAGE-29")
async def test_a_plan_runs_from_asynchronous_code() -> None:
    seen: list[object] = []
    assert [result async for result in arun_plan(board(seen), PLAN)] == EXPECTED
    assert seen == [{"a": 1}, {}, {}]


def test_a_step_runs_only_when_the_caller_asks_for_it() -> None:
    seen: list[object] = []
    steps = run_plan(board(seen), PLAN)
    next(steps)
    assert len(seen) == 1


def test_what_a_tool_raises_ends_the_plan() -> None:
    registry = Registry()
    with pytest.raises(KeyError):
        list(run_plan(registry, [{"type": "tool", "name": "absent"}]))


@pytest.mark.parametrize(
    "step",
    [
        {"type": "dance"},
        {"name": "note"},
        {"type": "tool"},
        {"type": "tool", "name": ""},
        {"type": "tool", "name": 3},
        {"type": "tool", "name": "note", "arguments": [1]},
        {"type": "tool", "name": "note", "args": {"a": 1}},
        "note",
        None,
    ],
    ids=str,
)
async def test_a_malformed_plan_is_refused_before_its_first_step(step: Any) -> None:
    seen: list[object] = []
    with pytest.raises(InvalidPlanError) as refused:
        list(run_plan(board(seen), [PLAN[0], step]))
    assert refused.value.index == 1
    with pytest.raises(InvalidPlanError):
        [result async for result in arun_plan(board(seen), [PLAN[0], step])]
    assert seen == []
