"""A refusal: a call that is turned down before any tool is looked at, and recorded all the same."""

from typing import Never, cast

from pegboard.errors import InvalidToolError, PegboardError
from pegboard.model import ArgumentSchema, Step, Tool, ToolCall
from pegboard.policies import Target, Telemetry

__all__ = ["printable_name", "refusal"]

_NOBODY = Target(Tool(name="nobody"), ArgumentSchema({}, tool="nobody"))


def refusal(error: PegboardError, telemetry: Telemetry | None) -> Step:
    """Return a step that raises the error, observed like every other call."""

    async def refuse(_: ToolCall) -> Never:
        raise error

    if telemetry is None:
        return refuse
    return telemetry.wrap(refuse, _NOBODY)


def printable_name(name: object) -> str:
    """Return a name that can be recorded, whatever was asked for."""
    try:
        return Tool(name=cast("str", name)).name
    except InvalidToolError:
        return "(not a valid name)"
