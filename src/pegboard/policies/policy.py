"""Policy: the protocol of everything that wraps a call, as middleware does."""

from typing import Protocol

import msgspec

from pegboard.model import ArgumentSchema, Step, Tool

__all__ = ["Policy", "Target"]


class Target(msgspec.Struct, frozen=True):
    """The tool that a policy is wrapped around, and the schema of its arguments."""

    tool: Tool
    schema: ArgumentSchema


class Policy(Protocol):
    """Wraps a Step into another Step."""

    needs_loop: bool
    """True if its steps can wait; then a blocking call has to go through an event loop."""

    def wrap(self, step: Step, target: Target) -> Step:
        """Return the step to run instead, or the same step if the policy has nothing to do."""
        ...
