"""UpstreamServer: one server with its connection and its tools on the board."""

import logging
from collections.abc import Awaitable, Mapping
from contextvars import ContextVar
from typing import Any, cast

import anyio
import anyio.to_thread
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
from pegboard.model.names import name_matcher
from pegboard.model.naming import NameTable, OnConflict
from pegboard.policies import PolicyOptions
from pegboard.registry import Registry
from pegboard.upstream.backoff import Backoff
from pegboard.upstream.catalog_feed import CatalogFeed
from pegboard.upstream.connection import (
    Connection,
    Era,
    ListChanged,
    OnProgress,
    ServerState,
    Session,
)
from pegboard.upstream.memory import CatalogMemory, Remembered, memory_key
from pegboard.upstream.results import result_of
from pegboard.upstream.stateful import StatefulConnection, Surroundings
from pegboard.upstream.stateless import StatelessConnection

__all__ = ["Board", "ServerStatus", "UpstreamServer", "progress_of_call"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

progress_of_call: ContextVar[OnProgress | None] = ContextVar("progress_of_call", default=None)
"""Who is told how far the calls of this context have come."""

MANY_TOOLS = 200
"""So many definitions are put on the board in a thread: checking each takes a tenth of a ms."""


FIRST_NOTICE, LAST_NOTICE = 0.05, 5.0
"""Seconds between two readings of a list that keeps changing."""


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
    memory: CatalogMemory


class UpstreamServer:
    """A server whose tools can be called like any others."""

    def __init__(self, config: ServerConfig, surroundings: Surroundings, board: Board) -> None:
        self.config: ServerConfig = config
        self._nursery = surroundings.nursery
        self._memory = board.memory
        self._key = memory_key(config)
        self._known = False
        self._gone: str | None = None
        self._held = False
        self._waiting: list[dict[str, Any]] | None = None
        self._reconciled = anyio.Event()
        self._reconciled_for = 0
        self._showing = anyio.Lock()
        self._list_error: PegboardError | None = None
        self._dirty = False
        self._refreshing = False
        self._repeatable = name_matcher("idempotent", config.idempotent)
        kind = StatelessConnection if config.stateless else StatefulConnection
        self.connection: Connection = kind(
            config,
            surroundings,
            on_ready=self._reconcile,
            on_changed=self._list_changed,
            # What nobody has ever seen cannot be called, so nothing else would start it.
            tries_by_itself=lambda: not config.lazy or not self._known,
        )
        self.feed: CatalogFeed = CatalogFeed(
            config,
            registry=board.registry,
            names=board.names,
            steps=self._step,
            policies=board.policies,
            on_conflict=board.on_conflict,
        )

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

    def recall(self, remembered: Remembered) -> None:
        """Put the definitions of an earlier run on the board."""
        self.connection.recall(remembered.negotiated)
        self.feed.apply(remembered.tools, names=remembered.names, checked=True)
        # One that had no tools may have some now, and no call would ever start it.
        self._known = bool(remembered.tools)

    @property
    def is_known(self) -> bool:
        """True when its tools are on the board, from now or from memory."""
        return self._known

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
        wanted = self.connection.starts
        while self._reconciled_for < wanted and self.connection.state == ServerState.READY:
            await self._reconciled.wait()
        if self._list_error is not None:
            await self.refresh()

    async def stop(self) -> None:
        """Disconnect; the tools stay on the board, and the next call connects again."""
        if self._nursery.is_open:
            await self._nursery.end_by(self.connection.close)

    async def leave(self, reason: str) -> None:
        """Disconnect for good; whoever calls is told the reason. `feed` takes the tools away.

        Not from code that a server's question or progress has called: see `Nursery.end_by`.
        """
        self._gone = reason
        await self.connection.close()
        if self._nursery.is_open:
            # A long list may just be being put on the board, in a thread.
            async with self._showing:
                pass

    async def refresh(self) -> None:
        """List the tools anew and put them on the board.

        Raises:
            UpstreamError: when listing failed.
        """
        self._refuse_if_unusable()
        await self._nursery.at_home(self._refresh)

    async def _refresh(self) -> None:
        listed = await self.connection.list_all("tools/list") if self._has_tools() else []
        await self._show(listed)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        on_progress: OnProgress | None = None,
    ) -> dict[str, Any]:
        """Send any request of the protocol, such as ``resources/read``, and return its raw result.

        Raises:
            UpstreamError: whatever went wrong.
            ToolTimeoutError: when the answer did not come in time.
        """
        return await self._nursery.at_home(
            lambda: self._limited(method, params, method, on_progress),
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

    def set_headers(self, headers: Mapping[str, str]) -> None:
        """Send these besides the configured headers from now on, without connecting again.

        Raises:
            ConfigError: when one is not legal, or reserved, or the server is not behind HTTP.
        """
        self.connection.set_headers(headers)

    def _step(self, original: str, tool: Tool) -> Step:
        name = tool.name
        hints = tool.annotations
        repeatable = self._repeatable(original) or (
            self.config.trust_hints and bool(hints.read_only or hints.idempotent)
        )

        async def run(call: ToolCall) -> object:
            params = {"name": original, "arguments": call.arguments}
            on_progress = self._as_guest(progress_of_call.get())
            try:
                if self._nursery.is_home():
                    raw = await self._call(params, name, on_progress, repeatable=repeatable)
                else:
                    raw = await self._nursery.at_home(
                        lambda: self._call(params, name, on_progress, repeatable=repeatable),
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

    def _as_guest(self, on_progress: OnProgress | None) -> OnProgress | None:
        if on_progress is None:
            return None

        async def note(progress: float, total: float | None, message: str | None) -> None:
            async def tell() -> None:
                told = on_progress(progress, total, message)
                if isinstance(told, Awaitable):
                    await cast("Awaitable[object]", told)

            await self._nursery.as_guest(tell)

        return note

    async def _call(
        self,
        params: Mapping[str, Any],
        tool: str,
        on_progress: OnProgress | None,
        *,
        repeatable: bool,
    ) -> dict[str, Any]:
        try:
            raw = await self._limited("tools/call", params, tool, on_progress)
        except ConnectionLostError:
            # One that we stopped ourselves is not started again for it.
            if not repeatable or self.connection.state == ServerState.CLOSED:
                raise
            name = self.config.name
            context = {"server": name, "tool": tool}
            logger.info("call_repeated: %r of server %r", tool, name, extra=context)
            raw = await self._limited("tools/call", params, tool, on_progress)
        return raw

    async def _limited(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        tool: str,
        on_progress: OnProgress | None,
    ) -> dict[str, Any]:
        self._refuse_if_unusable(tool)
        # Connecting has a limit of its own, and is not the tool's fault.
        if self.connection.state != ServerState.READY:
            await self.connection.open(tool=tool)
        limit = self.config.timeouts.call
        with anyio.move_on_after(limit):
            return await self.connection.request(method, params, tool=tool, on_progress=on_progress)
        raise ToolTimeoutError(
            tool, seconds=limit, remedy=f"raise `timeouts.call` of server {self.config.name!r}"
        )

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

    def _has_tools(self) -> bool:
        said = self.connection.negotiated
        return said is None or said.era == "modern" or "tools" in said.capabilities

    async def _reconcile(self, session: Session) -> None:
        """Compare the board with what the server lists, right after it has become ready."""
        try:
            self._list_error = None
            listed = await session.list_all("tools/list") if self._has_tools() else []
            await self._show(listed)
        except PegboardError as error:
            self._list_error = error
            self.connection.blame(str(error))
            context = {"server": self.config.name, "reason": str(error)}
            logger.error("list_failed: %s", error, extra=context)  # noqa: TRY400 - says it all
            self._nursery.start_soon(self._list_again, self.connection.starts)
        finally:
            self._reconciled_for = self.connection.starts
            waiting, self._reconciled = self._reconciled, anyio.Event()
            waiting.set()

    async def _list_again(self, start: int) -> None:
        backoff = Backoff()
        while self._list_error is not None:
            backoff.failed()
            await anyio.sleep(backoff.pause)
            if self.connection.state != ServerState.READY or self.connection.starts != start:
                return
            try:
                await self.refresh()
            except PegboardError as error:
                self._list_error = error

    def hold(self) -> None:
        """Keep what is listed off the board for now, so that speed does not decide about names."""
        self._held = True

    async def release(self) -> None:
        """Put what was listed meanwhile on the board."""
        self._held = False
        listed, self._waiting = self._waiting, None
        if listed is not None:
            await self._show(listed)

    async def retry_contested(self) -> None:
        """Put tools on the board whose names have become free."""
        if self.feed.contested:
            await self.refresh()

    async def _show(self, listed: list[dict[str, Any]]) -> None:
        self._known = True
        if self._list_error is not None:
            self._list_error = None
            self.connection.blame(None)
        if self._held:
            self._waiting = listed
            return
        async with self._showing:
            if len(listed) < MANY_TOOLS:
                self.feed.apply(listed)
            else:
                await anyio.to_thread.run_sync(self.feed.apply, listed)
        said = self.connection.negotiated
        if said is not None:
            valid = tuple(raw for raw in listed if self.feed.remembers(raw))
            names = self.feed.changed_names()
            remembered = Remembered(negotiated=said, tools=valid, names=names)
            await anyio.to_thread.run_sync(self._keep, remembered)
        name, count = self.config.name, len(self.feed.tools)
        context = {"server": name, "tools": count}
        logger.info("server_ready: %r, tools: %d", name, count, extra=context)

    def _keep(self, remembered: Remembered) -> None:
        try:
            self._memory.save(self._key, remembered)
        except Exception as error:  # noqa: BLE001 - forgetting costs a start, not a failure
            context = {"server": self.config.name, "reason": str(error)}
            logger.warning("memory_not_saved: %r: %s", self.config.name, error, extra=context)

    def _list_changed(self, kind: ListChanged) -> None:
        if kind != "tools":
            return
        # However many notices arrive while the list is being read, it is read once more.
        self._dirty = True
        if not self._refreshing:
            self._refreshing = True
            self._nursery.start_soon(self._refresh_until_clean)

    async def _refresh_until_clean(self) -> None:
        pause = FIRST_NOTICE
        try:
            # Only over the session that told: a notice is no reason to connect.
            while self._dirty and self.connection.state == ServerState.READY:
                self._dirty = False
                try:
                    await self._refresh()
                except PegboardError as error:
                    context = {"server": self.config.name, "reason": str(error)}
                    logger.warning("refresh_failed: %s", error, extra=context)
                # A server that says so after every list would be listed for ever.
                await anyio.sleep(pause)
                pause = min(pause * 2, LAST_NOTICE)
        finally:
            self._refreshing = False
