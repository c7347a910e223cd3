"""Deadline: a timeout for each call, all retries included."""

import math
from typing import ClassVar

import anyio

from pegboard.errors import ToolTimeoutError
from pegboard.model import Step, ToolCall
from pegboard.policies.policy import Target

__all__ = ["Deadline"]


class Deadline:
    """Ends a call after so many seconds with `ToolTimeoutError`.

    An asynchronous tool is cancelled. A synchronous tool cannot be stopped: its thread is
    abandoned, its result is dropped, and it does not keep the process from ending. Nothing stops an
    asynchronous tool that blocks its event loop, or that ignores its cancellation for ever.
    """

    needs_loop: ClassVar[bool] = True

    def __init__(self, seconds: float) -> None:
        if not isinstance(seconds, int | float) or not (seconds > 0 and math.isfinite(seconds)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"A deadline is a positive number of seconds, not {seconds!r}.")
        self.seconds = seconds

    def __repr__(self) -> str:
        return f"Deadline({self.seconds!r})"

    def wrap(self, step: Step, target: Target) -> Step:
        """Limit the time of the step."""
        seconds = self.seconds
        name = target.tool.name

        async def limited(call: ToolCall) -> object:
            # Not fail_after: a TimeoutError of the tool's own must reach the caller unchanged.
            with anyio.move_on_after(seconds) as limit:
                value = await step(call)
                # A tool that ignored its cancellation is late all the same.
                if not limit.cancel_called:
                    return value
            started = call.tally is None or call.tally.attempts > 0
            raise ToolTimeoutError(name, seconds=seconds, sent=started)

        return limited
