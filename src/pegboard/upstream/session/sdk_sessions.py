"""Calls through an SDK session, on streams that the application has opened."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import anyio
import mcp_types as types
from mcp import ClientSession, MCPError

from pegboard.config import ServerConfig
from pegboard.errors import (
    ConnectionLostError,
    ServerTimeoutError,
    ServerUnavailableError,
    UpstreamError,
)
from pegboard.upstream.call_context import OnProgress
from pegboard.upstream.messages.failures import FailedError, Failure
from pegboard.upstream.messages.jsonrpc import ServerRpcError
from pegboard.upstream.session.translate import error_of

if TYPE_CHECKING:
    from mcp.shared.dispatcher import ProgressFnT

__all__ = ["SpelledResult", "SpelledTool", "call_on_streams", "sdk_result", "sdk_tool"]


async def call_on_streams(
    streams: Sequence[Any],
    tool: str,
    arguments: Mapping[str, Any],
    *,
    server: str,
    on_progress: OnProgress | None = None,
    patience: float = 30.0,
) -> types.CallToolResult | UpstreamError:
    """Open a session, shake hands and call one tool; a failure is returned, not raised.

    Raised inside the context of a transport, it would come out as a group of exceptions.

    Args:
        streams: the one to read from, the one to write to; the rest is ignored.
        tool: the name the server has for it.
        arguments: what it takes.
        server: what the server is called in errors.
        on_progress: who is told how far it is.
        patience: how many seconds the handshake may take.
    """
    read, write = streams[:2]
    is_ready = False
    try:
        async with ClientSession(read, write) as session:
            await _shake_hands(session, server, patience)
            is_ready = True
            told = cast("ProgressFnT | None", on_progress)
            return await session.call_tool(tool, dict(arguments), progress_callback=told)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is translated
        failure = error_of(_of_the_sdk(error), _config(server, streams), tool=tool)
    return failure if is_ready else _as_unavailable(failure)


async def _shake_hands(session: ClientSession, server: str, patience: float) -> None:
    with anyio.move_on_after(patience):
        await session.initialize()
        return
    raise ServerTimeoutError(
        f"Server {server!r} did not answer the handshake within {patience:g} s.", server=server
    )


def _of_the_sdk(error: Exception) -> Exception:
    """Return an error of the SDK's session as the one that our own session would raise."""
    leaf = error
    while isinstance(leaf, ExceptionGroup):
        leaf = cast("ExceptionGroup[Exception]", leaf).exceptions[0]
    if not isinstance(leaf, MCPError):
        return error
    if leaf.code == types.CONNECTION_CLOSED:
        return FailedError(Failure(kind="lost", message=""))
    return ServerRpcError(leaf.code, leaf.message, leaf.data)


def _as_unavailable(failure: UpstreamError) -> ServerUnavailableError:
    """Return a failure of the handshake as one after which the tool certainly did not run."""
    if isinstance(failure, ServerUnavailableError):
        return failure
    reason = str(failure)
    if isinstance(failure, ConnectionLostError):
        reason = "it closed the connection before it was ready."
    unavailable = ServerUnavailableError(
        f"Server {failure.server!r} could not be opened: {reason}",
        server=failure.server,
        tool=failure.tool,
    )
    unavailable.__cause__ = failure
    return unavailable


def _config(server: str, streams: Sequence[Any]) -> ServerConfig:
    printable = "".join(filter(str.isprintable, server))
    return ServerConfig(name=printable or "mcp", transport="memory", server=streams)


class SpelledTool(types.Tool):
    """The SDK's ``Tool``, whose attributes can also be spelled as in the SDK 1.x."""

    @property
    def inputSchema(self) -> dict[str, Any]:  # noqa: N802 - as the SDK 1.x spells it
        """The JSON Schema of the arguments."""
        return self.input_schema

    @property
    def outputSchema(self) -> dict[str, Any] | None:  # noqa: N802 - as the SDK 1.x spells it
        """The JSON Schema of the structured content."""
        return self.output_schema


class SpelledResult(types.CallToolResult):
    """The SDK's ``CallToolResult``, whose attributes can also be spelled as in the SDK 1.x."""

    @property
    def isError(self) -> bool:  # noqa: N802 - as the SDK 1.x spells it
        """Whether the tool reports a failure."""
        return bool(self.is_error)

    @property
    def structuredContent(self) -> Any:  # noqa: N802 - as the SDK 1.x spells it
        """The result as JSON."""
        return self.structured_content


# A user who prints one sees the SDK's class.
SpelledTool.__name__, SpelledResult.__name__ = "Tool", "CallToolResult"


def sdk_tool(raw: Mapping[str, Any]) -> types.Tool:
    """Return a definition as the SDK's ``Tool``."""
    return SpelledTool.model_validate(dict(raw), by_name=False)


def sdk_result(raw: Mapping[str, Any]) -> types.CallToolResult:
    """Return the answer to ``tools/call`` as the SDK's ``CallToolResult``."""
    return SpelledResult.model_validate(dict(raw), by_name=False)
