"""CallRunner: run a tool of the catalogue for a client, through all policies of the registry."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from pegboard.errors import (
    NotConnectedError,
    PegboardError,
    ProtocolError,
    ServerNotFoundError,
    ToolNotFoundError,
)
from pegboard.gateway.builtin_tool import CallerContext
from pegboard.gateway.calls.era_bridge import Bridge
from pegboard.gateway.calls.result_cache import ResultCache
from pegboard.gateway.catalog.startup_wait import StartupWait
from pegboard.gateway.errors import failure_of, rpc_error_of
from pegboard.gateway.resource_uris import ResourceUris
from pegboard.gateway.visibility import Visibility
from pegboard.hub import Hub
from pegboard.model import FrozenDict, Tool, ToolResult
from pegboard.policies.retry import Outcome, may_repeat
from pegboard.upstream import UpstreamServer

__all__ = ["CallRunner"]


class CallRunner:
    """Calls tools of one hub.

    Args:
        hub: its registry runs the calls.
        startup_wait: finds the tools that a client may see.
        bridge: relays questions of the server to the client.
        result_cache: keeps results that are too long.
        uris: the URIs of resources in the gateway.
        limit: the length limit, in characters, for results of tools of this process.
    """

    def __init__(
        self,
        hub: Hub,
        startup_wait: StartupWait,
        bridge: Bridge,
        *,
        result_cache: ResultCache,
        uris: ResourceUris,
        limit: int,
    ) -> None:
        self._hub = hub
        self._startup_wait = startup_wait
        self._bridge = bridge
        self._result_cache = result_cache
        self._uris = uris
        self._limit = limit

    async def find(self, name: object, visibility: Visibility) -> Tool:
        """Return a tool that a client may see; wait for the server that may have it.

        Raises:
            ToolNotFoundError: when there is none.
        """
        try:
            return self._startup_wait.tools.find(name, visibility)
        except ToolNotFoundError:
            return await self._startup_wait.find(name, visibility)

    async def call(
        self, caller: CallerContext, tool: Tool, arguments: Any, *, relays: bool = False
    ) -> dict[str, Any]:
        """Return the raw result of a tool; a failure becomes a result that a model can read.

        Args:
            caller: the request, and what its client may see.
            tool: the tool, as `find` returned it.
            arguments: the arguments from the client.
            relays: return the result whole, and raise a server's JSON-RPC errors as they are.

        Raises:
            RpcError: when the client, not the model, has to act on the error.
        """
        principal = caller.request.client.principal
        server = self._server_of(tool)
        try:
            caller.visibility.check_call(tool)
            try:
                result = await self._run(caller, tool, arguments, server=server)
            except NotConnectedError as error:
                # Its server was replaced before it got the call.
                tool = await self._replacement(error, tool, caller)
                server = self._server_of(tool)
                caller.visibility.check_call(tool)
                result = await self._run(caller, tool, arguments, server=server)
        except ProtocolError as error:
            if relays and error.rpc_code is not None:
                raise rpc_error_of(error, principal) from None
            return failure_of(error, principal, tool=tool)
        except Exception as error:  # noqa: BLE001 - a tool may raise anything, and the model is told
            return failure_of(error, principal, tool=tool, arguments=arguments)
        if relays or result.get("resultType", "complete") != "complete":
            return result
        limit = self._limit if server is None else server.config.max_result_chars
        return self._result_cache.shortened(result, owner=caller.owner, tool=tool, limit=limit)

    async def _replacement(
        self, error: NotConnectedError, tool: Tool, caller: CallerContext
    ) -> Tool:
        """Return the tool of the new server; raise the error if the call is not repeated there."""
        outcome, found = Outcome.SETTLED, tool
        if not error.sent:
            try:
                found = await self._startup_wait.find(tool.name, caller.visibility)
            except PegboardError:
                raise error from None
        if found is not tool and found.server == tool.server:
            outcome = Outcome.REPLACED
        if not may_repeat(outcome, idempotent=False):
            raise error
        return found

    async def _run(
        self, caller: CallerContext, tool: Tool, arguments: Any, *, server: UpstreamServer | None
    ) -> dict[str, Any]:
        principal = caller.request.client.principal
        meta = _call_meta(principal.tenant, principal.subject)

        async def work() -> dict[str, Any]:
            return _raw(await self._hub.registry.acall(tool.name, arguments, meta))

        result = await self._bridge.run(caller.request, server, work)
        return result if server is None else self._uris.in_content(result, server)

    def _server_of(self, tool: Tool) -> UpstreamServer | None:
        # A definition may name a server that the hub does not have.
        try:
            return None if tool.server is None else self._hub.server(tool.server)
        except ServerNotFoundError:
            return None


@lru_cache(maxsize=1024)
def _call_meta(tenant: str, subject: str) -> Mapping[str, Any]:
    """Return the caller for the call records."""
    return FrozenDict({"tenant": tenant, "subject": subject})


def _raw(value: object) -> dict[str, Any]:
    result = value if isinstance(value, ToolResult) else ToolResult.of(value)
    if result.wire is not None:
        return cast("dict[str, Any]", result.wire)
    raw: dict[str, Any] = {"content": result.blocks()}
    if result.structured_content is not None:
        raw["structuredContent"] = result.structured_content
    if result.is_error:
        raw["isError"] = True
    if result.meta:
        raw["_meta"] = result.meta
    return raw
