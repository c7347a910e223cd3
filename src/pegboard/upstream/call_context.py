"""CallContext: what a call carries for its client: progress, logs, elicitation, ``_meta``."""

from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, TypeAlias

import msgspec

from pegboard.model.task import ServerTask, TaskStatus, TaskWatcher
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
"""Receives progress, total and a message while a call runs; it may be a coroutine function."""

OnLog: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[object] | object]
"""Receives the parameters of a server's log message; it may be a coroutine function."""

LogLevel: TypeAlias = str
"""As the protocol has it: ``debug``, ``info``, ``notice``, ``warning``, ``error`` and so on."""


class CallContext(msgspec.Struct, frozen=True, kw_only=True):
    """What requests to servers carry for a client, and how to reach it while they run."""

    on_progress: OnProgress | None = None
    on_log: OnLog | None = None
    """Receives what the server logs while the call runs."""
    on_logs_lost: Callable[[Mapping[str, Any]], object] | None = None
    """Receives, as a log message, how many logs were dropped because ``on_log`` was too slow."""
    log_level: LogLevel | None = None
    """The lowest level; ``None`` leaves it to the server (a modern one then logs nothing)."""
    questions: Questions | None = None
    """Answers the server's elicitation, sampling and roots; ``None`` for those of the hub."""
    passes_questions_on: bool = False
    """Return a server's ``input_required`` as the result, instead of answering it here."""
    params: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """Further parameters for the server: ``inputResponses``, ``requestState``."""
    meta: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """Further ``_meta`` for the server; the protocol's own keys in it are left out."""
    capabilities: Mapping[str, Any] | None = None
    """The capabilities of the client; a modern server gets these instead of the hub's, as far as
    Pegboard carries them."""
    client: str = ""
    """The client of the call, whose own connection is used if clients do not share one."""
    caller: str = ""
    """The caller that the client belongs to; all its clients count as one for shared limits."""
    is_reachable: Callable[[], bool] = lambda: True
    """Tells whether the client can be asked now."""
    task: TaskWatcher | None = None
    """Follows the task, if the server makes one of the call."""

    def with_callbacks_on(self, owner_loop: OwnerLoop) -> "CallContext":
        """Return the same, with its callbacks run by `OwnerLoop.run_callback`."""
        questions, task = self.questions, self.task
        if self.on_progress is None and self.on_log is None and questions is None and task is None:
            return self
        return msgspec.structs.replace(
            self,
            on_progress=_as_callback(self.on_progress, owner_loop),
            on_log=_as_callback(self.on_log, owner_loop),
            questions=None if questions is None else questions.answered_on(owner_loop),
            task=None if task is None else _WatcherOnLoop(task, owner_loop),
        )


context_of_call: ContextVar[CallContext | None] = ContextVar("context_of_call", default=None)
"""What the requests of this context carry; set it around a call."""


@contextmanager
def taken_context(
    owner_loop: OwnerLoop, *, on_progress: OnProgress | None = None
) -> Generator[CallContext | None]:
    """Yield the context of this call, and clear it for the block.

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
        yield context.with_callbacks_on(owner_loop)
    finally:
        context_of_call.reset(token)


async def told(outcome: Awaitable[object] | object) -> None:
    """Await the outcome of a callback, if it is awaitable."""
    if isinstance(outcome, Awaitable):
        await outcome


class _WatcherOnLoop:
    """Passes on what a watcher is told, by `OwnerLoop.run_callback`."""

    def __init__(self, watcher: TaskWatcher, owner_loop: OwnerLoop) -> None:
        self._watcher = watcher
        self._owner_loop = owner_loop

    @property
    def resumes_later(self) -> bool:
        return self._watcher.resumes_later

    async def started(self, task: ServerTask) -> None:
        await self._owner_loop.run_callback(lambda: told(self._watcher.started(task)))

    async def changed(self, status: TaskStatus, message: str | None) -> None:
        await self._owner_loop.run_callback(lambda: told(self._watcher.changed(status, message)))


def _as_callback(
    tell: Callable[P, Awaitable[object] | object] | None, owner_loop: OwnerLoop
) -> Callable[P, Awaitable[object]] | None:
    if tell is None:
        return None

    async def run(*args: P.args, **kwargs: P.kwargs) -> None:
        await owner_loop.run_callback(lambda: told(tell(*args, **kwargs)))

    return run
