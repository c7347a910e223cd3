"""Validation: check arguments against the input schema before the tool runs."""

from collections.abc import Awaitable
from typing import ClassVar

from pegboard.model import Step, ToolCall
from pegboard.policies.policy import Target

__all__ = ["Validation"]


class Validation:
    """Reports every violation at once, and merges the schema's defaults into the arguments."""

    needs_loop: ClassVar[bool] = False

    def __repr__(self) -> str:
        return "Validation()"

    def wrap(self, step: Step, target: Target) -> Step:
        """Let only valid arguments through."""
        if target.schema.trivial:
            return step
        check = target.schema.check
        name = target.tool.name

        def validated(call: ToolCall) -> Awaitable[object]:
            arguments = check(call.arguments, tool=name)
            if arguments is not call.arguments:
                call = ToolCall(call.tool, arguments, call.meta, call.inline, call.tally)
            return step(call)

        return validated
