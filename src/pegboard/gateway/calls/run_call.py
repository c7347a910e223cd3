"""CallRunner: run a tool of the catalogue for a client, through all policies of the registry."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from pegboard.errors import (
    NotConnectedError,
    PegboardError,
    ProtocolError,
    ServerNotFoundError,
)
from pegboard.gateway.builtin_tool import CallerContext
from pegboard.gateway.calls.era_bridge import Bridge
from pegboard.gateway.calls.result_cache import ResultCache
from pegboard.gateway.catalog.startup_wait import StartupWait
from pegboard.gateway.errors import failure_of, rpc_error_of
from pegboard.gateway.resource_uris import ResourceUris
from pegboard.hub import Hub
from pegboard.model import FrozenDict, Tool, ToolResult

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

    async def call(
        self, caller: CallerContext, name: object, arguments: Any, *, relays: bool = False
    ) -> dict[str, Any]:
        """Return the raw result of a tool; a failure becomes a result that a model can read.

        Args:
            caller: the request, and what its client may see.
            name: the name of the tool in the gateway.
            arguments: the arguments from the client.
            relays: return the result whole, and raise a server's JSON-RPC errors as they are.

        Raises:
            ToolNotFoundError: when there is no such tool that the client may see.
            RpcError: when the client, not the model, has to act on the error.
        """
        principal = caller.client.principal
        tool = await self._startup_wait.find(name, caller.visibility)
        try:
            caller.visibility.check_call(tool)
            result = await self._call_with_failover(caller, tool, arguments)
        except ProtocolError as error:
            if relays and error.rpc_code is not None:
                raise rpc_error_of(error, principal) from None
            return failure_of(error, principal, tool=tool)
        except Exception as error:  # noqa: BLE001 - a tool may raise anything, and the model is told
            return failure_of(error, principal, tool=tool, arguments=arguments)
        if relays or result.get("resultType", "complete") != "complete":
            return result
        limit = self._limit_of(tool)
        return self._result_cache.shortened(result, owner=caller.owner, tool=tool, limit=limit)

    async def _call_with_failover(
        self, caller: CallerContext, tool: Tool, arguments: Any
    ) -> dict[str, Any]:
        """Run a tool; if its server was replaced before it got the call, run it on the new one."""
        try:
            return await self._run(caller, tool, arguments)
        except NotConnectedError as error:
            replacement = None if error.sent else await self._replacement(tool, caller)
            if replacement is None:
                raise
        caller.visibility.check_call(replacement)
        return await self._run(caller, replacement, arguments)

    async def _replacement(self, tool: Tool, caller: CallerContext) -> Tool | None:
        try:
            found = await self._startup_wait.find(tool.name, caller.visibility)
        except PegboardError:
            return None
        return None if found is tool or found.server != tool.server else found

    async def _run(self, caller: CallerContext, tool: Tool, arguments: Any) -> dict[str, Any]:
        principal = caller.client.principal
        meta = _call_meta(principal.tenant, principal.subject)

        async def work() -> dict[str, Any]:
            value = await self._hub.registry.acall(tool.name, arguments, meta)
            return _raw(ToolResult.of(value))

        server = self._server_of(tool)
        result = await self._bridge.run(caller.request, server, work)
        return result if server is None else self._uris.in_content(result, server)

    def _server_of(self, tool: Tool) -> str | None:
        # A definition may name a server that the hub does not have.
        try:
            return None if tool.server is None else self._hub.server(tool.server).config.name
        except ServerNotFoundError:
            return None

    def _limit_of(self, tool: Tool) -> int:
        server = self._server_of(tool)
        return self._limit if server is None else self._hub.server(server).config.max_result_chars


@lru_cache(maxsize=1024)
def _call_meta(tenant: str, subject: str) -> Mapping[str, Any]:
    """Return the caller for the call records."""
    return FrozenDict({"tenant": tenant, "subject": subject})


def _raw(result: ToolResult) -> dict[str, Any]:
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
