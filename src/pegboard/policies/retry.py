"""Retry: the one table of which failed calls are repeated, and a policy that repeats them."""

import copy
import logging
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import ClassVar

import anyio
import msgspec

from pegboard.errors import PegboardError
from pegboard.model import Step, Tool, ToolCall
from pegboard.model.tool_names import name_matcher
from pegboard.policies.policy import Target

__all__ = ["RULES", "Outcome", "Retry", "Rule", "is_idempotent", "may_repeat"]

logger: logging.Logger = logging.getLogger("pegboard.policies")


class Outcome(StrEnum):
    """What is known about a call that failed."""

    NOT_SENT = "not sent"
    """It certainly did not start: nothing was sent, or the server had forgotten the session."""
    REFUSED = "refused before it ran"
    """The server wants some arguments in headers, too, and did not look at the call."""
    RESUMABLE = "resumable"
    """The stream of the response ended too soon, and the server can resume it."""
    LOST = "sent, and the response was lost"
    """It started, and may have done its work."""
    REPLACED = "server replaced"
    """Its server was replaced by a new configuration before it got the call."""
    SETTLED = "settled"
    """It was answered, refused, or took too long: repeating it does not help."""


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """How often a call with one outcome is repeated."""

    times: int
    """How often at most, without further settings; a `Retry` policy has a number of its own."""
    only_idempotent: bool = False
    """Only calls of tools that are declared idempotent."""


RULES: Mapping[Outcome, Rule] = {
    Outcome.NOT_SENT: Rule(times=1),
    Outcome.REFUSED: Rule(times=1),
    Outcome.RESUMABLE: Rule(times=3),
    Outcome.LOST: Rule(times=1, only_idempotent=True),
    Outcome.REPLACED: Rule(times=1),
    Outcome.SETTLED: Rule(times=0),
}
"""What is repeated; `guides/when-a-server-dies.md` says the same to users."""


def may_repeat(
    outcome: Outcome, *, idempotent: bool, before: int = 0, times: int | None = None
) -> bool:
    """Tell whether a call is repeated.

    Args:
        outcome: what became of it.
        idempotent: whether its tool is declared idempotent, see `is_idempotent`.
        before: how often it was repeated for this outcome already.
        times: how often it may be repeated, instead of what the table says.
    """
    rule = RULES[outcome]
    if not rule.times or before >= (rule.times if times is None else times):
        return False
    return idempotent or not rule.only_idempotent


def is_idempotent(tool: Tool, declared: Callable[[str], bool], *, name: str, trust: bool) -> bool:
    """Tell whether a tool is declared idempotent: the only place that reads the declarations.

    Args:
        tool: the tool.
        declared: the patterns of an operator, as a function that matches a name.
        name: the name to match: the tool's own, or the one that its server has for it.
        trust: whether annotations count. Those of a server are only hints, unless its entry says
            otherwise.
    """
    hints = tool.annotations
    return declared(name) or (trust and bool(hints.read_only or hints.idempotent))


class Retry:
    """Repeats calls that were certainly not started, and tools that are declared safe to repeat.

    A tool of this process declares that by its annotations (``read_only`` or ``idempotent``). The
    annotations of a server's tool are only hints: you declare such tools here, by a pattern of
    names.

    Args:
        attempts: how many attempts to make in all.
        idempotent: glob patterns of tools that may be repeated even if they were started.
        initial: the longest pause before the second attempt, in seconds. It doubles each time, up
            to ``maximum``. The pause is random, so that callers do not return at the same moment.
    """

    needs_loop: ClassVar[bool] = True

    def __init__(
        self,
        attempts: int = 3,
        *,
        idempotent: Iterable[str] = (),
        initial: float = 0.1,
        maximum: float = 10.0,
    ) -> None:
        if attempts < 1:
            raise ValueError(f"`attempts` must be at least 1, not {attempts!r}.")
        if not 0 <= initial <= maximum:
            raise ValueError("`initial` and `maximum` must satisfy 0 <= initial <= maximum.")
        self.attempts = attempts
        self.initial = initial
        self.maximum = maximum
        self._declared = name_matcher("idempotent", idempotent)
        self._shown = f"Retry({attempts!r}, idempotent={idempotent!r})"

    def __repr__(self) -> str:
        return self._shown

    def may_repeat(self, tool: Tool) -> bool:
        """Tell whether the tool is declared safe to run again."""
        trust = tool.server is None
        return is_idempotent(tool, self._declared, name=tool.name, trust=trust)

    def wrap(self, step: Step, target: Target) -> Step:
        """Repeat the step when it fails, if that is safe."""
        if self.attempts == 1:
            return step
        repeatable = self.may_repeat(target.tool)

        async def repeated(call: ToolCall) -> object:
            for pause in self._pauses():
                before = _started(call)
                try:
                    return await step(_with_own_arguments(call))
                except Exception as error:
                    outcome = _outcome_of(error, started=_started(call) > before)
                    if not may_repeat(outcome, idempotent=repeatable, times=self.attempts):
                        raise
                    logger.info(
                        "call_repeated",
                        extra={
                            "tool": call.tool.name,
                            "error": type(error).__name__,
                            "pause": pause,
                        },
                    )
                await anyio.sleep(pause)
            return await step(_with_own_arguments(call))

        return repeated

    def _pauses(self) -> Iterator[float]:
        ceiling = self.initial
        for _ in range(self.attempts - 1):
            yield random.uniform(0, ceiling)  # noqa: S311
            ceiling = min(ceiling * 2, self.maximum)


def _with_own_arguments(call: ToolCall) -> ToolCall:
    # A copy for each attempt: one that failed may have changed what it was given.
    try:
        arguments = copy.deepcopy(call.arguments)
    except Exception:  # noqa: BLE001 - not JSON, which validation would have refused
        return call
    return msgspec.structs.replace(call, arguments=arguments)


def _started(call: ToolCall) -> int:
    return 0 if call.tally is None else call.tally.attempts


def _outcome_of(error: Exception, *, started: bool) -> Outcome:
    if started:
        return Outcome.LOST
    is_transient = isinstance(error, PegboardError) and error.transient
    return Outcome.NOT_SENT if is_transient else Outcome.SETTLED
