"""Validation: check the arguments of a call against the input schema before the tool runs."""

from collections.abc import Awaitable
from typing import ClassVar

from pegboard.model import Step, ToolCall
from pegboard.policies.policy import Target

__all__ = ["Validation"]


class Validation:
    """Refuses arguments that break the schema, and fills in the defaults of the schema.

    The error lists every violation at once.
    """

    needs_loop: ClassVar[bool] = False

    def __repr__(self) -> str:
        return "Validation()"

    def wrap(self, step: Step, target: Target) -> Step:
        """Run the step only with valid arguments."""
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
