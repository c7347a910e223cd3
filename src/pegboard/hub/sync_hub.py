"""SyncHub: a hub for synchronous programs, without an event loop of their own."""

from collections.abc import Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Protocol, Self, Unpack

from pegboard.config import LoadedConfig, ServerConfig
from pegboard.hub.tool_mapping import HubTool, SyncHubTool, ToolMapping
from pegboard.model import Tool, ToolResult
from pegboard.registry import Registry
from pegboard.registry.background_loop import run_in_background
from pegboard.search import SearchOptions, SearchResponse
from pegboard.toolsets import Selection, Toolset
from pegboard.upstream import OnProgress, ServerStatus, UpstreamServer

__all__ = ["SyncHub", "SyncServer"]


class SyncServer:
    """An `UpstreamServer` for synchronous programs: each method waits until it is done."""

    def __init__(self, server: UpstreamServer) -> None:
        self._server = server

    def __repr__(self) -> str:
        return f"<SyncServer {self.config.name!r}>"

    @property
    def config(self) -> ServerConfig:
        """The configuration of the server."""
        return self._server.config

    @property
    def status(self) -> ServerStatus:
        """The present status of the server."""
        return self._server.status

    def start(self) -> None:
        """Connect and put the tools on the board.

        Raises:
            UpstreamError: when connecting or listing failed.
        """
        run_in_background(self._server.start, tool="")

    def stop(self) -> None:
        """Disconnect; the tools stay on the board, and the next call connects again."""
        run_in_background(self._server.stop, tool="")

    def refresh(self) -> None:
        """List the tools again and put them on the board.

        Raises:
            UpstreamError: when listing failed.
        """
        run_in_background(self._server.refresh, tool="")

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        on_progress: OnProgress | None = None,
    ) -> dict[str, Any]:
        """Send any request of the protocol, such as ``resources/read``, and return its raw result.

        Raises:
            UpstreamError: when the request failed.
            ToolTimeoutError: when the response did not come in time.
        """
        return run_in_background(
            lambda: self._server.request(method, params, on_progress=on_progress), tool=method
        )

    def list_all(self, method: str) -> list[dict[str, Any]]:
        """Return the items of all pages of a list, such as ``resources/list``.

        Raises:
            UpstreamError: when the request failed.
        """
        return run_in_background(lambda: self._server.list_all(method), tool=method)

    def set_headers(self, headers: Mapping[str, str]) -> None:
        """Send these besides the configured headers from now on, without reconnecting.

        Raises:
            ConfigError: when a header is invalid or reserved, or the server does not use HTTP.
        """

        async def set_at_home() -> None:
            self._server.set_headers(headers)

        run_in_background(set_at_home, tool="")


class SyncHub:
    """A hub for synchronous programs, which runs on the background loop of Pegboard.

    `Hub.open_sync` makes one. It has the methods of a `Hub`; each waits until it is done.
    """

    def __init__(self, hub: "_Hub") -> None:
        self._hub = hub

    def __repr__(self) -> str:
        return repr(self._hub)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def registry(self) -> Registry:
        """The board with all tools."""
        return self._hub.registry

    @property
    def loaded(self) -> LoadedConfig:
        """The file that was read, and the problems in it."""
        return self._hub.loaded

    @property
    def servers(self) -> dict[str, ServerStatus]:
        """The present status of each server, by name."""
        return self._hub.servers

    def server(self, name: str) -> SyncServer:
        """Return one server, to start, stop or refresh it, or to send it other requests.

        Raises:
            ServerNotFoundError: when there is none of that name.
        """
        return SyncServer(self._hub.server(name))

    def origin(self, tool: str) -> tuple[str, str]:
        """Return the server of a tool, and the name of the tool on that server.

        Raises:
            ToolNotFoundError: when no server has such a tool.
        """
        return self._hub.origin(tool)

    def start(self) -> None:
        """Read the configuration and start the servers that need it.

        Raises:
            ConfigError: when the file cannot be used at all, or with ``strict``.
            ToolConflictError: when two tools want one name, with ``on_conflict="raise"``.
        """
        run_in_background(self._hub.start, tool="")

    def close(self) -> None:
        """Stop all servers; any number of times."""
        run_in_background(self._hub.close, tool="")

    def reload(self) -> None:
        """Read the configuration again: new servers are started, missing ones stopped.

        Raises:
            ConfigError: when the file cannot be used; then nothing changes.
            NotConnectedError: when the hub is not open.
        """
        run_in_background(self._hub.reload, tool="")

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        meta: Mapping[str, Any] | None = None,
        on_progress: OnProgress | None = None,
    ) -> ToolResult:
        """Call a tool and wait for its result.

        Raises:
            ToolNotFoundError: when there is no such tool.
            CallRefusedError: when a policy refuses the call.
            ToolTimeoutError: when it took too long.
            UpstreamError: when its server failed.
        """
        return run_in_background(
            lambda: self._hub.call(name, arguments, meta=meta, on_progress=on_progress), tool=name
        )

    @property
    def tools(self) -> ToolMapping[SyncHubTool]:
        """The visible tools by name: ``hub.tools[name](**arguments)`` is `call`."""
        return self._hub.tools.of(lambda tool: SyncHubTool(tool, self.call))

    def request(
        self, server: str, method: str, params: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Send a server any request of the protocol, and return its raw result.

        Raises:
            ServerNotFoundError: when there is no such server.
            UpstreamError: when the request failed.
        """
        return self.server(server).request(method, params)

    def search(
        self,
        text: str,
        *,
        where: Callable[[Tool], bool] | None = None,
        **options: Unpack[SearchOptions],
    ) -> SearchResponse:
        """Return what `Registry.search` returns.

        Raises:
            InvalidQueryError: when the query is invalid; see `SearchOptions`.
        """
        return self.registry.search(text, where=where, **options)

    def search_many(
        self,
        texts: Iterable[str],
        *,
        where: Callable[[Tool], bool] | None = None,
        **options: Unpack[SearchOptions],
    ) -> list[SearchResponse]:
        """Search for many texts at once.

        Raises:
            InvalidQueryError: when one of the queries is invalid.
        """
        return self.registry.search_many(texts, where=where, **options)

    def render(self, name: str, result: ToolResult) -> str:
        """Return a result as text for a model, truncated with a mark at its server's limit.

        Raises:
            ToolNotFoundError: when there is no such tool.
        """
        return self._hub.render(name, result)

    def toolset(self, **selection: Unpack[Selection]) -> Toolset:
        """Return a selected view of the tools; use its `call_sync` and `sync_functions`.

        Raises:
            ServerNotFoundError: when the selection names an unknown server.
        """
        return self._hub.toolset(**selection)


class _Hub(Protocol):
    """The methods of a `Hub` that are used here; `Hub` itself imports this module."""

    registry: Registry
    loaded: LoadedConfig

    @property
    def servers(self) -> dict[str, ServerStatus]: ...

    @property
    def tools(self) -> ToolMapping[HubTool]: ...

    def server(self, name: str) -> UpstreamServer: ...

    def origin(self, tool: str) -> tuple[str, str]: ...

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def reload(self) -> None: ...

    async def call(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        meta: Mapping[str, Any] | None = None,
        on_progress: OnProgress | None = None,
    ) -> ToolResult: ...

    def render(self, name: str, result: ToolResult) -> str: ...

    def toolset(self, **selection: Unpack[Selection]) -> Toolset: ...
