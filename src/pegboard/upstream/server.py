"""UpstreamServer: one server with its connection and its tools on the board."""

import logging
from collections.abc import Mapping
from typing import Any

import anyio
import msgspec

from pegboard.config import ServerConfig
from pegboard.errors import (
    ConnectionLostError,
    NotConnectedError,
    PegboardError,
    ProtocolError,
    ToolTimeoutError,
)
from pegboard.model import Step, Tool, ToolCall, ToolResult
from pegboard.model.tool_names import NameTable, OnConflict, name_matcher
from pegboard.policies import PolicyOptions
from pegboard.registry import Registry
from pegboard.upstream.call_context import CallContext, OnProgress, taken_context
from pegboard.upstream.catalog.cache import CachedCatalog, CatalogCache
from pegboard.upstream.catalog.cached_tools import catalog_key
from pegboard.upstream.catalog.feed import CatalogFeed
from pegboard.upstream.catalog.listing import ToolListing
from pegboard.upstream.connection import (
    Changed,
    Connection,
    ConnectionCallbacks,
    Era,
    ServerState,
    Session,
    WatchedResources,
)
from pegboard.upstream.connections.per_client import IDLE, ClientConnections
from pegboard.upstream.connections.stateful import ConnectionDeps, StatefulConnection
from pegboard.upstream.connections.stateless import StatelessConnection
from pegboard.upstream.events import (
    ElicitationCompleted,
    PromptsChanged,
    ResourcesChanged,
    ResourceUpdated,
    ServerDown,
    ServerUp,
)
from pegboard.upstream.messages.tool_result import result_of
from pegboard.upstream.server_requests import Clock
from pegboard.upstream.session.subscriptions import ResourceSubscriptions

__all__ = ["Board", "ServerStatus", "UpstreamServer"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")


class ServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a server is, at one moment; nothing in it is secret."""

    name: str
    state: ServerState
    transport: str
    target: str
    era: Era | None = None
    """``None`` until the server was asked."""
    protocol_version: str | None = None
    server_version: str | None = None
    tool_count: int = 0
    left_out: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """Tools that cannot be used, and why."""
    warnings: tuple[str, ...] = ()
    """What a person should look at, such as a pattern of ``allow`` that no tool matches."""
    last_error: str | None = None
    startup_seconds: float | None = None
    starts: int = 0
    instructions: str | None = None


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """Where tools go, and under which names."""

    registry: Registry
    names: NameTable
    on_conflict: OnConflict
    policies: PolicyOptions
    catalog_cache: CatalogCache


class UpstreamServer:
    """A server whose tools can be called like any others."""

    def __init__(
        self,
        config: ServerConfig,
        surroundings: ConnectionDeps,
        board: Board,
        *,
        watched: WatchedResources,
    ) -> None:
        self.config: ServerConfig = config
        self.watched: WatchedResources = watched
        """The resources that somebody subscribed to, here or at the server before this one."""
        self._around = surroundings
        self._nursery = surroundings.nursery
        self._answering = surroundings.questions if surroundings.questions.are_answered else None
        self._key = catalog_key(config)
        self._gone: str | None = None
        self._is_up = False
        self._repeatable = name_matcher("idempotent", config.idempotent)
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
        self._listing = ToolListing(
            config.name,
            self.feed,
            keep=(board.catalog_cache, self._key),
            nursery=self._nursery,
            connection=lambda: self.connection,
        )
        kind = StatelessConnection if config.stateless else StatefulConnection
        self.connection: Connection = kind(
            config,
            surroundings,
            ConnectionCallbacks(
                on_ready=self._greet,
                on_changed=self._changed,
                on_state=self._turned_to,
                tries_by_itself=self._tries_by_itself,
                watched=watched,
            ),
        )
        self._of_clients = ClientConnections(config.name, self._connection_for)

    @property
    def key(self) -> str:
        """Under which its definitions are remembered."""
        return self._key

    @property
    def status(self) -> ServerStatus:
        """How the server is now."""
        connection = self.connection
        said = connection.negotiated
        return ServerStatus(
            name=self.config.name,
            state=connection.state if self.config.enabled else ServerState.DISABLED,
            transport=self.config.transport,
            target=self.config.target,
            era=said.era if said else None,
            protocol_version=said.version if said else None,
            server_version=(said.server_version or None) if said else None,
            tool_count=self.feed.on_board(),
            left_out=self.feed.missing(),
            warnings=self.feed.warnings,
            last_error=connection.last_error,
            startup_seconds=connection.startup_seconds,
            starts=connection.starts,
            instructions=(said.instructions or None) if said else None,
        )

    def read_cached_tools(self, remembered: CachedCatalog) -> None:
        """Put the definitions of an earlier run on the board."""
        self.connection.read_cached_tools(remembered.negotiated)
        self._listing.read_cached_tools(remembered)

    def take_place_of(self, other: "UpstreamServer") -> None:
        """Show the tools of another server until this one lists its own; calls of them wait for it.

        What is not listed by the time that `give_back` is called comes off the board.
        """
        self._listing.borrow(other.feed)

    async def shown(self) -> None:
        """Wait for a long list that may just be being put on the board."""
        await self._listing.shown()

    def give_back(self) -> None:
        """Show nothing any more of a server whose place this one took."""
        self._listing.give_back()

    @property
    def is_known(self) -> bool:
        """True when its tools are on the board, from now or from memory."""
        return self._listing.is_known

    async def start(self) -> None:
        """Connect and put the tools on the board.

        Raises:
            UpstreamError: when connecting or listing failed.
        """
        self._refuse_if_unusable()
        await self._nursery.at_home(self._start)

    async def _start(self) -> None:
        await self.connection.open()
        # What is remembered may be out of date: wait for what this session lists.
        await self._listing.reconciled()
        if self._listing.error is not None:
            await self.refresh()

    async def stop(self) -> None:
        """Disconnect; the tools stay on the board, and the next call connects again."""
        if self._nursery.is_open:
            await self._nursery.end_by(self._disconnect)

    async def leave(self, reason: str) -> None:
        """Disconnect for good; whoever calls is told the reason. `feed` takes the tools away.

        Not from code that a server's question or progress has called: see `OwnerLoop.end_by`.
        """
        self._gone = reason
        await self._disconnect()
        if self._nursery.is_open:
            await self._listing.shown()

    async def _disconnect(self) -> None:
        await self._of_clients.close()
        await self.connection.close()

    async def forget_client(self, client: str) -> None:
        """End the connection that a client has for itself, if clients do not share one."""
        if self._nursery.is_open:
            await self._nursery.end_by(lambda: self._of_clients.forget(client))

    async def roots_changed(self, client: str) -> None:
        """Tell the server over a client's own connection that the client's roots have changed.

        If it cannot be told, that is logged.
        """
        own = self._of_clients.get(client)
        if own is None:
            return
        try:
            with anyio.fail_after(self.config.timeouts.call):
                await self._nursery.at_home(lambda: own.notify("notifications/roots/list_changed"))
        except (PegboardError, TimeoutError) as error:
            name, reason = self.config.name, str(error) or "It does not listen."
            logged = {"server": name, "reason": reason}
            logger.warning("roots_not_told: server %r: %s", name, reason, extra=logged)

    async def refresh(self) -> None:
        """List the tools anew and put them on the board.

        Raises:
            UpstreamError: when listing failed.
        """
        self._refuse_if_unusable()
        await self._nursery.at_home(self._listing.refresh)

    def hold(self) -> None:
        """Keep what is listed off the board for now, so that speed does not decide about names."""
        self._listing.hold()

    async def release(self) -> None:
        """Put what was listed meanwhile on the board."""
        await self._listing.release()

    async def retry_contested(self) -> None:
        """Put tools on the board whose names have become free."""
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

        What `context_of_call` says is brought along.

        Raises:
            UpstreamError: whatever went wrong.
            ToolTimeoutError: when the answer did not come in time.
        """
        with taken_context(self._nursery, on_progress=on_progress) as context:
            return await self._nursery.at_home(
                lambda: self._limited(method, params, method, context),
                tool=method,
                limit=self.config.timeouts.call,
            )

    async def list_all(self, method: str) -> list[dict[str, Any]]:
        """Return the items of all pages of a list, such as ``resources/list``.

        Raises:
            UpstreamError: whatever went wrong.
        """
        self._refuse_if_unusable()
        return await self._nursery.at_home(lambda: self.connection.list_all(method))

    def definition(self, tool: str) -> dict[str, Any] | None:
        """Return a tool as the server defines it, by its original name; ``None`` if not shown."""
        return self.feed.definition(tool)

    async def subscribe(self, uri: str) -> None:
        """Have the hub tell when a resource changes, until it is unsubscribed as often.

        It lasts, whatever becomes of the connection, and if the server's entry changes.

        Raises:
            UpstreamError: when the server cannot be asked, or does not agree.
        """
        self._refuse_if_unusable()
        await self._nursery.at_home(lambda: self._subscriptions.subscribe(uri))

    async def unsubscribe(self, uri: str) -> None:
        """Take back one `subscribe`."""
        if self._nursery.is_open:
            await self._nursery.at_home(lambda: self._subscriptions.unsubscribe(uri))

    def set_headers(self, headers: Mapping[str, str]) -> None:
        """Send these besides the configured headers from now on, without connecting again.

        Raises:
            ConfigError: when one is not legal, or reserved, or the server is not behind HTTP.
        """
        self.connection.set_headers(headers)
        self._runtime_headers = headers
        for connection in self._of_clients.all():
            connection.set_headers(headers)

    def _step(self, original: str, tool: Tool) -> Step:
        name = tool.name
        hints = tool.annotations
        repeatable = self._repeatable(original) or (
            self.config.trust_hints and bool(hints.read_only or hints.idempotent)
        )

        async def run(call: ToolCall) -> object:
            params = {"name": original, "arguments": call.arguments}
            try:
                with taken_context(self._nursery) as context:
                    if self._nursery.is_home():
                        raw = await self._call(params, name, context, repeatable=repeatable)
                    else:
                        raw = await self._nursery.at_home(
                            lambda: self._call(params, name, context, repeatable=repeatable),
                            tool=name,
                            limit=self.config.timeouts.call,
                        )
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

    async def _call(
        self,
        params: Mapping[str, Any],
        tool: str,
        context: CallContext | None,
        *,
        repeatable: bool,
    ) -> dict[str, Any]:
        try:
            raw = await self._limited("tools/call", params, tool, context)
        except ConnectionLostError:
            # One that we stopped ourselves is not started again for it.
            if not repeatable or self.connection.state == ServerState.CLOSED:
                raise
            name = self.config.name
            logged = {"server": name, "tool": tool}
            logger.info("call_repeated: %r of server %r", tool, name, extra=logged)
            raw = await self._limited("tools/call", params, tool, context)
        return raw

    async def _limited(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        tool: str,
        context: CallContext | None,
    ) -> dict[str, Any]:
        self._refuse_if_unusable(tool)
        if context is None or not context.client or self.config.sharing == "shared":
            return await self._ask(self.connection, method, params, tool=tool, context=context)
        async with self._of_clients.of(context) as own:
            return await self._ask(own, method, params, tool=tool, context=context)

    async def _ask(
        self,
        connection: Connection,
        method: str,
        params: Mapping[str, Any] | None,
        *,
        tool: str,
        context: CallContext | None,
    ) -> dict[str, Any]:
        # Connecting has a limit of its own, and is not the tool's fault.
        if connection.state != ServerState.READY:
            await connection.open(tool=tool)
        limit = self.config.timeouts.call
        with anyio.move_on_after(limit) as scope:
            questions = (context and context.questions) or self._answering
            if questions is None:
                return await connection.request(method, params, tool=tool, context=context)
            # A person's time is not the server's; whoever brings a question limits it.
            context = msgspec.structs.replace(
                context or CallContext(), questions=questions.stopping(Clock(scope))
            )
            return await connection.request(method, params, tool=tool, context=context)
        raise ToolTimeoutError(
            tool, seconds=limit, remedy=f"raise `timeouts.call` of server {self.config.name!r}"
        )

    def _connection_for(self, context: CallContext) -> Connection:
        """Make the connection of a client that does not share the one of all others."""
        timeouts = self.config.timeouts
        if timeouts.idle is None:
            timeouts = msgspec.structs.replace(timeouts, idle=IDLE)
        around = self._around
        if context.capabilities is not None:
            asked = around.questions
            able = frozenset(kind for kind in asked.of_calls if kind in context.capabilities)
            questions = msgspec.structs.replace(asked, of_calls=able)
            around = msgspec.structs.replace(around, questions=questions)
        kind = StatelessConnection if self.config.stateless else StatefulConnection
        own: Connection = kind(
            msgspec.structs.replace(self.config, timeouts=timeouts), around, ConnectionCallbacks()
        )
        if self.connection.negotiated is not None:
            own.read_cached_tools(self.connection.negotiated)
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
                f"Server {self.config.name!r} gave a result that cannot be read: "
                f"{self.config.redact(str(error))}",
                server=self.config.name,
                tool=tool,
            ) from error

    async def _greet(self, session: Session) -> None:
        await self._listing.reconcile(session)
        await self._subscriptions.renew(session)

    def _changed(self, what: Changed, uri: str) -> None:
        name = self.config.name
        match what:
            case "tools":
                self._listing.changed()
            case "resources":
                self._around.announce(ResourcesChanged(name))
            case "prompts":
                self._around.announce(PromptsChanged(name))
            case "resource":
                self._around.announce(ResourceUpdated(name, uri))
            case "elicitation":
                self._around.announce(ElicitationCompleted(name, uri))

    def _turned_to(self, state: ServerState) -> None:
        is_up = state == ServerState.READY
        if is_up != self._is_up:
            self._is_up = is_up
            name = self.config.name
            self._around.announce(ServerUp(name) if is_up else ServerDown(name))

    def _tries_by_itself(self) -> bool:
        # What nobody has ever seen cannot be called, so nothing else would start it.
        return not self.config.lazy or not self.is_known or bool(self.watched.uris)
