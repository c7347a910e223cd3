"""SyncHub: a hub for programs without an event loop."""

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Protocol, Self, Unpack

from pegboard.config import LoadedConfig, ServerConfig
from pegboard.model import ToolResult
from pegboard.registry import Registry
from pegboard.registry.background_loop import run_in_background
from pegboard.search import SearchOptions, SearchResponse
from pegboard.toolsets import Selection, Toolset
from pegboard.upstream import OnProgress, ServerStatus, UpstreamServer

__all__ = ["SyncHub", "SyncServer"]


class SyncServer:
    """What an `UpstreamServer` can do, each verb waiting until it is done."""

    def __init__(self, server: UpstreamServer) -> None:
        self._server = server

    def __repr__(self) -> str:
        return f"<SyncServer {self.config.name!r}>"

    @property
    def config(self) -> ServerConfig:
        """What it was configured with."""
        return self._server.config

    @property
    def status(self) -> ServerStatus:
        """How the server is now."""
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
        """List the tools anew and put them on the board.

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
            UpstreamError: whatever went wrong.
            ToolTimeoutError: when the answer did not come in time.
        """
        return run_in_background(
            lambda: self._server.request(method, params, on_progress=on_progress), tool=method
        )

    def list_all(self, method: str) -> list[dict[str, Any]]:
        """Return the items of all pages of a list, such as ``resources/list``.

        Raises:
            UpstreamError: whatever went wrong.
        """
        return run_in_background(lambda: self._server.list_all(method), tool=method)

    def set_headers(self, headers: Mapping[str, str]) -> None:
        """Send these besides the configured headers from now on, without connecting again.

        Raises:
            ConfigError: when one is not legal, or reserved, or the server is not behind HTTP.
        """

        async def set_at_home() -> None:
            self._server.set_headers(headers)

        run_in_background(set_at_home, tool="")


class SyncHub:
    """A hub for programs without an event loop: it lives on the background loop of Pegboard.

    `Hub.open_sync` makes one. It has the verbs of a `Hub`, each waiting until it is done.
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
        """Which file was read, and what was wrong in it."""
        return self._hub.loaded

    @property
    def servers(self) -> dict[str, ServerStatus]:
        """How every server is now, by name."""
        return self._hub.servers

    def server(self, name: str) -> SyncServer:
        """Return one server, to start, stop, refresh it, or to ask it for more than tools.

        Raises:
            ServerNotFoundError: when there is none of that name.
        """
        return SyncServer(self._hub.server(name))

    def origin(self, tool: str) -> tuple[str, str]:
        """Return the server of a tool, and the name the tool has there.

        Raises:
            ToolNotFoundError: when no server has such a tool.
        """
        return self._hub.origin(tool)

    def start(self) -> None:
        """Read the configuration and start the servers that are to be started.

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
            ConfigError: when the file cannot be used; then everything stays as it is.
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
        """Call a tool and wait for its answer.

        Raises:
            ToolNotFoundError: when there is no such tool.
            CallRefusedError: when a policy refuses the call.
            ToolTimeoutError: when it took too long.
            UpstreamError: when its server could not do its part.
        """
        return run_in_background(
            lambda: self._hub.call(name, arguments, meta=meta, on_progress=on_progress), tool=name
        )

    def request(
        self, server: str, method: str, params: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Send a server any request of the protocol, and return its raw result.

        Raises:
            ServerNotFoundError: when there is no such server.
            UpstreamError: whatever went wrong.
        """
        return self.server(server).request(method, params)

    def search(self, text: str, **options: Unpack[SearchOptions]) -> SearchResponse:
        """Return the tools that do what a text asks for, the best first, or none.

        Raises:
            InvalidQueryError: when it cannot be searched for; see `SearchOptions`.
        """
        return self.registry.search(text, **options)

    def search_many(
        self, texts: Iterable[str], **options: Unpack[SearchOptions]
    ) -> list[SearchResponse]:
        """Search for many texts at once.

        Raises:
            InvalidQueryError: when one of them cannot be searched for.
        """
        return self.registry.search_many(texts, **options)

    def render(self, name: str, result: ToolResult) -> str:
        """Return a result as text for a model, cut with a mark at its server's limit.

        Raises:
            ToolNotFoundError: when there is no such tool.
        """
        return self._hub.render(name, result)

    def toolset(self, **selection: Unpack[Selection]) -> Toolset:
        """Return a chosen view of the tools; use its `call_sync` and `sync_functions`.

        Raises:
            ServerNotFoundError: when it is to show tools of a server that there is not.
        """
        return self._hub.toolset(**selection)


class _Hub(Protocol):
    """What is wanted of a `Hub`, which itself knows this file."""

    registry: Registry
    loaded: LoadedConfig

    @property
    def servers(self) -> dict[str, ServerStatus]: ...

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
