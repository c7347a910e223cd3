"""Requests that servers send during a call, and their handlers: elicitation, sampling, roots."""

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
    "QuestionResult",
    "Questions",
    "ask",
]


class Clock:
    """Pauses the deadline of a scope while a person answers."""

    def __init__(self, scope: anyio.CancelScope) -> None:
        self._scope = scope
        self._stops = 0
        self._left = math.inf
        self._stopped_at = 0.0
        self._stopped = 0.0

    @property
    def stopped(self) -> float:
        """The seconds that it was stopped until now."""
        return self._stopped + (anyio.current_time() - self._stopped_at if self._stops else 0.0)

    @property
    def deadline(self) -> float:
        """When the time is up, if the clock went on now."""
        return anyio.current_time() + self._left if self._stops else self._scope.deadline

    def stop(self) -> None:
        """Pause the deadline until `go_on` was called as often."""
        if not self._stops:
            self._stopped_at = anyio.current_time()
            self._left = self._scope.deadline - self._stopped_at
            self._scope.deadline = math.inf
        self._stops += 1

    def go_on(self) -> None:
        """Undo one `stop`."""
        self._stops -= 1
        if not self._stops:
            now = anyio.current_time()
            self._stopped += now - self._stopped_at
            self._scope.deadline = now + self._left


QuestionResult: TypeAlias = Mapping[str, Any] | None
"""The result in the form of the protocol; ``None`` declines."""

Question: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[QuestionResult] | QuestionResult]
"""Handles a request of a server during a call: it gets the name of the server and the parameters,
and returns the result, both in the form of the protocol. A plain function runs in a thread, so
that it may wait for a person."""

QuestionKind = Literal["elicitation", "sampling", "roots"]
ALL_KINDS: frozenset[QuestionKind] = frozenset({"elicitation", "sampling", "roots"})


class QuestionRefusedError(Exception):
    """Raised by a `Question` to respond to the server with this JSON-RPC error."""

    def __init__(self, code: int, message: str, data: object = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


class Questions(msgspec.Struct, frozen=True, kw_only=True):
    """The handlers of elicitation, sampling and roots; a server is told which of them exist."""

    elicitation: Question | None = None
    sampling: Question | None = None
    roots: Question | None = None
    of_calls: frozenset[QuestionKind] = frozenset()
    """Kinds that a server may send because the client of a call handles them."""
    extensions: Mapping[str, Mapping[str, Any]] = msgspec.field(
        default_factory=dict[str, Mapping[str, Any]]
    )
    """Extensions that a server is told of because the clients of calls may have them."""

    def of_kind(self, kind: QuestionKind) -> Question | None:
        """Return the handler of a kind; ``None`` if there is none."""
        match kind:
            case "elicitation":
                return self.elicitation
            case "sampling":
                return self.sampling
            case "roots":
                return self.roots

    @property
    def are_answered(self) -> bool:
        """True when there is a handler of at least one kind."""
        return any(self.of_kind(kind) is not None for kind in ALL_KINDS)

    def answered_on(self, owner_loop: OwnerLoop) -> "Questions":
        """Return the same handlers, run in tasks of their own; see `OwnerLoop.run_callback`."""

        def as_callback(question: Question) -> Question:
            async def asked(server: str, params: Mapping[str, Any]) -> QuestionResult:
                return await owner_loop.run_callback(lambda: ask(question, server, params))

            return asked

        return self._each(as_callback)

    def stopping(self, clock: Clock) -> "Questions":
        """Return the same handlers, which stop a clock while they run."""

        def off_the_clock(question: Question) -> Question:
            async def asked(server: str, params: Mapping[str, Any]) -> QuestionResult:
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
            extensions=self.extensions,
        )


async def ask(question: Question, server: str, params: Mapping[str, Any]) -> QuestionResult:
    """Return the result of a handler, which may be a plain or a coroutine function."""
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
