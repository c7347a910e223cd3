"""CallRunner: run a tool of the catalogue for a client, through all policies of the registry."""

from collections.abc import Callable
from time import perf_counter
from typing import Any, NoReturn, cast

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
from pegboard.gateway.catalog.apps import Apps
from pegboard.gateway.catalog.startup_wait import StartupWait
from pegboard.gateway.errors import failure_of, rpc_error_of
from pegboard.gateway.request import Client, OnTool
from pegboard.gateway.resource_uris import ResourceUris
from pegboard.gateway.visibility import Visibility
from pegboard.hub import Hub
from pegboard.model import Tool, ToolResult
from pegboard.model.task import ServerTask
from pegboard.observe.call_reporter import (
    MOST_OF_NAME,
    Caller,
    CallReporter,
    GatewayCall,
    caller_of,
)
from pegboard.policies.retry import Outcome, may_repeat
from pegboard.upstream import UpstreamServer
from pegboard.upstream.messages.extensions import UI, declares

__all__ = ["CallRunner", "Fit", "caller_in"]

Fit = Callable[[Tool], dict[str, Any]]
"""Returns the arguments of a call, as the tool takes them."""


class CallRunner:
    """Calls tools of one hub.

    Args:
        hub: its registry runs the calls.
        startup_wait: finds the tools that a client may see.
        bridge: relays questions of the server to the client.
        result_cache: keeps results that are too long.
        uris: the URIs of resources in the gateway.
        apps: what hosts of apps get.
        limit: the length limit, in characters, for results of tools of this process.
        reporter: is told of each call.
    """

    def __init__(  # noqa: PLR0913 - a call needs all of it
        self,
        hub: Hub,
        startup_wait: StartupWait,
        bridge: Bridge,
        *,
        result_cache: ResultCache,
        uris: ResourceUris,
        apps: Apps,
        limit: int,
        reporter: CallReporter,
    ) -> None:
        self._hub = hub
        self._startup_wait = startup_wait
        self._bridge = bridge
        self._result_cache = result_cache
        self._uris = uris
        self._apps = apps
        self._limit = limit
        self._reporter = reporter

    async def find(self, name: str, visibility: Visibility) -> Tool:
        """Return a tool that a client may see; wait for the server that may have it.

        Raises:
            ToolNotFoundError: when there is none.
        """
        found = self._startup_wait.tools.get(name, visibility)
        return await self._startup_wait.find(name, visibility) if found is None else found

    async def call(
        self,
        caller: CallerContext,
        name: str,
        arguments: Any,
        *,
        relays: bool = False,
        on_tool: OnTool | None = None,
        fit: Fit | None = None,
    ) -> dict[str, Any]:
        """Return the raw result of a tool; a failure becomes a result that a model can read.

        It waits for the server that may have the tool.

        Args:
            caller: the request, and what its client may see.
            name: the name of the tool.
            arguments: the arguments from the client.
            relays: return the result whole, and raise a server's JSON-RPC errors as they are.
            on_tool: receives the tool before it runs.
            fit: returns the arguments that the tool gets instead.

        Raises:
            RpcError: when the client, not the model, has to act on the error.
            ToolNotFoundError: when the client may see no such tool.
        """
        principal = caller.request.client.principal
        call = self._reporter.begin(name, caller_in(caller.request.client))
        with call:
            tool = self._startup_wait.tools.get(name, caller.visibility)
            tool = tool or await self._awaited(name, caller, call)
            if on_tool is not None:
                on_tool(tool)
            if fit is not None:
                arguments = fit(tool)
            server = self._server_of(tool)
            call.keep_arguments(arguments)
            try:
                caller.visibility.check_call(tool)
                try:
                    result = await self._run(caller, tool, arguments, server=server, call=call)
                except NotConnectedError as error:
                    # Its server was replaced before it got the call.
                    tool = await self._replacement(error, tool, caller)
                    server = self._server_of(tool)
                    caller.visibility.check_call(tool)
                    result = await self._run(caller, tool, arguments, server=server, call=call)
            except ProtocolError as error:
                call.error = error
                if relays and error.rpc_code is not None:
                    raise rpc_error_of(error, principal) from None
                return failure_of(error, principal, tool=tool)
            except Exception as error:  # noqa: BLE001 - a tool may raise anything, and the model is told
                call.error = error
                return failure_of(error, principal, tool=tool, arguments=arguments)
            call.keep_result(result)
            if relays or result.get("resultType", "complete") != "complete":
                return result
            shown = self._shortened(result, caller, tool, server=server, call=call)
            can = caller.request.client.capabilities
            # Few clients have extensions; the others do not wait for this.
            if "extensions" in can and declares(can, UI):
                return self._apps.with_page(shown, result, tool)
            return shown

    async def resume(
        self, caller: CallerContext, name: str, task: ServerTask, *, relays: bool
    ) -> dict[str, Any]:
        """Return the raw result of the task that a server made of an earlier call.

        Its policies have let the call in, in another process; the result is treated as theirs.

        Raises:
            RpcError: when the call ended with an error that is no result.
            ToolNotFoundError: when the tool is not there any more.
        """
        principal = caller.client.principal
        # Right after the start, the hub does not know its servers yet.
        await self._hub.start(wait=False)
        with self._reporter.begin(name, caller_in(caller.client)) as call:
            tool = await self._awaited(name, caller, call)
            server = self._server_of(tool)
            if server is None:
                raise ToolNotFoundError(name)

            async def work() -> dict[str, Any]:
                return _raw(await server.resume_task(task, tool.name))

            try:
                result = await self._bridge.run(caller.request, server, work)
            except Exception as error:  # noqa: BLE001 - as those of a call
                call.error = error
                said = error if isinstance(error, ProtocolError) else None
                if said is not None and relays and said.rpc_code is not None:
                    raise rpc_error_of(said, principal) from None
                return failure_of(error, principal, tool=tool)
            result = self._uris.in_content(result, server)
            call.keep_result(result)
            call.note_result(server.config.name, is_error=result.get("isError") is True)
            if relays:
                return result
            shown = self._shortened(result, caller, tool, server=server, call=call)
            shows_apps = declares(caller.client.capabilities, UI)
            return self._apps.with_page(shown, result, tool) if shows_apps else shown

    def refuse(
        self, caller: CallerContext, name: str, arguments: object, error: PegboardError
    ) -> NoReturn:
        """Record a call that is refused before its tool is called, and raise the error.

        Raises:
            PegboardError: the given one.
        """
        with self._reporter.begin(name, caller_in(caller.request.client)) as call:
            call.keep_arguments(arguments)
            raise error

    async def _awaited(self, name: str, caller: CallerContext, call: GatewayCall) -> Tool:
        began = perf_counter()
        try:
            found = self._apps.named(name, caller.visibility) if caller.visibility.apps else None
            return found or await self._startup_wait.find(name, caller.visibility)
        finally:
            call.connecting += perf_counter() - began

    def _shortened(
        self,
        result: dict[str, Any],
        caller: CallerContext,
        tool: Tool,
        *,
        server: UpstreamServer | None,
        call: GatewayCall,
    ) -> dict[str, Any]:
        limit = self._limit if server is None else server.config.max_result_chars
        began = perf_counter()
        shown = self._result_cache.shortened(result, owner=caller.owner, tool=tool, limit=limit)
        if shown is not result:
            call.caching += perf_counter() - began
        return shown

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
        self,
        caller: CallerContext,
        tool: Tool,
        arguments: Any,
        *,
        server: UpstreamServer | None,
        call: GatewayCall,
    ) -> dict[str, Any]:
        async def work() -> dict[str, Any]:
            registry = self._hub.registry
            return _raw(await registry.acall(tool.name, arguments, call.caller, phases=call))

        result = await self._bridge.run(caller.request, server, work)
        return result if server is None else self._uris.in_content(result, server)

    def _server_of(self, tool: Tool) -> UpstreamServer | None:
        # A definition may name a server that the hub does not have.
        try:
            return None if tool.server is None else self._hub.server(tool.server)
        except ServerNotFoundError:
            return None


def caller_in(client: Client) -> Caller:
    """Return who a client is, for the records of its calls."""
    principal, info = client.principal, client.info
    name = info.get("name")
    # Many callers are kept, and each client chooses its name.
    named = name[:MOST_OF_NAME] if isinstance(name, str) else ""
    return caller_of(principal.tenant, principal.subject, named, client.session)


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
