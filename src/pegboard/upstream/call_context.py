"""CallContext: what a call brings along from whoever it is made for."""

from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeAlias

import msgspec

from pegboard.upstream.owner_loop import OwnerLoop
from pegboard.upstream.server_requests import Questions

__all__ = [
    "CallContext",
    "LogLevel",
    "OnLog",
    "OnProgress",
    "context_of_call",
    "taken_context",
    "told",
]

P = ParamSpec("P")

OnProgress: TypeAlias = Callable[[float, float | None, str | None], Awaitable[object] | object]
"""Receives progress, total and a message while a call runs; may be a coroutine function."""

OnLog: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[object] | object]
"""Receives the parameters of a server's log message; may be a coroutine function."""

LogLevel: TypeAlias = str
"""As the protocol has it: ``debug``, ``info``, ``notice``, ``warning``, ``error`` and so on."""


class CallContext(msgspec.Struct, frozen=True, kw_only=True):
    """What requests to servers carry for a client, and how to reach it while they run."""

    on_progress: OnProgress | None = None
    on_log: OnLog | None = None
    """Told what the server logs while the call runs."""
    on_logs_lost: Callable[[Mapping[str, Any]], object] | None = None
    """Told how many logs ``on_log`` had not taken when the result was there, as a log message."""
    log_level: LogLevel | None = None
    """From which level on; ``None`` leaves it to the server (a modern one then logs nothing)."""
    questions: Questions | None = None
    """Who answers what the server asks in the course of this call; ``None``: the hub's own."""
    passes_questions_on: bool = False
    """Give back a server's ``input_required`` as the result, instead of asking anybody here."""
    params: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """Further parameters for the server: ``inputResponses``, ``requestState``."""
    meta: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """Further ``_meta`` for the server; the protocol's own keys in it are left out."""
    capabilities: Mapping[str, Any] | None = None
    """Of the client; a modern server is told these instead of the hub's."""
    client: str = ""
    """Which client it is for: whose connection is used where clients do not share one."""

    def told_as_guest_of(self, nursery: OwnerLoop) -> "CallContext":
        """Return the same, with its functions run in tasks that nobody of the nursery awaits."""
        if self.on_progress is None and self.on_log is None and self.questions is None:
            return self
        questions = self.questions
        return msgspec.structs.replace(
            self,
            on_progress=_as_guest(self.on_progress, nursery),
            on_log=_as_guest(self.on_log, nursery),
            questions=None if questions is None else questions.asked_as_guests_of(nursery),
        )


context_of_call: ContextVar[CallContext | None] = ContextVar("context_of_call", default=None)
"""What the requests of this context bring along; to be set around a call."""


@contextmanager
def taken_context(
    nursery: OwnerLoop, *, on_progress: OnProgress | None = None
) -> Generator[CallContext | None]:
    """Give what this call brings along; what is done meanwhile brings nothing along.

    Otherwise a server in this process that calls other tools would send them the same.
    """
    context = context_of_call.get()
    if on_progress is not None:
        context = msgspec.structs.replace(context or CallContext(), on_progress=on_progress)
    if context is None:
        yield None
        return
    token = context_of_call.set(None)
    try:
        yield context.told_as_guest_of(nursery)
    finally:
        context_of_call.reset(token)


async def told(outcome: Awaitable[object] | object) -> None:
    """Wait for what a function gave back, if it is to be waited for."""
    if isinstance(outcome, Awaitable):
        await outcome


def _as_guest(
    tell: Callable[P, Awaitable[object] | object] | None, nursery: OwnerLoop
) -> Callable[P, Awaitable[object]] | None:
    if tell is None:
        return None

    async def as_guest(*args: P.args, **kwargs: P.kwargs) -> None:
        await nursery.as_guest(lambda: told(tell(*args, **kwargs)))

    return as_guest
