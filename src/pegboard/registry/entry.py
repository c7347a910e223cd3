"""Entry: one tool on the board; what it takes to call it is put together on its first call."""

from collections.abc import Collection
from typing import Never, cast

from pegboard.errors import (
    InvalidArgumentsError,
    InvalidToolError,
    PegboardError,
    ToolDisabledError,
    Violation,
)
from pegboard.model import ArgumentSchema, Step, Tool, ToolCall
from pegboard.policies import PolicyOptions, Target, Telemetry, needs_loop, wrap_step
from pegboard.registry.candidate import Candidate, stored_candidate

__all__ = ["Entry", "printable_name", "refusal"]

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


class Entry:
    """A tool with its policies and groups. Most tools are never called, so this stays small."""

    __slots__ = (
        "_candidate",
        "_policies",
        "_step",
        "groups",
        "inline",
        "may_wait",
        "permitted",
        "tool",
    )

    def __init__(
        self, tool: Tool, candidate: Candidate, policies: PolicyOptions, groups: tuple[str, ...]
    ) -> None:
        self.tool: Tool = tool
        self.groups: tuple[str, ...] = groups
        self.may_wait: bool = needs_loop(policies)
        """True when a policy can make a call wait, or start the tool more or less than once."""
        self.inline: bool = not candidate.implementation.asynchronous and not self.may_wait
        """True when a blocking caller can run it in its own thread, without an event loop."""
        access = policies.get("access")
        self.permitted: bool = access is None or access.permits(tool)
        """False when an access list hides it."""
        self._candidate = candidate
        self._policies = policies
        self._step: Step | None = None

    @property
    def is_definition(self) -> bool:
        """True when there is nothing that could run it."""
        return self._candidate.is_definition

    def problem(self, arguments: object, *, off: Collection[str]) -> PegboardError | None:
        """Return what keeps a call from even being tried; ``off`` are the groups switched off."""
        if not self.permitted:
            # Its steps say so, before anything else could be learned of it.
            return None
        name = self.tool.name
        if off:
            groups = [it for it in self.groups if it in off]
            if groups:
                return ToolDisabledError(name, groups=groups)
        if not isinstance(arguments, dict):
            kind = type(arguments).__name__
            words = f"the arguments must be an object (a dict), not {kind!r}"
            return InvalidArgumentsError(name, [Violation("", words)])
        return None

    def step(self) -> Step:
        """Return the tool with its policies around it."""
        if self._step is None:
            candidate = self._candidate
            target = Target(self.tool, candidate.arguments())
            self._step = wrap_step(candidate.implementation.step, target, self._policies)
        return self._step

    def of(self, tool: Tool) -> "Entry":
        """Return an entry of another definition, with the policies and groups of this one."""
        return Entry(tool, stored_candidate(tool), self._policies, self.groups)

    @property
    def telemetry(self) -> Telemetry | None:
        """Who is told about its calls."""
        return self._policies.get("telemetry")
