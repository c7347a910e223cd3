"""AgentScope's stateful clients: one session for all calls, over HTTP or stdio."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack

from pegboard.compat.agentscope.client import (
    ClientOptions,
    HttpTransport,
    MCPClientBase,
    http_config,
    sdk_tools,
    tool_named,
)
from pegboard.compat.agentscope.function import MCPToolFunction
from pegboard.compat.server_calls import starting_program
from pegboard.config import ServerConfig
from pegboard.errors import ConfigError, NotConnectedError
from pegboard.upstream import OnProgress
from pegboard.upstream.standalone import StandaloneClient

__all__ = ["HttpStatefulClient", "StatefulClientBase", "StdioStatefulClient"]

logger: logging.Logger = logging.getLogger("pegboard.compat")


class StatefulClientBase(MCPClientBase):
    """A client that keeps one session.

    The first use connects; `connect` does so earlier. After `close`, or after the server was lost,
    only `connect` or `reset_session` begins a new session, because the state of the old one is
    gone.
    """

    def __init__(self, name: str, config: ServerConfig | None = None) -> None:
        super().__init__(name)
        self._client = None if config is None else StandaloneClient(config)
        self._used = False
        self._tools: list[Any] | None = None

    @property
    def is_connected(self) -> bool:
        """True while there is a session."""
        return self._client is not None and self._client.is_connected

    async def connect(self, *, strict: bool = False) -> None:
        """Begin a session, unless there is one.

        Args:
            strict: raise an error when there is a session already.

        Raises:
            ServerUnavailableError: when the server cannot be started or reached.
            RuntimeError: with ``strict``, when there is a session already.
        """
        if strict and self.is_connected:
            raise RuntimeError(
                f"Client {self.name!r} is already connected. Call `close` or `reset_session` first."
            )
        await self._server().connect()
        self._used = True

    async def close(self, ignore_errors: bool = True) -> None:  # noqa: FBT001, FBT002
        """End the session, if there is one.

        Args:
            ignore_errors: log errors of closing instead of raising them.
        """
        self._used = True
        self._tools = None
        try:
            await self._server().close()
        except Exception:
            if not ignore_errors:
                raise
            logger.exception("close_failed: client=%r", self.name)

    async def reset_session(self) -> None:
        """End the session and begin a new one without its state.

        Raises:
            ServerUnavailableError: when the server cannot be started or reached.
        """
        await self.close()
        await self.connect()

    async def start_session(self, *, strict: bool = False) -> None:
        """Do what `connect` does."""
        await self.connect(strict=strict)

    async def close_session(self, ignore_errors: bool = True) -> None:  # noqa: FBT001, FBT002
        """Do what `close` does."""
        await self.close(ignore_errors)

    async def list_tools(self) -> list[Any]:
        """Ask the server for its tools, as the SDK's ``Tool`` objects.

        Raises:
            NotConnectedError: when the session has ended.
            UpstreamError: when the server cannot list its tools.
        """
        await self._connect_once()
        self._tools = sdk_tools(await self._server().list_tools())
        return list(self._tools)

    async def get_callable_function(
        self,
        func_name: str,
        wrap_tool_result: bool = True,  # noqa: FBT001, FBT002 - the document's signature
        execution_timeout: float | None = None,
        *,
        on_progress: OnProgress | None = None,
    ) -> MCPToolFunction:
        """Return a tool as a function that uses this client's session.

        Raises:
            ValueError: when the server has no such tool.
            UpstreamError: when the server cannot be asked.
        """
        known = self._tools if self._tools is not None else await self.list_tools()
        return MCPToolFunction(
            self.name,
            tool_named(func_name, known),
            wrap_tool_result=wrap_tool_result,
            session=self,
            timeout=execution_timeout,
            on_progress=on_progress,
        )

    async def call_tool(
        self, name: str, arguments: dict[str, Any], *, on_progress: OnProgress | None = None
    ) -> dict[str, Any]:
        """Call a tool in the session and return its result as JSON.

        Raises:
            NotConnectedError: when the session has ended, or the server was lost before.
            UpstreamError: when the call fails for another reason.
        """
        await self._connect_once()
        return await self._server().call_tool(name, arguments, on_progress=on_progress)

    async def _connect_once(self) -> None:
        if not self._used:
            await self.connect()

    def _server(self) -> StandaloneClient:
        if self._client is None:
            raise NotConnectedError(
                f"Client {self.name!r} has no server: give `StatefulClientBase` a `config`.",
                server=self.name,
            )
        return self._client


class HttpStatefulClient(StatefulClientBase):
    """A client that keeps one session with a server behind HTTP.

    Args:
        name: the name of the client.
        transport: ``"streamable_http"`` or ``"sse"``.
        url: the address of the server.
        headers: sent with every request.
        timeout: how many seconds connecting and listing may take.
        sse_read_timeout: how many seconds a call may take.
        client_kwargs: see `ClientOptions`.

    Raises:
        ValueError: when the transport or the address is invalid.
    """

    def __init__(
        self,
        name: str,
        transport: HttpTransport,
        url: str,
        headers: Mapping[str, str] | None = None,
        timeout: float = 30,
        sse_read_timeout: float = 300,
        **client_kwargs: Unpack[ClientOptions],
    ) -> None:
        config = http_config(
            name,
            transport,
            url=url,
            headers=headers,
            seconds=(timeout, sse_read_timeout),
            options=client_kwargs,
        )
        super().__init__(name, config)
        self.transport: HttpTransport = transport


class StdioStatefulClient(StatefulClientBase):
    """A client that keeps one process and talks to it over its standard input and output.

    Raises:
        ValueError: when the encoding is not UTF-8, which the protocol requires.
    """

    def __init__(  # noqa: PLR0913 - AgentScope's signature
        self,
        name: str,
        command: str,
        args: Sequence[str] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        encoding: str = "utf-8",
        encoding_error_handler: Literal["strict", "ignore", "replace"] = "strict",
    ) -> None:
        if encoding.lower().replace("_", "-") not in ("utf-8", "utf8"):
            raise ConfigError(f"Servers on stdio speak UTF-8, not {encoding!r}.")
        config = ServerConfig(
            name=name,
            transport="stdio",
            command=command,
            args=tuple(args or ()),
            env=env or {},
            cwd=cwd,
        )
        super().__init__(name, config)
        self._config = config

    async def connect(self, *, strict: bool = False) -> None:
        """Start the program and begin a session, unless there is one; see `StatefulClientBase`."""
        async with starting_program(self._config):
            await super().connect(strict=strict)
