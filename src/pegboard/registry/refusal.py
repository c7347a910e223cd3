"""A refusal: a call that is turned down before any tool is looked at, and recorded all the same."""

from typing import Never

from pegboard.errors import PegboardError
from pegboard.model import ArgumentSchema, Step, Tool, ToolCall
from pegboard.policies import Target, Telemetry

__all__ = ["refusal"]

_NOBODY = Target(Tool(name="nobody"), ArgumentSchema({}, tool="nobody"))


def refusal(error: PegboardError, telemetry: Telemetry | None) -> Step:
    """Return a step that raises the error, observed like every other call."""

    async def refuse(_: ToolCall) -> Never:
        raise error

    if telemetry is None:
        return refuse
    return telemetry.wrap(refuse, _NOBODY)
