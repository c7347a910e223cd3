"""UpstreamServer: one MCP server with its connection, its calls and its tools on the board."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import anyio
import msgspec

from pegboard.config import ServerConfig
from pegboard.errors import (
    NotConnectedError,
    PegboardError,
    ProtocolError,
)
from pegboard.model import Step, Tool, ToolCall, ToolResult
from pegboard.model.call import Phases
from pegboard.model.result import result_of
from pegboard.model.task import ServerTask
from pegboard.model.tool_names import NameTable, OnConflict, name_matcher
from pegboard.policies import PolicyOptions
from pegboard.policies.fair_share import LimitUse
from pegboard.policies.retry import is_idempotent
from pegboard.registry import Registry
from pegboard.upstream.call_context import CallContext, OnProgress, taken_context
from pegboard.upstream.catalog.cache import CachedCatalog, CatalogCache
from pegboard.upstream.catalog.feed import CatalogFeed
from pegboard.upstream.catalog.listing import ToolListing
from pegboard.upstream.catalog.offline_catalog import catalog_key
from pegboard.upstream.connection import (
    Changed,
    ConnectionCallbacks,
    ConnectionDeps,
    Questions,
    Request,
    ServerState,
    Session,
    WatchedResources,
)
from pegboard.upstream.connections.delivery import deliver, deliver_list
from pegboard.upstream.connections.per_client import IDLE, ClientConnections
from pegboard.upstream.connections.stateful import StatefulConnection
from pegboard.upstream.connections.stateless import StatelessConnection
from pegboard.upstream.events import (
    ElicitationCompleted,
    PromptsChanged,
    ResourcesChanged,
    ResourceUpdated,
    ServerDown,
    ServerUp,
)
from pegboard.upstream.server_status import ServerStatus, status_of
from pegboard.upstream.session.subscriptions import ResourceSubscriptions
from pegboard.upstream.tasks.server_tasks import ServerTasks

__all__ = ["Board", "UpstreamServer"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """The registry that servers put their tools in, and how these are named and cached."""

    registry: Registry
    names: NameTable
    on_conflict: OnConflict
    policies: PolicyOptions
    catalog_cache: CatalogCache


class UpstreamServer:
    """A server whose tools can be called like local ones."""

    def __init__(
        self,
        config: ServerConfig,
        deps: ConnectionDeps,
        board: Board,
        *,
        watched: WatchedResources,
    ) -> None:
        self.config: ServerConfig = config
        self.watched: WatchedResources = watched
        """The subscribed resources, also those of the server that this one replaced."""
        self._deps = deps
        self._owner_loop = deps.owner_loop
        self.answering: Questions | None = deps.questions if deps.questions.are_answered else None
        """The handlers of the application, which answer for calls that bring none; or ``None``."""
        self._key = catalog_key(config)
        self._gone: str | None = None
        self._is_up = False
        self._idempotent = name_matcher("idempotent", config.idempotent)
        self._remedy = f"raise `timeouts.call` of server {config.name!r}"
        self._subscriptions = ResourceSubscriptions(
            config,
            lambda: self.connection,
            watched=watched,
            on_updated=lambda uri: self._changed("resource", uri),
        )
        self._runtime_headers: Mapping[str, str] = {}
        self.feed: CatalogFeed = CatalogFeed(
            config,
            registry=board.registry,
            names=board.names,
            steps=self._step,
            policies=board.policies,
            on_conflict=board.on_conflict,
        )
        self.listing: ToolListing = ToolListing(
            config.name,
            self.feed,
            keep=(board.catalog_cache, self._key),
            owner_loop=self._owner_loop,
            connection=lambda: self.connection,
            announce=deps.announce,
        )
        kind = StatelessConnection if config.stateless else StatefulConnection
        self.connection: StatefulConnection = kind(
            config,
            deps,
            ConnectionCallbacks(
                on_ready=self._greet,
                on_changed=self._changed,
                on_state=self._turned_to,
                tries_by_itself=self._tries_by_itself,
                watched=watched,
            ),
        )
        self._of_clients = ClientConnections(config.name, self._connection_for)
        self._tasks = ServerTasks(config, deps.owner_loop, deps.questions)

    @property
    def key(self) -> str:
        """The key of its definitions in the catalog cache."""
        return self._key

    @property
    def status(self) -> ServerStatus:
        """The present status of the server."""
        return status_of(self.config, self.connection, self.feed)

    def limits(self) -> list[LimitUse]:
        """Return how many clients have a connection of their own, if they do not share one."""
        return [] if self.config.sharing == "shared" else [self._of_clients.shares.use()]

    def use_cached(self, cached: CachedCatalog) -> None:
        """Put the cached definitions of an earlier run on the board."""
        self.connection.use_cached(cached.negotiated)
        self.listing.use_cached(cached)

    def take_place_of(self, other: "UpstreamServer") -> None:
        """Show the tools of another server until this one lists its own; calls wait for this one.

        `give_back` takes the tools off the board that this server has not listed by then.
        """
        self.listing.borrow(other.feed)

    async def shown(self) -> None:
        """Wait for a long list that a thread may just be putting on the board."""
        await self.listing.shown()

    def give_back(self) -> None:
        """Take the tools of the replaced server off the board."""
        self.listing.give_back()

    @property
    def is_known(self) -> bool:
        """True when its tools are on the board, listed or from the cache."""
        return self.listing.is_known

    async def start(self) -> None:
        """Connect and put the tools on the board.

        Raises:
            UpstreamError: when connecting or listing failed.
        """
        self._refuse_if_unusable()
        await self._owner_loop.run(self._start)

    async def _start(self) -> None:
        await self.connection.open()
        # The cache may be out of date: wait for what this session lists.
        await self.listing.reconciled()
        if self.listing.error is not None:
            await self.refresh()

    async def stop(self) -> None:
        """Disconnect; the tools stay on the board, and the next call connects again."""
        if self._owner_loop.is_open:
            await self._owner_loop.run_shutdown(self._disconnect)

    async def leave(self, reason: str) -> None:
        """Disconnect for good; later calls fail with the reason. `feed` removes the tools.

        Do not call it from a callback of a running call: see `OwnerLoop.run_shutdown`.
        """
        self._gone = reason
        await self._disconnect()
        if self._owner_loop.is_open:
            await self.listing.shown()

    async def _disconnect(self) -> None:
        await self._of_clients.close()
        await self.connection.close()

    async def forget_client(self, client: str) -> None:
        """Close the connection of one client, if clients do not share one."""
        if self._owner_loop.is_open:
            await self._owner_loop.run_shutdown(lambda: self._of_clients.forget(client))

    async def roots_changed(self, client: str) -> None:
        """Notify the server over a client's own connection that the client's roots have changed.

        A failure is logged.
        """
        own = self._of_clients.get(client)
        if own is None:
            return
        try:
            with anyio.fail_after(self.config.timeouts.call):
                await self._owner_loop.run(lambda: own.notify("notifications/roots/list_changed"))
        except (PegboardError, TimeoutError) as error:
            name, reason = self.config.name, str(error) or "The server does not respond."
            logged = {"server": name, "reason": reason}
            logger.warning("roots_not_told: server %r: %s", name, reason, extra=logged)

    async def refresh(self) -> None:
        """List the tools again and put them on the board.

        Raises:
            UpstreamError: when listing failed.
        """
        self._refuse_if_unusable()
        await self._owner_loop.run(self.listing.refresh)

    def hold(self) -> None:
        """Keep listed tools off the board for now, so that speed does not decide about names."""
        self.listing.hold()

    async def release(self) -> None:
        """Put the tools on the board that were listed meanwhile."""
        await self.listing.release()

    async def retry_contested(self) -> None:
        """List again if names that tools of this server want may have become free."""
        if self.feed.may_gain():
            await self.refresh()

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        on_progress: OnProgress | None = None,
    ) -> dict[str, Any]:
        """Send any request of the protocol, such as ``resources/read``, and return its raw result.

        The request carries what `context_of_call` holds.

        Raises:
            UpstreamError: when the request failed.
            ToolTimeoutError: when the response did not come in time.
        """
        self._refuse_if_unusable(method)
        with taken_context(self._owner_loop, on_progress=on_progress) as context:
            request = self._request(method, params, method, context)
            return await self._owner_loop.run(
                lambda: self._deliver(request), tool=method, limit=request.limit
            )

    async def list_all(self, method: str) -> list[dict[str, Any]]:
        """Return the items of all pages of a list, such as ``resources/list``.

        Raises:
            UpstreamError: when the request failed.
        """
        self._refuse_if_unusable()
        return await self._owner_loop.run(lambda: deliver_list(self.connection, method))

    async def resume_task(
        self, task: ServerTask, tool: str, context: CallContext | None = None
    ) -> ToolResult:
        """Return the result of a task that the server made of an earlier call of a tool.

        Raises:
            TaskError: when the task was lost or cancelled, or does not end.
            UpstreamError: when it failed, or the server cannot be reached.
        """
        self._refuse_if_unusable(tool)
        loop = self._owner_loop
        with taken_context(loop) as taken:
            its_context = taken if context is None else context.with_callbacks_on(loop)
            raw = await loop.run(lambda: self._resume(task, tool, its_context), tool=tool)
        return self._read(raw, tool)

    async def _resume(
        self, task: ServerTask, tool: str, context: CallContext | None
    ) -> dict[str, Any]:
        questions = (context and context.questions) or self.answering
        if context is None or self._is_shared(context):
            return await self._tasks.resumed(
                self.connection, task, tool=tool, context=context, questions=questions
            )
        async with self._of_clients.of(context) as own:
            return await self._tasks.resumed(
                own, task, tool=tool, context=context, questions=questions
            )

    async def cancel_task(self, task: ServerTask) -> None:
        """Ask the server to cancel a task. It takes a few seconds at most, and never fails."""
        if self._gone is None and self.config.enabled and self._owner_loop.is_open:
            with suppress(PegboardError):
                await self._owner_loop.run(lambda: self._tasks.cancel(self.connection, task))

    def definition(self, tool: str) -> dict[str, Any] | None:
        """Return a tool as the server defines it, by its original name; ``None`` if not shown."""
        return self.feed.definition(tool)

    async def subscribe(self, uri: str) -> None:
        """Let the hub report changes of a resource, until it is unsubscribed as often.

        The subscription survives reconnects, and changes of the server's entry.

        Raises:
            UpstreamError: when the server cannot be reached, or refuses.
        """
        self._refuse_if_unusable()
        await self._owner_loop.run(lambda: self._subscriptions.subscribe(uri))

    async def unsubscribe(self, uri: str) -> None:
        """Undo one `subscribe`."""
        if self._owner_loop.is_open:
            await self._owner_loop.run(lambda: self._subscriptions.unsubscribe(uri))

    def set_headers(self, headers: Mapping[str, str]) -> None:
        """Send these besides the configured headers from now on, without reconnecting.

        Raises:
            ConfigError: when a header is invalid or reserved, or the server does not use HTTP.
        """
        self.connection.set_headers(headers)
        self._runtime_headers = headers
        for connection in self._of_clients.all():
            connection.set_headers(headers)

    def _step(self, original: str, tool: Tool) -> Step:
        name = tool.name
        idempotent = is_idempotent(
            tool, self._idempotent, name=original, trust=self.config.trust_hints
        )
        loop = self._owner_loop

        async def run(call: ToolCall) -> object:
            params: Mapping[str, Any] = {"name": original, "arguments": call.arguments}
            try:
                self._refuse_if_unusable(name)
                with taken_context(loop) as context:
                    if original in self.feed.task_support:
                        params = self._as_task(original, params, context)
                    request = self._request(
                        "tools/call", params, name, context, idempotent, call.phases
                    )
                    if not loop.is_current():
                        raw = await loop.run(
                            lambda: self._deliver(request), tool=name, limit=request.limit
                        )
                    elif self._is_shared(context):
                        raw = await deliver(self.connection, request)
                        if "content" not in raw:
                            raw = await self._tasks.result_of(self.connection, request, raw)
                    else:
                        raw = await self._deliver(request)
            except PegboardError as error:
                if error.sent:
                    call.started()
                raise
            except BaseException:
                call.started()
                raise
            call.started()
            return self._read(raw, name)

        return run

    def _as_task(
        self, original: str, params: Mapping[str, Any], context: CallContext | None
    ) -> Mapping[str, Any]:
        support = self.feed.task_support[original]
        return self._tasks.asked_for(params, support, self.connection.negotiated, context)

    def _request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        tool: str,
        context: CallContext | None,
        idempotent: bool = False,  # noqa: FBT001, FBT002 - on the way of every call
        phases: Phases | None = None,
    ) -> Request:
        return Request(
            method=method,
            params=params,
            tool=tool,
            context=context,
            questions=(context and context.questions) or self.answering,
            limit=self.config.timeouts.call,
            remedy=self._remedy,
            idempotent=idempotent,
            phases=phases,
        )

    def _is_shared(self, context: CallContext | None) -> bool:
        return context is None or not context.client or self.config.sharing == "shared"

    async def _deliver(self, request: Request) -> dict[str, Any]:
        """Send a request over the connection of its client, or over the shared one."""
        context = request.context
        if context is None or self._is_shared(context):
            raw = await deliver(self.connection, request)
            if request.method == "tools/call" and "content" not in raw:
                raw = await self._tasks.result_of(self.connection, request, raw)
            return raw
        async with self._of_clients.of(context) as own:
            raw = await deliver(own, request)
            if request.method == "tools/call" and "content" not in raw:
                raw = await self._tasks.result_of(own, request, raw)
            return raw

    def _connection_for(self, context: CallContext) -> StatefulConnection:
        """Make the connection of one client, where clients do not share one."""
        timeouts = self.config.timeouts
        if timeouts.idle is None:
            timeouts = msgspec.structs.replace(timeouts, idle=IDLE)
        deps = self._deps
        if context.capabilities is not None:
            asked = deps.questions
            able = frozenset(kind for kind in asked.of_calls if kind in context.capabilities)
            questions = msgspec.structs.replace(asked, of_calls=able)
            deps = msgspec.structs.replace(deps, questions=questions)
        kind = StatelessConnection if self.config.stateless else StatefulConnection
        own = kind(
            msgspec.structs.replace(self.config, timeouts=timeouts), deps, ConnectionCallbacks()
        )
        if self.connection.negotiated is not None:
            own.use_cached(self.connection.negotiated)
        if self._runtime_headers:
            own.set_headers(self._runtime_headers)
        return own

    def _refuse_if_unusable(self, tool: str = "") -> None:
        reason = self._gone if self.config.enabled else "is disabled in the configuration"
        if reason is not None:
            raise NotConnectedError(
                f"Server {self.config.name!r} {reason}.",
                server=self.config.name,
                tool=tool,
            )

    def _read(self, raw: dict[str, Any], tool: str) -> ToolResult:
        try:
            return result_of(raw)
        except (TypeError, ValueError) as error:
            raise ProtocolError(
                f"Server {self.config.name!r} returned a result that cannot be read: "
                f"{self.config.redact(str(error))}",
                server=self.config.name,
                tool=tool,
            ) from error

    async def _greet(self, session: Session) -> None:
        await self.listing.reconcile(session)
        await self._subscriptions.renew(session)

    def _changed(self, what: Changed, uri: str) -> None:
        name = self.config.name
        match what:
            case "tools":
                self.listing.changed()
            case "resources":
                self._deps.announce(ResourcesChanged(name))
            case "prompts":
                self._deps.announce(PromptsChanged(name))
            case "resource":
                self._deps.announce(ResourceUpdated(name, uri))
            case "elicitation":
                self._deps.announce(ElicitationCompleted(name, uri))

    def _turned_to(self, state: ServerState) -> None:
        is_up = state == ServerState.READY
        if is_up != self._is_up:
            self._is_up = is_up
            name = self.config.name
            self._deps.announce(ServerUp(name) if is_up else ServerDown(name))

    def _tries_by_itself(self) -> bool:
        # Tools that were never listed cannot be called, so no call would start the server.
        return not self.config.lazy or not self.is_known or bool(self.watched.uris)
