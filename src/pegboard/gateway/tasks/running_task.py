"""RunningTask: a call that runs on its own, with its questions and the state that clients see."""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal

import anyio
import anyio.lowlevel
import msgspec
from mcp_types import INTERNAL_ERROR

from pegboard.gateway.calls.call_notifier import CallNotifier
from pegboard.gateway.calls.suspended_calls import OpenQuestion
from pegboard.gateway.errors import LIMIT_REACHED
from pegboard.gateway.request import Channel, ClientRequest, RpcError, object_in
from pegboard.gateway.tasks.record import TaskRecord, read_object, written
from pegboard.model.task import ServerTask, TaskStatus
from pegboard.upstream import QuestionRefusedError

__all__ = ["Push", "RunningTask", "WhyStopped"]

WhyStopped = Literal["", "cancelled", "expired", "unanswered", "taken"]
"""Why the gateway stopped the call: at the wish of its client, or as its time was over, or no
answer came, or another gateway has it. Empty when the gateway itself stops."""

Push = Callable[["RunningTask", str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Sends a question to a client of the handshake era and returns the answer."""
_MOST_QUESTIONS = 16
_MOST_AT_ONCE = 100
"""How many questions one result of a server may have; each change of one writes all of them."""
_LARGEST_AT_ONCE = 256 * 1024
_NO_TASK = "The call cannot ask: too many tasks are kept (`gateway.tasks`). Try again later."


class RunningTask:
    """A call of this process that is a task, or may become one; it implements `CallTask`.

    Args:
        request: the request that began the call.
        record: what is known of it so far.
        patience: how many seconds a client may take to answer a question.
        on_change: is told when the state has changed, and whether the store should know.
        push: sends the questions to the client; ``None`` if the client asks for them.
    """

    def __init__(
        self,
        request: ClientRequest,
        record: TaskRecord,
        *,
        patience: float,
        on_change: Callable[["RunningTask"], object],
        push: Push | None = None,
    ) -> None:
        self.request: ClientRequest = request
        self.record: TaskRecord = record
        self.revision: int | None = None
        """The revision of what is stored."""
        self.notifier: CallNotifier = CallNotifier(request)
        self.scope: anyio.CancelScope = anyio.CancelScope()
        self.lock: anyio.Lock = anyio.Lock()
        """Held while the store is written, and the state decided that is written."""
        self.is_task: bool = False
        """True from when it was decided that the client gets a task."""
        self.may_ask: bool = True
        """False when there is no room for a task, so that no question could be answered."""
        self.noted: anyio.Event = anyio.Event()
        """Set when it should become a task at once, and when it is over."""
        self.over: anyio.Event = anyio.Event()
        """Set when it has a result, failed, or was stopped."""
        self.result: dict[str, Any] | None = None
        self.error: RpcError | None = None
        self.was_stopped: bool = False
        """True when it has ended without a result and without an error of its own."""
        self.why_stopped: WhyStopped = ""
        self.unsaved: str | None = None
        """The result as JSON, if it could not be saved yet."""
        self.asked: dict[str, dict[str, Any]] = dict(read_object(record.asked))
        """The open questions, as MCP requests; also those of the gateway that had the task."""
        self.waiters: list[Channel] = []
        """The channels of requests that wait for the result, over which a client can be asked."""
        self.reachable: anyio.Event = anyio.Event()
        """Set when there is one more of them."""
        self._answers: dict[str, Mapping[str, Any]] = {}
        self._answered: dict[str, anyio.Event] = {key: anyio.Event() for key in self.asked}
        self._left = dict(self.asked)
        """What that gateway had asked, and the server has not asked again yet."""
        self._count = record.questions
        self._patience = patience
        self._on_change = on_change
        self._push = push

    @property
    def id(self) -> str:
        """The id of the task."""
        return self.record.id

    @property
    def is_over(self) -> bool:
        """True when the call has ended."""
        return self.over.is_set()

    @property
    def resumes_later(self) -> bool:
        """True when the call may go on at another gateway: this one stops, or has lost it."""
        return self.is_task and self.why_stopped in ("", "taken")

    def stop(self, why: WhyStopped) -> None:
        """Stop the call."""
        if not self.is_over and not self.scope.cancel_called:
            self.why_stopped = why
            self.scope.cancel()

    def end(self) -> None:
        """Note that the call has ended, in whatever way."""
        self.over.set()
        self.noted.set()

    def outcome(self) -> dict[str, Any]:
        """Return the result of the call.

        Raises:
            RpcError: when it failed.
        """
        if self.error is not None:
            raise self.error
        assert self.result is not None, "the call has ended"
        return self.result

    def started(self, task: ServerTask, /) -> None:
        """Take the task that the server made of the call."""
        self.record = msgspec.structs.replace(self.record, upstream=task)
        self.noted.set()
        self._change()

    def changed(self, status: TaskStatus, message: str | None, /) -> None:
        """Take the state of the task at the server; its questions come by `ask`."""
        if status is TaskStatus.WORKING:
            self._close(self._left)
            self._left.clear()
        if not status.is_final and message != self.record.message:
            self._say(message)

    async def progress(self, progress: float, total: float | None, message: str | None, /) -> None:
        """Pass on the progress, and keep its message for clients that ask for the task."""
        if self.is_task and message is not None:
            self._say(message)
        await self.notifier.progress(progress, total, message)

    async def log(self, params: Mapping[str, Any], /) -> None:
        """Pass on a log message while the client waits for the call."""
        if not self.is_task:
            await self.notifier.log(params)

    async def ask(self, method: str, params: Mapping[str, Any], /) -> Mapping[str, Any] | None:
        """Keep a question open until the client has answered it; stop the call if it does not."""
        question = {"method": method, "params": dict(params)}
        key = self._key_of(question)
        if key in self._answers:
            return self._answers.pop(key)
        answered = self._answered.get(key)
        if answered is None:
            [answered] = self._open({key: question})
        try:
            with anyio.move_on_after(self._patience):
                if self._push is not None:
                    return await self._push(self, method, params)
                await answered.wait()
                return self._answers.pop(key)
        finally:
            # The next gateway asks it by this key, and takes its answer already before.
            if not (self.scope.cancel_called and self.resumes_later):
                self._close([key])
        self.stop("unanswered")
        return None

    async def ask_all(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answers to the questions of a result, by the keys that the server gave them.

        No key is used twice in a task, and a server may use one in each of its results.

        Raises:
            RpcError: when they are too many, or too large.
        """
        if len(asked) > _MOST_AT_ONCE or len(written(dict(asked))) > _LARGEST_AT_ONCE:
            words = (
                f"The server asked more than {_MOST_AT_ONCE} questions at once, or more than "
                f"{_LARGEST_AT_ONCE} bytes of them."
            )
            raise RpcError(INTERNAL_ERROR, words)
        self._count += 1
        keys = {f"{self._count}-{key}": key for key in asked}
        waited = self._open({key: dict(asked[name]) for key, name in keys.items()})
        try:
            with anyio.move_on_after(self._patience):
                for answered in waited:
                    await answered.wait()
                return {keys[key]: self._answers.pop(key) for key in keys}
        finally:
            self._close(keys)
        self.stop("unanswered")
        await anyio.lowlevel.checkpoint()
        raise AssertionError("a stopped call goes no further")

    def take(self, responses: Mapping[str, Any]) -> None:
        """Take answers of the client; those to questions that are not open are left out."""
        for key in [key for key in self.asked if isinstance(responses.get(key), Mapping)]:
            answered = self._answered.pop(key, None)
            if answered is not None:
                self._answers[key] = object_in(responses[key])
                del self.asked[key]
                answered.set()
        self._change()

    def waits(self, channel: Channel) -> None:
        """Note that a request of the client waits for the result."""
        self.waiters.append(channel)
        self.reachable.set()

    def state(self) -> TaskRecord:
        """Return the task as clients and the store see it now."""
        status = TaskStatus.INPUT_REQUIRED if self.asked else TaskStatus.WORKING
        if self.record.status.is_final:
            return self.record
        asked = written(self.asked) if self.asked else ""
        return msgspec.structs.replace(
            self.record, status=status, asked=asked, questions=self._count
        )

    def open_questions(self) -> list[OpenQuestion]:
        """Return the open questions, for a person who may answer in place of the client."""
        if not self.is_task:
            return []
        return [
            OpenQuestion(
                kind="task",
                id=self.id,
                key=key,
                method=str(asked.get("method", "")),
                params=object_in(asked.get("params")),
                tool=self.record.tool,
                tenant=self.record.tenant,
                subject=self.record.subject,
            )
            for key, asked in self.asked.items()
        ]

    def _key_of(self, question: dict[str, Any]) -> str:
        """Return the key of a question: a client may take one that it has answered for old."""
        for key, left in self._left.items():
            if left == question:
                del self._left[key]
                return key
        if not self.may_ask or len(self.asked) >= _MOST_QUESTIONS:
            raise QuestionRefusedError(LIMIT_REACHED, _NO_TASK)
        self._count += 1
        return f"question-{self._count}"

    def _open(self, questions: Mapping[str, dict[str, Any]]) -> list[anyio.Event]:
        self.asked.update(questions)
        answered = {key: anyio.Event() for key in questions}
        self._answered.update(answered)
        self.noted.set()
        # Once: all questions are written each time.
        self._change()
        return list(answered.values())

    def _close(self, keys: Iterable[str]) -> None:
        left = [key for key in keys if key in self.asked or key in self._answered]
        for key in left:
            self._answered.pop(key, None)
            self.asked.pop(key, None)
        if left:
            self._change()

    def _say(self, message: str | None) -> None:
        self.record = self.record.with_status(self.record.status, message, now=time.time())

    def _change(self) -> None:
        self.record = msgspec.structs.replace(self.record, updated=time.time())
        if self.is_task and not self.is_over:
            self._on_change(self)
