"""Retry: repeat a failed call with backoff, if repeating it is safe."""

import copy
import logging
import random
from collections.abc import Iterable, Iterator
from typing import ClassVar

import anyio
import msgspec

from pegboard.errors import PegboardError
from pegboard.model import Step, Tool, ToolCall
from pegboard.model.tool_names import name_matcher
from pegboard.policies.policy import Target

__all__ = ["Retry"]

logger: logging.Logger = logging.getLogger("pegboard.policies")


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
        if self._declared(tool.name):
            return True
        hints = tool.annotations
        return tool.server is None and bool(hints.read_only or hints.idempotent)

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
                    safe = repeatable if _started(call) > before else _is_transient(error)
                    if not safe:
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


def _is_transient(error: Exception) -> bool:
    return isinstance(error, PegboardError) and error.transient
