"""Plans: run the tool steps of a planner in order, and leave its replies to the caller."""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import Any, Protocol, cast

import msgspec

from pegboard.errors import InvalidPlanError

__all__ = ["StepResult", "arun_plan", "run_plan"]


_MISNAMED = ("args", "argument", "kwargs", "params", "parameters", "input", "inputs")


class StepResult(msgspec.Struct, frozen=True):
    """One step of a plan, and its result."""

    step: Mapping[str, Any]
    ran: bool
    """True for a tool step; False for a reply, which the caller delivers."""
    value: Any = None
    """What the tool returned."""


class _Callable(Protocol):
    def call(self, name: str, arguments: dict[str, Any], /) -> Any: ...


class _AsyncCallable(Protocol):
    async def acall(self, name: str, arguments: dict[str, Any], /) -> Any: ...


def run_plan(registry: _Callable, steps: Iterable[Mapping[str, Any]]) -> Iterator[StepResult]:
    """Yield each step with its result; a step runs only when the caller asks for its result.

    A step is ``{"type": "tool", "name": ..., "arguments": {...}}``, where the arguments may be left
    out, or ``{"type": "reply", ...}``. The whole plan is checked before its first step runs. What a
    tool raises ends the plan and reaches the caller.

    Raises:
        InvalidPlanError: when a step is malformed.
    """
    plan = _checked(steps)
    return (
        StepResult(step, ran=True, value=registry.call(name, arguments))
        if name is not None
        else StepResult(step, ran=False)
        for step, name, arguments in plan
    )


async def arun_plan(
    registry: _AsyncCallable, steps: Iterable[Mapping[str, Any]]
) -> AsyncIterator[StepResult]:
    """Run steps as `run_plan` does, from asynchronous code.

    Raises:
        InvalidPlanError: when a step is malformed.
    """
    for step, name, arguments in _checked(steps):
        if name is None:
            yield StepResult(step, ran=False)
        else:
            yield StepResult(step, ran=True, value=await registry.acall(name, arguments))


def _checked(
    steps: Iterable[Mapping[str, Any]],
) -> list[tuple[Mapping[str, Any], str | None, dict[str, Any]]]:
    return [_parse(index, step) for index, step in enumerate(steps)]


def _parse(index: int, step: object) -> tuple[Mapping[str, Any], str | None, dict[str, Any]]:
    if not isinstance(step, Mapping):
        raise InvalidPlanError(index, f"is not an object but {type(step).__name__!r}.")
    step = cast("Mapping[str, Any]", step)
    kind = step.get("type")
    if kind == "reply":
        return step, None, {}
    if kind != "tool":
        raise InvalidPlanError(index, f"has the type {kind!r}; known are 'tool' and 'reply'.")
    name = step.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidPlanError(index, "names no tool: `name` must be a non-empty string.")
    arguments = step.get("arguments")
    if arguments is None:
        for misnamed in _MISNAMED:
            if misnamed in step:
                raise InvalidPlanError(index, f"has `{misnamed}`; the key is `arguments`.")
        return step, name, {}
    if not isinstance(arguments, dict):
        kind = type(arguments).__name__
        raise InvalidPlanError(index, f"has arguments that are not an object but {kind!r}.")
    return step, name, cast("dict[str, Any]", arguments)
