"""Router: the MCP methods of each era, and the handler of each method."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from mcp_types import INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from pegboard.gateway.builtin_tool import CallerContext
from pegboard.gateway.calls.call_notifier import LEVELS
from pegboard.gateway.options import GatewayOptions
from pegboard.gateway.request import Client, RpcError, object_in
from pegboard.gateway.sessions import Sessions
from pegboard.gateway.tasks.tasks import NewTask
from pegboard.gateway.tenants import Tenant
from pegboard.upstream import Era

__all__ = ["RequestHandler", "Router"]

RequestHandler = Callable[[Tenant, CallerContext], Awaitable[dict[str, Any]]]
"""Returns the raw result of one request."""
_LONGEST_NAME = 512
_LEGACY_ONLY = frozenset(
    {
        *("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"),
        *("tasks/list", "tasks/result"),
    }
)
_MODERN_ONLY = frozenset({"server/discover", "subscriptions/listen", "tasks/update"})


class Router:
    """The table of methods.

    Args:
        options: the page size, and how long clients may cache lists.
        sessions: the sessions of the handshake era.
        introduction: returns capabilities and instructions for a client of the modern era.
    """

    def __init__(
        self,
        options: GatewayOptions,
        sessions: Sessions,
        *,
        introduction: Callable[[Client], dict[str, Any]],
    ) -> None:
        self._size = options.page_size
        self._hints: Mapping[str, Any] = {"ttlMs": options.ttl_ms, "cacheScope": "private"}
        self._sessions = sessions
        self._introduction = introduction
        self._handlers: Mapping[str, RequestHandler] = {
            "server/discover": self._discover,
            "ping": self._ping,
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read_resource,
            "resources/directory/read": self._read_directory,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "skills/list": self._list_skills,
            "skills/get": self._get_skill,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
            "completion/complete": self._complete,
            "logging/setLevel": self._set_level,
            "subscriptions/listen": self._listen,
            "tasks/get": self._get_task,
            "tasks/list": lambda tenant, caller: tenant.tasks.core.list(caller),
            "tasks/result": lambda tenant, caller: tenant.tasks.core.result(caller),
            "tasks/update": lambda tenant, caller: tenant.tasks.extension.update(caller),
            "tasks/cancel": self._cancel_task,
        }
        self._has_tasks = options.tasks > 0

    def find(self, method: str, era: Era) -> RequestHandler | None:
        """Return the handler of a method, or ``None`` if this era has no such method."""
        if method in (_MODERN_ONLY if era == "legacy" else _LEGACY_ONLY):
            return None
        if method.startswith("tasks/") and not self._has_tasks:
            return None
        return self._handlers.get(method)

    async def _discover(self, _: Tenant, caller: CallerContext) -> dict[str, Any]:
        versions = list(MODERN_PROTOCOL_VERSIONS)
        return {"supportedVersions": versions, **self._introduction(caller.client), **self._hints}

    async def _ping(self, _: Tenant, __: CallerContext) -> dict[str, Any]:
        return {}

    async def _list_tools(self, tenant: Tenant, caller: CallerContext) -> dict[str, Any]:
        await tenant.skills.learn()
        if not tenant.surfaces.is_fixed(caller.client):
            await tenant.startup_wait.wait(caller.visibility)
        page = tenant.surfaces.page(caller, caller.request.params.get("cursor"))
        return {**page, **self._hints}

    async def _call_tool(self, tenant: Tenant, caller: CallerContext) -> dict[str, Any]:
        params = caller.request.params
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str):
            raise RpcError(INVALID_PARAMS, "`tools/call` takes the `name` of a tool, a string.")
        if arguments is not None and not isinstance(arguments, Mapping):
            raise RpcError(INVALID_PARAMS, "`arguments` of `tools/call` is an object.")
        given = {**object_in(arguments)}  # pyright: ignore[reportUnknownArgumentType]
        client, on_tool = caller.request.client, caller.request.on_tool
        if (client.tasks or "task" in params) and tenant.tasks.takes(client, params):
            return await self._call_as_task(tenant, caller, name, given)
        own = tenant.surfaces.own(name, client)
        if own is None:
            relays = tenant.surfaces.relays(client)
            return await tenant.calls.call(caller, name, given, relays=relays, on_tool=on_tool)
        if on_tool is not None:
            on_tool(own.definition)
        # Models call these tools; apps have the names of others from their own server.
        return await own.call(caller.for_models() if caller.visibility.apps else caller, given)

    async def _call_as_task(
        self, tenant: Tenant, caller: CallerContext, name: str, given: Mapping[str, Any]
    ) -> dict[str, Any]:
        client, params = caller.client, caller.request.params
        own = tenant.surfaces.own(name, client)
        # By `call_tool` runs another tool, and that one is slow or not.
        named: object = given.get("name") if own is not None and name == "call_tool" else name
        new = NewTask(
            name=named[:_LONGEST_NAME] if isinstance(named, str) and named else name,
            tool=tenant.shown(named, caller.visibility),
            relays=tenant.surfaces.relays(client),
            hold=tenant,
            work=partial(self._call_tool, tenant),
        )
        return await tenant.tasks.call(caller, new, params.get("task"))

    async def _get_task(self, tenant: Tenant, caller: CallerContext) -> dict[str, Any]:
        return await tenant.tasks.of(caller.client).get(caller)

    async def _cancel_task(self, tenant: Tenant, caller: CallerContext) -> dict[str, Any]:
        return await tenant.tasks.of(caller.client).cancel(caller)

    async def _list_resources(self, tenant: Tenant, caller: CallerContext) -> dict[str, Any]:
        return {**await tenant.resources.page(caller, size=self._size), **self._hints}

    async def _list_templates(self, tenant: Tenant, caller: CallerContext) -> dict[str, Any]:
        return {**await tenant.resources.page_of_templates(caller, size=self._size), **self._hints}

    async def _read_resource(self, tenant: Tenant, caller: CallerContext) -> dict[str, Any]:
        return await tenant.resources.read(caller)

    async def _read_directory(self, tenant: Tenant, caller: CallerContext) -> dict[str, Any]:
        return await tenant.skills.methods.read_directory(caller)

    async def _list_skills(self, tenant: Tenant, caller: CallerContext) -> dict[str, Any]:
        return await tenant.skills.methods.page(caller, size=self._size)

    async def _get_skill(self, tenant: Tenant, caller: CallerContext) -> dict[str, Any]:
        return await tenant.skills.methods.get(caller)

    async def _subscribe(self, tenant: Tenant, caller: CallerContext) -> dict[str, Any]:
        uri = _uri_in(caller)
        origin = await tenant.resources.usable(uri, caller)
        session = self._sessions.find(caller.client)
        # A transport without sessions cannot send notifications later.
        if session is not None and origin is not None:
            listener = tenant.changes.open_session(session)
            await tenant.changes.watches.add(listener, uri, origin)
        return {}

    async def _unsubscribe(self, tenant: Tenant, caller: CallerContext) -> dict[str, Any]:
        uri, session = _uri_in(caller), self._sessions.find(caller.client)
        if session is not None and session.listener is not None:
            await tenant.changes.watches.remove(session.listener, [uri])
        return {}

    async def _list_prompts(self, tenant: Tenant, caller: CallerContext) -> dict[str, Any]:
        return {**await tenant.prompts.page(caller, size=self._size), **self._hints}

    async def _get_prompt(self, tenant: Tenant, caller: CallerContext) -> dict[str, Any]:
        return await tenant.prompts.get(caller)

    async def _complete(self, tenant: Tenant, caller: CallerContext) -> dict[str, Any]:
        return await tenant.completions.complete(caller)

    async def _set_level(self, _: Tenant, caller: CallerContext) -> dict[str, Any]:
        level: object = caller.request.params.get("level")
        if not isinstance(level, str) or level not in LEVELS:
            raise RpcError(INVALID_PARAMS, f"A level is one of {', '.join(LEVELS)}.")
        session = self._sessions.find(caller.client)
        if session is not None:
            session.level = level
        return {}

    async def _listen(self, tenant: Tenant, caller: CallerContext) -> dict[str, Any]:
        return await tenant.changes.listen(caller, tenant.resources)


def _uri_in(caller: CallerContext) -> str:
    uri: object = caller.request.params.get("uri")
    if not isinstance(uri, str):
        raise RpcError(INVALID_PARAMS, f"`{caller.request.method}` takes a `uri`, a string.")
    return uri
