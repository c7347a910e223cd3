"""ServerTasks: the tasks of one server: asked for, followed, resumed and cancelled."""

import logging
from collections.abc import Mapping
from time import monotonic
from typing import Any

import anyio

from pegboard.config import ServerConfig
from pegboard.errors import PegboardError, ProtocolError, TaskLostError
from pegboard.errors.root import shorten
from pegboard.model.hidden_characters import visible
from pegboard.model.json_values import object_in
from pegboard.model.task import ServerTask
from pegboard.upstream.call_context import CallContext
from pegboard.upstream.connection import Negotiated, Request, ServerState
from pegboard.upstream.connections.delivery import deliver
from pegboard.upstream.connections.stateful import StatefulConnection
from pegboard.upstream.messages.extensions import is_task
from pegboard.upstream.owner_loop import OwnerLoop
from pegboard.upstream.server_requests import Questions
from pegboard.upstream.session.in_flight import CallsInFlight
from pegboard.upstream.session.request_routing import RequestRouting
from pegboard.upstream.session.session_tasks import made_task
from pegboard.upstream.tasks.followed_task import FollowedTask
from pegboard.upstream.tasks.shapes import TaskState, started_task

__all__ = ["ServerTasks"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

SECONDS_TO_CANCEL = 5.0
"""The longest that cancelling a task takes; the server need not answer."""
SECONDS_TO_LEAVE = 1.0
"""The longest that a cancelled caller waits for that; it goes on in the background."""


class ServerTasks:
    """Makes plain results of the tasks of one server.

    A poll holds neither a connection nor a lock between two requests, so no other call waits for
    it. A call whose tool has a limit of concurrent calls holds its slot until the task is over:
    the limit is for the work, which goes on.
    """

    def __init__(self, config: ServerConfig, owner_loop: OwnerLoop, questions: Questions) -> None:
        self._config = config
        self._owner_loop = owner_loop
        self._routing = RequestRouting(config, questions, CallsInFlight())
        self._followed: dict[tuple[int, str], FollowedTask] = {}
        """The tasks that are followed, by their connection and their id."""

    def asked_for(
        self,
        params: Mapping[str, Any],
        support: str,
        negotiated: Negotiated | None,
        context: CallContext | None,
    ) -> Mapping[str, Any]:
        """Return the parameters of a call, with the wish for a task if the era wants it there.

        Args:
            params: the parameters of the call.
            support: whether its tool makes a task ``"required"`` or ``"optional"``.
            negotiated: what the server said about itself.
            context: what the call carries for its client.
        """
        if negotiated is None or negotiated.era != "legacy":
            return params
        offered = object_in(object_in(negotiated.capabilities.get("tasks")).get("requests"))
        if object_in(offered.get("tools")).get("call") is None:
            return params
        if support != "required" and (context is None or context.task is None):
            return params
        return {**params, "task": {"ttl": int(self._config.timeouts.task * 1000)}}

    async def result_of(
        self, connection: StatefulConnection, request: Request, raw: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the result of a call as it is, or of the task that the server made of the call.

        Raises:
            TaskError: when the task was lost or cancelled, or does not end.
            UpstreamError: when it failed, or the server did.
        """
        if not is_task(raw):
            return raw
        negotiated = connection.negotiated
        era = "modern" if negotiated is None else negotiated.era
        try:
            state = started_task(raw, era, connection.config, request.tool)
        except ProtocolError:
            task_id = made_task(raw)
            if connection.at_hand is not None and task_id is not None:
                connection.at_hand.forget_task(task_id, is_over=True)
            raise
        task = ServerTask(
            task_id=state.task_id,
            era="modern" if era == "modern" else "handshake",
            ttl_ms=state.ttl_ms,
            poll_interval_ms=state.poll_interval_ms,
        )
        other = self._followed.get((id(connection), task.task_id))
        if other is not None:
            # Whose result would it be? After a restart, a server may count from 1 again.
            other.lose()
            raise ProtocolError(
                f"Server {self._config.name!r} gave two calls the same task {self._shown(task)}.",
                server=self._config.name,
                tool=request.tool,
            )
        followed = self._following(
            connection, task, request.tool, request.context, request.questions
        )
        return await self._to_its_end(followed, state)

    async def resumed(
        self,
        connection: StatefulConnection,
        task: ServerTask,
        *,
        tool: str,
        context: CallContext | None,
        questions: Questions | None,
    ) -> dict[str, Any]:
        """Return the result of a task that an earlier call, or another process, has begun.

        Raises:
            TaskError: when the task was lost or cancelled, does not end, or is of a running call.
            UpstreamError: when it failed, or the server did.
        """
        if (id(connection), task.task_id) in self._followed:
            # It may have the same id by chance, see above.
            raise TaskLostError(
                f"Task {self._shown(task)} of server {self._config.name!r} belongs to a call that "
                "is running.",
                server=self._config.name,
                tool=tool,
                task=task.task_id,
            )
        followed = self._following(connection, task, tool, context, questions)
        return await self._to_its_end(followed, None)

    async def cancel(self, connection: StatefulConnection, task: ServerTask) -> bool:
        """Ask the server to cancel a task; return whether it agreed. It never raises.

        A task of a running call is cancelled where the call is, which then learns of it at once.
        """
        its_own = [it for it in self._followed.values() if it.task.task_id == task.task_id]
        connection = its_own[0].connection if its_own else connection
        negotiated = connection.negotiated
        can = task.era == "modern" or negotiated is None or _cancels(negotiated)
        if not can or connection.state is ServerState.CLOSED or not self._owner_loop.is_open:
            return False
        request = Request(
            method="tasks/cancel", params={"taskId": task.task_id}, limit=SECONDS_TO_CANCEL
        )
        with anyio.move_on_after(SECONDS_TO_CANCEL):
            try:
                await deliver(connection, request)
            except PegboardError as error:
                name = self._config.name
                logged = {"server": name, "reason": str(error)}
                logger.debug("task_not_cancelled: server %r: %s", name, error, extra=logged)
                return False
            for followed in its_own:
                followed.look()
            return True
        return False

    def _following(
        self,
        connection: StatefulConnection,
        task: ServerTask,
        tool: str,
        context: CallContext | None,
        questions: Questions | None,
    ) -> FollowedTask:
        return FollowedTask(
            connection,
            task,
            tool=tool,
            context=context or CallContext(),
            questions=questions,
            routing=self._routing,
        )

    async def _to_its_end(self, followed: FollowedTask, state: TaskState | None) -> dict[str, Any]:
        """Follow a task; if the caller leaves, or the task does not end, cancel it."""
        key = (id(followed.connection), followed.task.task_id)
        self._followed[key] = followed
        followed.connection.tasks += 1
        try:
            result = await followed.result(state)
        except BaseException as error:
            if isinstance(error, PegboardError):
                # Whatever a request about the task says of itself, the call was sent.
                error.sent = True
            is_left = followed.resumes_later and not isinstance(error, Exception)
            if followed.is_at_work and self._owner_loop.is_open and not is_left:
                done = anyio.Event()
                self._owner_loop.start_soon(self._abandon, followed, done)
                with anyio.move_on_after(SECONDS_TO_LEAVE, shield=True):
                    await done.wait()
            else:
                followed.forget(is_over=True)
            raise
        finally:
            del self._followed[key]
            followed.connection.tasks -= 1
            followed.connection.last_used = monotonic()
        followed.forget(is_over=True)
        return result

    def _shown(self, task: ServerTask) -> str:
        return self._config.redact(visible(shorten(task.task_id)))

    async def _abandon(self, followed: FollowedTask, done: anyio.Event) -> None:
        is_over = False
        try:
            is_over = await self.cancel(followed.connection, followed.task)
        finally:
            followed.forget(is_over=is_over)
            done.set()


def _cancels(negotiated: Negotiated) -> bool:
    return object_in(negotiated.capabilities.get("tasks")).get("cancel") is not None
