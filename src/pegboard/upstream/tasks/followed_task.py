"""FollowedTask: one task of a server, polled to its end; its questions are answered meanwhile."""

import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import msgspec
from anyio.abc import TaskGroup

from pegboard.errors import (
    PegboardError,
    ProtocolError,
    TaskCancelledError,
    TaskLostError,
    TaskTimeoutError,
)
from pegboard.errors.root import shorten
from pegboard.model.hidden_characters import visible
from pegboard.model.task import ServerTask, TaskStatus
from pegboard.upstream.call_context import CallContext, told
from pegboard.upstream.connections.stateful import StatefulConnection
from pegboard.upstream.messages.jsonrpc import ServerRpcError
from pegboard.upstream.server_requests import Clock, Questions
from pegboard.upstream.session.in_flight import LAST_NOTES, CallInFlight
from pegboard.upstream.session.request_routing import RequestRouting
from pegboard.upstream.session.translate import error_of
from pegboard.upstream.tasks.poll_pace import LEAST_PAUSE
from pegboard.upstream.tasks.shapes import LONGEST_MESSAGE, TaskState, read_result, read_state
from pegboard.upstream.tasks.task_requests import LOOK, TaskRequests

if TYPE_CHECKING:
    from pegboard.upstream.connection import Session

__all__ = ["FollowedTask"]

MOST_QUESTIONS = 100
"""How many inputs a server may ask for in the life of one task."""
_GRACE = 0.5
"""Seconds beyond its time to live in which a task may still be there."""


class FollowedTask:
    """Polls one task until it ends.

    Args:
        connection: where the task is.
        task: which one it is.
        tool: the tool that was called, for errors.
        context: what the call carries for its client.
        questions: the handlers of what the server asks; the time that they take does not count.
        routing: finds the handlers, and checks what they return.
    """

    def __init__(
        self,
        connection: StatefulConnection,
        task: ServerTask,
        *,
        tool: str,
        context: CallContext,
        questions: Questions | None,
        routing: RequestRouting,
    ) -> None:
        self.connection: StatefulConnection = connection
        self.task: ServerTask = task
        self._tool = tool
        self._config = connection.config
        self._routing = routing
        self._limit = self._config.timeouts.task
        self._born = anyio.current_time()
        self._life = anyio.CancelScope()
        self._patience = anyio.CancelScope(deadline=self._born + self._limit)
        self._wake = anyio.Event()
        self._session: Session | None = None
        self._failure: PegboardError | None = None
        self._asked: dict[str, Any] = {}
        """The inputs that the server has asked for, by their keys."""
        self._early: dict[str, Any] | None = None
        """The result of a core task, when it came before the end of the task was polled."""
        self._is_fetching = False
        self._seen: tuple[TaskStatus, str | None] | None = None
        self._messages = 0
        self._has_progress = False
        self._watcher = context.task
        self._tell_progress = context.on_progress
        self._notes = CallInFlight(CallContext(on_progress=context.on_progress), None)
        self._of_call: CallContext = msgspec.structs.replace(
            context,
            questions=None if questions is None else questions.stopping(Clock(self._patience)),
            on_progress=None if context.on_progress is None else self._progressed,
            params={},
            task=None,
        )
        of_polls = CallContext(
            client=context.client,
            caller=context.caller,
            capabilities=context.capabilities,
            # For what the server is told of its client.
            questions=context.questions,
        )
        self._requests = TaskRequests(
            connection, task, tool=tool, of_polls=of_polls, of_call=self._of_call
        )
        self._live(task.ttl_ms)

    @property
    def is_at_work(self) -> bool:
        """False once the server is known not to work on the task any more."""
        return self._requests.is_at_work

    @property
    def resumes_later(self) -> bool:
        """True when the server shall go on although the caller leaves."""
        return self._watcher is not None and self._watcher.resumes_later

    async def result(self, state: TaskState | None) -> dict[str, Any]:
        """Return the result of the call; ``state`` is the task as the server has just made it.

        Raises:
            TaskError: when the task was lost or cancelled, or does not end.
            UpstreamError: when it failed, or the server did.
        """
        outcome: dict[str, Any] | None = None
        failure: Exception | None = None
        self._follow_session()
        with self._patience, self._life:
            async with anyio.create_task_group() as group:
                try:
                    outcome = await self._until_over(group, state)
                    with anyio.move_on_after(LAST_NOTES):
                        await self._notes.catch_up()
                except Exception as error:  # noqa: BLE001 - raised again below, alone
                    failure = error
                group.cancel_scope.cancel()
        if failure is not None:
            raise failure
        if outcome is None:
            raise self._timeout()
        return outcome

    def look(self) -> None:
        """Ask for its state soon: something has happened to it."""
        self._wake.set()

    def lose(self) -> None:
        """Let it end as lost: the server has given its id to the task of another call."""
        self._failure = self._requests.lost("the server has given its id to another task")
        self._wake.set()

    def forget(self, *, is_over: bool) -> None:
        """Let the session deliver no more of it."""
        if self._session is not None:
            self._session.forget_task(self.task.task_id, is_over=is_over)

    async def _until_over(self, group: TaskGroup, state: TaskState | None) -> dict[str, Any]:
        if state is not None:
            if self._watcher is not None:
                self._notes.note(partial(self._watcher.started, self.task))
                with anyio.move_on_after(LAST_NOTES):
                    await self._notes.catch_up()
            self._note(state, group)
        is_pausing = state is not None and state.status is TaskStatus.WORKING
        while True:
            if is_pausing:
                await self._pause()
            is_pausing = True
            if self._early is not None:
                self._requests.is_at_work = False
                return self._early
            found = await self._poll()
            if found is None:
                continue
            self._note(found, group)
            if found.status.is_final:
                self._requests.is_at_work = False
                return await self._outcome(found)
            if found.status is TaskStatus.INPUT_REQUIRED:
                self._ask(found, group)

    async def _pause(self) -> None:
        with anyio.move_on_after(self._requests.pace.next_pause()):
            await self._wake.wait()
            # However often a server says that something has changed.
            await anyio.sleep(LEAST_PAUSE)
        self._wake = anyio.Event()
        if self._failure is not None:
            raise self._failure

    async def _poll(self) -> TaskState | None:
        """Return the state of the task; ``None`` if the server has to be asked once more."""
        raw = await self._requests.attempt("tasks/get")
        self._follow_session()
        if isinstance(self._failure, TaskLostError):
            # The answer is about the task of another call.
            raise self._failure
        if raw is None:
            return None
        state = read_state(raw, self.task, self._config, self._tool)
        self._requests.pace.answered(state.poll_interval_ms)
        self._live(state.ttl_ms)
        return state

    async def _outcome(self, state: TaskState) -> dict[str, Any]:
        """Return the result of a task that has ended."""
        name = self._config.name
        words = "" if state.status_message is None else f": {self._words(state.status_message)}"
        if state.status is TaskStatus.CANCELLED:
            raise TaskCancelledError(
                f"Task {self._requests.shown_id} of server {name!r} was cancelled{words}. {LOOK}",
                server=name,
                tool=self._tool,
                task=self.task.task_id,
            )
        if self.task.era == "handshake":
            return await self._fetched(state)
        if state.status is TaskStatus.COMPLETED:
            return read_result(state, self._config, self._tool)
        if state.error is not None:
            error = state.error
            failed = ServerRpcError(error.code, error.message, error.data)
            raise error_of(failed, self._config, tool=self._tool)
        raise self._misbehaved(f"failed without an error{words}")

    async def _fetched(self, state: TaskState) -> dict[str, Any]:
        """Return the result of a core task, which is a response of its own."""
        while self._early is None:
            # The server has it, so it need not wait for anything.
            with anyio.move_on_after(self._config.timeouts.call):
                has_failed = state.status is TaskStatus.FAILED
                raw = await self._requests.attempt("tasks/result", has_failed=has_failed)
                if raw is not None:
                    return raw
            await self._pause()
        return self._early

    def _ask(self, state: TaskState, group: TaskGroup) -> None:
        """Let what the server asks be answered, once, while the task is polled."""
        if self.task.era == "handshake":
            # The questions come as requests of the server while this one waits.
            if not self._is_fetching:
                self._is_fetching = True
                group.start_soon(self._fetch_early)
            return
        fresh: dict[str, Any] = {}
        for key, question in (state.input_requests or {}).items():
            if key not in self._asked:
                fresh[key] = question
            elif self._asked[key] != question:
                raise self._misbehaved(f"used the key {shorten(key)} for two questions")
        self._asked |= fresh
        if len(self._asked) > MOST_QUESTIONS:
            raise self._misbehaved(f"asked for more than {MOST_QUESTIONS} inputs")
        if fresh:
            group.start_soon(self._answer, fresh)

    async def _answer(self, asked: Mapping[str, Any]) -> None:
        try:
            answers = await self._answers_to(asked)
            await self._requests.insist("tasks/update", inputResponses=answers)
        except PegboardError as error:
            self._failure = error
        self._wake.set()

    async def _answers_to(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answers; a client that follows the task may give them in any order."""
        call = CallInFlight(self._of_call, None)
        if self._watcher is None:
            return await self._routing.answers(asked, call)
        answers: dict[str, Any] = {}
        failures: list[PegboardError] = []

        async def answer(key: str) -> None:
            try:
                answers.update(await self._routing.answers({key: asked[key]}, call))
            except PegboardError as error:
                failures.append(error)
                group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            for key in asked:
                group.start_soon(answer, key)
        if failures:
            raise failures[0]
        return answers

    async def _fetch_early(self) -> None:
        try:
            self._early = await self._requests.send("tasks/result")
            self._wake.set()
        except PegboardError:
            # The next poll shows what became of the task.
            pass
        finally:
            self._is_fetching = False

    def _note(self, state: TaskState, group: TaskGroup) -> None:
        """Tell the watcher of the task, and the client by its progress, what has changed."""
        message = None if state.status_message is None else self._words(state.status_message)
        if self._seen == (state.status, message) or state.status.is_final:
            return
        is_news = message is not None and (self._seen is None or self._seen[1] != message)
        self._seen = (state.status, message)
        if self._watcher is not None:
            self._notes.note(partial(self._watcher.changed, state.status, message))
        if is_news and not self._has_progress:
            # A task has no progress in the modern era, and many have none in the other.
            self._messages += 1
            self._notes.note_progress({"progress": self._messages, "message": message})
        if self._notes.is_waiting:
            group.start_soon(self._notes.tell)

    async def _progressed(self, done: float, total: float | None, message: str | None) -> None:
        self._has_progress = True
        if self._tell_progress is not None:
            await told(self._tell_progress(done, total, message))

    def _follow_session(self) -> None:
        """Let the session at hand deliver what the server sends about the task."""
        session = self.connection.at_hand
        if session is not None and session is not self._session:
            self._session = session
            session.follow_task(self.task.task_id, self._of_call, self.look)

    def _live(self, ttl_ms: int | None) -> None:
        self._life.deadline = math.inf if ttl_ms is None else self._born + ttl_ms / 1000 + _GRACE

    def _words(self, message: str) -> str:
        return visible(self._config.redact(message)[:LONGEST_MESSAGE])

    def _misbehaved(self, did: str) -> ProtocolError:
        return ProtocolError(
            f"Task {self._requests.shown_id} of server {self._config.name!r} {did}.",
            server=self._config.name,
            tool=self._tool,
        )

    def _timeout(self) -> TaskTimeoutError:
        name = self._config.name
        if self._life.cancelled_caught:
            lived = self._life.deadline - self._born - _GRACE
            words = f"before it expired after {lived:g} s"
        else:
            words = (
                f"within {self._limit:g} s, so it is cancelled; raise `timeouts.task` of the "
                "server if it needs longer"
            )
        return TaskTimeoutError(
            f"Task {self._requests.shown_id} of server {name!r} did not end {words}. {LOOK}",
            server=name,
            tool=self._tool,
            task=self.task.task_id,
        )
