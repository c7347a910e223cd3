"""Incoming: what a server sends by itself: notifications of any kind, and requests."""

import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, cast

import anyio
from anyio.abc import TaskGroup

from pegboard.upstream.connection import Changed, OnChanged
from pegboard.upstream.messages.channel import MessageChannel
from pegboard.upstream.messages.jsonrpc import Message, ServerRpcError, number_of
from pegboard.upstream.messages.protocol import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    SUBSCRIPTION_ID,
    without_reserved_keys,
)
from pegboard.upstream.session.in_flight import CallInFlight
from pegboard.upstream.session.request_routing import KINDS, RequestRouting
from pegboard.upstream.session.session_tasks import UNKNOWN_TASK, SessionTasks, related_task

__all__ = ["Incoming", "OnEvent"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

MOST_REQUESTS = 256
"""The most requests of a server that wait for a response; further ones are dropped."""
_SECONDS_TO_SEND = 60.0

OnEvent = Callable[[str, Mapping[str, Any]], None]
"""Receives the method and the parameters of a notification on a subscription."""

_CHANGES: dict[str, Changed] = {
    "notifications/tools/list_changed": "tools",
    "notifications/resources/list_changed": "resources",
    "notifications/prompts/list_changed": "prompts",
}


class Incoming:
    """Takes the messages of one session that are no responses.

    Args:
        server: the name of the server.
        routing: finds who answers the requests of the server.
        on_changed: told of changed lists and resources.
    """

    def __init__(self, server: str, routing: RequestRouting, *, on_changed: OnChanged) -> None:
        self._server = server
        self._routing = routing
        self._on_changed = on_changed
        self.tasks: SessionTasks = SessionTasks(routing.calls)
        self._channel: MessageChannel | None = None
        self._group: TaskGroup | None = None
        self._early: list[Message] = []
        """Requests that came before there was a task group to answer them."""
        self._with_progress: dict[object, CallInFlight] = {}
        self._subscriptions: dict[object, OnEvent] = {}
        self._responding: dict[object, anyio.CancelScope] = {}
        self.is_legacy: bool = False
        """True when the session began with the handshake."""
        self._open = 0
        """How many requests of the server have no response yet."""

    def begin(self, channel: MessageChannel, group: TaskGroup) -> None:
        """Answer the requests of the server over this channel, in tasks of this group."""
        self._channel, self._group = channel, group
        for message in self._early:
            group.start_soon(self._respond, channel, message, None)

    def expect_progress(self, token: object, call: CallInFlight) -> None:
        """Deliver the progress with this token to a call, until `forget`."""
        self._with_progress[token] = call

    def expect_events(self, subscription: object, on_event: OnEvent) -> None:
        """Deliver what comes for a subscription, until `forget`."""
        self._subscriptions[subscription] = on_event

    def forget(self, token: object) -> None:
        """Deliver no more progress or events with this token."""
        self._with_progress.pop(token, None)
        self._subscriptions.pop(token, None)

    def receive(
        self, message: Message, came_with: CallInFlight | None = None
    ) -> Awaitable[None] | None:
        """Take a message; ``came_with`` is its call, if the transport can tell.

        It returns a wait when many notifications wait for the client of that call.
        """
        if self.is_legacy and message.params:
            if message.method is not None and (task := related_task(message.params)) is not None:
                came_with = self.tasks.call_of(task)
            message.params = without_reserved_keys(message.params)
        try:
            if message.method is None:
                self._routing.calls.answered_late(message.number)
            elif message.id is None:
                self._take_notification(message.method, message.params or {}, came_with)
            elif self._open >= MOST_REQUESTS:
                logger.debug("request_dropped: server %r sends too many", self._server)
            elif self._channel is None or self._group is None:
                self._early.append(message)
                self._open += 1
            else:
                self._open += 1
                self._group.start_soon(self._respond, self._channel, message, came_with)
        except Exception:
            context = {"server": self._server}
            logger.exception("message_failed: server %r", self._server, extra=context)
        return None if came_with is None or not came_with.is_behind else came_with.catch_up()

    def _take_notification(
        self, method: str, params: Mapping[str, Any], came_with: CallInFlight | None
    ) -> None:
        subscription = self._subscriptions and _subscription_of(params)
        if subscription and (tell := self._subscriptions.get(subscription)) is not None:
            tell(method, params)
            return
        match method:
            case "notifications/progress":
                self._take_progress(params)
            case "notifications/message" if came_with is not UNKNOWN_TASK:
                call = self._routing.calls.note_log(params, came_with)
                if call is not None:
                    self._tell(call)
            case "notifications/cancelled":
                self._take_cancellation(method, params)
            case "notifications/resources/updated":
                self._on_changed("resource", str(params.get("uri", "")))
            case "notifications/tasks/status":
                self.tasks.note_status(params)
            case "notifications/elicitation/complete":
                self._on_changed("elicitation", str(params.get("elicitationId", "")))
            case _ if method in _CHANGES:
                self._on_changed(_CHANGES[method], "")
            case _:
                logger.debug("notification_ignored: %r of server %r", method[:100], self._server)

    def _take_progress(self, params: Mapping[str, Any]) -> None:
        token = number_of(params.get("progressToken"))
        call = self._with_progress.get(token) or self.tasks.call_with_progress(token)
        if call is not None:
            call.note_progress(params)
            self._tell(call)

    def _take_cancellation(self, method: str, params: Mapping[str, Any]) -> None:
        number: object = params.get("requestId")
        if not isinstance(number, int | str):
            return
        if (scope := self._responding.get(number)) is not None:
            scope.cancel()
        elif (tell := self._subscriptions.get(number)) is not None:
            tell(method, params)

    def _tell(self, call: CallInFlight) -> None:
        if call.is_waiting and self._group is not None:
            self._group.start_soon(call.tell)

    def in_background(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run some work in a task of the session, for as long as the session lasts."""
        if self._group is None or self._open >= MOST_REQUESTS:
            return
        self._open += 1
        try:
            self._group.start_soon(self._run, work)
        except RuntimeError:
            # The session is over.
            self._open -= 1

    async def _run(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        finally:
            self._open -= 1

    async def _respond(
        self, channel: MessageChannel, message: Message, came_with: CallInFlight | None
    ) -> None:
        response: dict[str, Any] = {"jsonrpc": "2.0", "id": message.id}
        try:
            with anyio.CancelScope() as scope:
                self._responding[message.id] = scope
                try:
                    response["result"] = await self._result_of(message, came_with)
                except ServerRpcError as error:
                    told = {"code": error.code, "message": error.message}
                    response["error"] = told if error.data is None else {**told, "data": error.data}
                finally:
                    if self._responding.get(message.id) is scope:
                        del self._responding[message.id]
            if not scope.cancelled_caught:
                with anyio.move_on_after(_SECONDS_TO_SEND):
                    await channel.send(response, {})
        except Exception as error:  # noqa: BLE001 - it must not end the session
            context = {"server": self._server, "reason": str(error)}
            logger.debug("response_not_sent: server %r: %s", self._server, error, extra=context)
        finally:
            self._open -= 1

    async def _result_of(
        self, message: Message, came_with: CallInFlight | None
    ) -> Mapping[str, Any]:
        method = message.method or ""
        if method == "ping":
            return {}
        if method not in KINDS:
            raise ServerRpcError(METHOD_NOT_FOUND, "Method not found", method)
        if came_with is UNKNOWN_TASK:
            # It must not reach the client of another call.
            raise ServerRpcError(INVALID_PARAMS, "No call of this session has that task")
        return await self._routing.respond(method, message.params or {}, came_with)


def _subscription_of(params: Mapping[str, Any]) -> object:
    meta: object = params.get("_meta")
    if not isinstance(meta, Mapping):
        return None
    found: object = cast("Mapping[str, Any]", meta).get(SUBSCRIPTION_ID)
    return found if isinstance(found, str | int) else None
