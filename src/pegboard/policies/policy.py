"""Policy: the shape of everything that wraps a call."""

from typing import Protocol

import msgspec

from pegboard.model import ArgumentSchema, Step, Tool

__all__ = ["Policy", "Target"]


class Target(msgspec.Struct, frozen=True):
    """What a policy may know when it is wrapped around a tool."""

    tool: Tool
    schema: ArgumentSchema


class Policy(Protocol):
    """Wraps a Step into another Step."""

    needs_loop: bool
    """True if its steps can wait, so that a blocking call has to go through an event loop."""

    def wrap(self, step: Step, target: Target) -> Step:
        """Return the step to run instead; the same one where the policy has nothing to do."""
        ...
