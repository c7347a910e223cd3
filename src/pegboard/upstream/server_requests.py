"""Questions that servers ask in mid-call, and who answers them."""

import inspect
import math
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Literal, TypeAlias

import anyio
import anyio.to_thread
import msgspec

from pegboard.upstream.owner_loop import OwnerLoop

__all__ = [
    "ALL_KINDS",
    "Clock",
    "Question",
    "QuestionKind",
    "QuestionRefusedError",
    "Questions",
    "RpcResponse",
    "ask",
]


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


RpcResponse: TypeAlias = Mapping[str, Any] | None
"""The result as the protocol has it; ``None`` declines."""

Question: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[RpcResponse] | RpcResponse]
"""Answers what a server asks in mid-call: its name and the parameters in, the result out, both as
the protocol has them. A plain function is called in a thread, so that it may wait for a person."""

QuestionKind = Literal["elicitation", "sampling", "roots"]
ALL_KINDS: frozenset[QuestionKind] = frozenset({"elicitation", "sampling", "roots"})


class QuestionRefusedError(Exception):
    """Raised by a question to answer the server with this JSON-RPC error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Questions(msgspec.Struct, frozen=True, kw_only=True):
    """Who answers the questions of servers; a server is told which kinds it may ask."""

    elicitation: Question | None = None
    sampling: Question | None = None
    roots: Question | None = None
    of_calls: frozenset[QuestionKind] = frozenset()
    """Kinds that a server may ask because calls bring somebody along who answers them."""

    def of_kind(self, kind: QuestionKind) -> Question | None:
        """Return who answers questions of a kind."""
        match kind:
            case "elicitation":
                return self.elicitation
            case "sampling":
                return self.sampling
            case "roots":
                return self.roots

    @property
    def are_answered(self) -> bool:
        """True when there is somebody here who answers any of them."""
        return any(self.of_kind(kind) is not None for kind in ALL_KINDS)

    def asked_as_guests_of(self, nursery: OwnerLoop) -> "Questions":
        """Return the same, answered in tasks that neither wait for the nursery's, nor they for."""

        def as_guest(question: Question) -> Question:
            async def asked(server: str, params: Mapping[str, Any]) -> RpcResponse:
                return await nursery.as_guest(lambda: ask(question, server, params))

            return asked

        return self._each(as_guest)

    def stopping(self, clock: Clock) -> "Questions":
        """Return the same, with a clock stopped while one is being answered."""

        def off_the_clock(question: Question) -> Question:
            async def asked(server: str, params: Mapping[str, Any]) -> RpcResponse:
                clock.stop()
                try:
                    return await ask(question, server, params)
                finally:
                    clock.go_on()

            return asked

        return self._each(off_the_clock)

    def _each(self, change: Callable[[Question], Question]) -> "Questions":
        return Questions(
            elicitation=self.elicitation and change(self.elicitation),
            sampling=self.sampling and change(self.sampling),
            roots=self.roots and change(self.roots),
            of_calls=self.of_calls,
        )


async def ask(question: Question, server: str, params: Mapping[str, Any]) -> RpcResponse:
    """Return the answer to a question, whichever kind of function gives it."""
    if _is_asynchronous(question):
        answer = question(server, params)
    else:
        work = partial(question, server, params)
        answer = await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
    return await answer if isinstance(answer, Awaitable) else answer


def _is_asynchronous(question: Question) -> bool:
    return inspect.iscoroutinefunction(question) or inspect.iscoroutinefunction(
        getattr(question, "__call__", None)  # noqa: B004 - of an object, the method itself is wanted
    )
