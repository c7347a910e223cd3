"""AgentScope's stateless HTTP client: a new session for every call."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Unpack

import anyio
import msgspec

from pegboard.compat.agentscope.client import (
    ClientOptions,
    HttpTransport,
    MCPClientBase,
    http_config,
    sdk_tools,
    tool_named,
)
from pegboard.compat.agentscope.function import MCPToolFunction
from pegboard.config.servers import Protocol
from pegboard.upstream import Negotiated, OnProgress
from pegboard.upstream.standalone import StandaloneClient

__all__ = ["HttpStatelessClient"]


class HttpStatelessClient(MCPClientBase):
    """A client that shares nothing between calls, so it needs neither `connect` nor `close`.

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

    stateful: bool = False
    """False: each call has a session of its own."""

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
        super().__init__(name)
        self.transport: HttpTransport = transport
        self.client_config: dict[str, Any] = {
            "url": url,
            "headers": headers or {},
            "timeout": timeout,
            "sse_read_timeout": sse_read_timeout,
            **client_kwargs,
        }
        self._config = http_config(
            name,
            transport,
            url=url,
            headers=headers,
            seconds=(timeout, sse_read_timeout),
            options=client_kwargs,
        )
        self._tools: list[Any] | None = None
        self._spoken: Protocol = self._config.protocol

    @asynccontextmanager
    async def get_client(self) -> AsyncGenerator[StandaloneClient]:
        """Connect for as long as the context lasts.

        The protocol of the server is negotiated once, and again after an error.

        Raises:
            ServerUnavailableError: when the server cannot be reached.
        """
        client = StandaloneClient(msgspec.structs.replace(self._config, protocol=self._spoken))
        try:
            await client.connect()
            self._spoken = _spoken(client.negotiated, self._spoken)
            yield client
        except BaseException:
            # Another version of the server may run by now.
            self._spoken = self._config.protocol
            raise
        finally:
            # Also for a cancelled caller; closing has its own time limit.
            with anyio.CancelScope(shield=True):
                await client.close()

    async def list_tools(self) -> list[Any]:
        """Ask the server for its tools, as the SDK's ``Tool`` objects.

        Raises:
            UpstreamError: when the server cannot be asked.
        """
        async with self.get_client() as client:
            self._tools = sdk_tools(await client.list_tools())
        return list(self._tools)

    async def get_callable_function(
        self,
        func_name: str,
        wrap_tool_result: bool = True,  # noqa: FBT001, FBT002 - the document's signature
        execution_timeout: float | None = None,
        *,
        on_progress: OnProgress | None = None,
    ) -> MCPToolFunction:
        """Return a tool as a function that opens a session of its own for each call.

        The tools are those of the last list; the first time, the server is asked for it.

        Raises:
            ValueError: when the server has no such tool.
            UpstreamError: when the server cannot be asked.
        """
        known = self._tools if self._tools is not None else await self.list_tools()
        return MCPToolFunction(
            self.name,
            tool_named(func_name, known),
            wrap_tool_result=wrap_tool_result,
            client_gen=self.get_client,
            timeout=execution_timeout,
            on_progress=on_progress,
        )


def _spoken(negotiated: Negotiated | None, otherwise: Protocol) -> Protocol:
    if negotiated is None:
        return otherwise
    if negotiated.era == "legacy":
        return "legacy"
    return "2026-07-28" if negotiated.version == "2026-07-28" else otherwise
