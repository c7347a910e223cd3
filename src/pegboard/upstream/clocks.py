"""The clock of a call, which stands still while a person is asked."""

import math

import anyio

__all__ = ["Clock"]


class Clock:
    """Takes the deadline away from a scope, and gives back what was left of the time."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope = scope
        self._stops = 0
        self._left = math.inf

    def stop(self) -> None:
        """Let no time pass until `go_on` was called as often."""
        if not self._stops:
            self._left = self._scope.deadline - anyio.current_time()
            self._scope.deadline = math.inf
        self._stops += 1

    def go_on(self) -> None:
        """Take back one `stop`."""
        self._stops -= 1
        if not self._stops:
            self._scope.deadline = anyio.current_time() + self._left
