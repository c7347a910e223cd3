"""TaskRequests: the requests about one task, and what becomes of the task when they fail."""

import math
from typing import Any

import anyio

from pegboard.errors import (
    CircuitOpenError,
    ConnectionLostError,
    NotConnectedError,
    PegboardError,
    ProtocolError,
    ServerAuthenticationError,
    ServerUnavailableError,
    TaskLostError,
    ToolTimeoutError,
)
from pegboard.errors.root import shorten
from pegboard.model.hidden_characters import visible
from pegboard.model.task import ServerTask
from pegboard.upstream.call_context import CallContext
from pegboard.upstream.connection import Request, ServerState
from pegboard.upstream.connections.delivery import deliver
from pegboard.upstream.connections.stateful import StatefulConnection
from pegboard.upstream.tasks.poll_pace import PollPace

__all__ = ["LOOK", "TaskRequests"]

LOOK = "The call may have run all the same: look before you repeat it."
_UNKNOWN = frozenset({-32601, -32602, -32002})
"""The errors that say that a task is not there: no such method, parameter or resource."""


class TaskRequests:
    """Sends the requests about one task, again if the server can be expected to come back.

    Args:
        connection: where the task is.
        task: which one it is.
        tool: the tool that was called, for errors.
        of_polls: the context of the requests that no client hears of.
        of_call: the context of the request that waits for the result.
    """

    def __init__(
        self,
        connection: StatefulConnection,
        task: ServerTask,
        *,
        tool: str,
        of_polls: CallContext,
        of_call: CallContext,
    ) -> None:
        self.is_at_work: bool = True
        """False once the server is known not to work on the task any more."""
        self._connection = connection
        self._task = task
        self._tool = tool
        self._of_polls = of_polls
        self._of_call = of_call
        timeouts = connection.config.timeouts
        self.pace: PollPace = PollPace(task.poll_interval_ms, patience=timeouts.call)
        self._limit = timeouts.call

    @property
    def shown_id(self) -> str:
        """The id of the task for messages."""
        return self._connection.config.redact(visible(shorten(self._task.task_id)))

    async def attempt(self, method: str, **params: Any) -> dict[str, Any] | None:
        """Send a request; ``None`` if it failed and may be sent again after a pause.

        Raises:
            TaskLostError: when the server does not know the task.
            UpstreamError: when the server cannot be asked any more, or answers with nonsense.
        """
        try:
            return await self.send(method, **params)
        except ProtocolError as error:
            if error.rpc_code is None:
                raise
            if error.rpc_code in _UNKNOWN or not self.pace.refused():
                # One that cannot be answered is still there.
                self.is_at_work = self.is_at_work and method == "tasks/update"
                raise self.lost(str(error).rstrip(".")) from error
        except ServerAuthenticationError as error:
            raise self._away(error) from error
        except (ServerUnavailableError, ConnectionLostError, ToolTimeoutError) as error:
            retry_in = error.retry_in if isinstance(error, CircuitOpenError) else 0.0
            if not self.pace.unreached(retry_in):
                raise self._away(error) from error
        return None

    async def insist(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request until the server has taken it.

        Raises:
            TaskLostError: when the server does not know the task.
            UpstreamError: when the server cannot be asked any more, or answers with nonsense.
        """
        while (raw := await self.attempt(method, **params)) is None:
            pause = self.pace.next_pause()
            await anyio.sleep(pause)
        return raw

    async def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request once.

        Raises:
            UpstreamError: when it failed.
            ToolTimeoutError: when the response did not come in time.
        """
        name = self._connection.config.name
        if self._connection.state is ServerState.CLOSED:
            # Only a new call opens a server again that Pegboard closed.
            self.is_at_work = False
            raise NotConnectedError(
                f"Server {name!r} was closed while it worked on task {self.shown_id}. {LOOK}",
                server=name,
                tool=self._tool,
            )
        is_result = method == "tasks/result"
        request = Request(
            method=method,
            params={"taskId": self._task.task_id, **params},
            tool=self._tool,
            # While it waits for the result, the server sends the questions of the task.
            context=self._of_call if is_result else self._of_polls,
            limit=math.inf if is_result else self._limit,
            remedy="raise `timeouts.call` of the server",
            idempotent=True,
        )
        return await deliver(self._connection, request)

    def lost(self, reason: str) -> TaskLostError:
        """Return the error for a task that the server does not know any more."""
        name = self._connection.config.name
        return TaskLostError(
            f"Task {self.shown_id} of server {name!r} is lost: {reason}. {LOOK}",
            server=name,
            tool=self._tool,
            task=self._task.task_id,
        )

    def _away(self, error: PegboardError) -> ConnectionLostError:
        """Return the error for a server that cannot be asked; the call itself was sent."""
        name = self._connection.config.name
        return ConnectionLostError(
            f"Server {name!r} cannot be asked for task {self.shown_id} any more: "
            f"{str(error).rstrip('.')}. {LOOK}",
            server=name,
            tool=self._tool,
        )
