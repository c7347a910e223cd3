"""Methods: which requests there are in which era, and what answers each."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from mcp_types import INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from pegboard.gateway.builtin_tool import Visit
from pegboard.gateway.calls.call_notifier import LEVELS
from pegboard.gateway.options import GatewayOptions
from pegboard.gateway.request import Client, RpcError, object_in
from pegboard.gateway.sessions import Sessions
from pegboard.gateway.tenants import Tenant
from pegboard.upstream import Era

__all__ = ["Answer", "Methods"]

Answer = Callable[[Tenant, Visit], Awaitable[dict[str, Any]]]
_LEGACY_ONLY = frozenset(
    {"ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
)
_MODERN_ONLY = frozenset({"server/discover", "subscriptions/listen"})


class Methods:
    """The table of methods.

    Args:
        options: how long pages are, and how long they are good for.
        sessions: of the handshake era.
        introduction: what a client of the modern era is told about the gateway.
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
        self._answers: Mapping[str, Answer] = {
            "server/discover": self._discover,
            "ping": self._ping,
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
            "resources/list": self._list_resources,
            "resources/templates/list": self._list_templates,
            "resources/read": self._read_resource,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "prompts/list": self._list_prompts,
            "prompts/get": self._get_prompt,
            "completion/complete": self._complete,
            "logging/setLevel": self._set_level,
            "subscriptions/listen": self._listen,
        }

    def find(self, method: str, era: Era) -> Answer | None:
        """Return what answers a method, if there is such a method in this era."""
        if method in (_MODERN_ONLY if era == "legacy" else _LEGACY_ONLY):
            return None
        return self._answers.get(method)

    async def _discover(self, _: Tenant, visit: Visit) -> dict[str, Any]:
        versions = list(MODERN_PROTOCOL_VERSIONS)
        return {"supportedVersions": versions, **self._introduction(visit.client), **self._hints}

    async def _ping(self, _: Tenant, __: Visit) -> dict[str, Any]:
        return {}

    async def _list_tools(self, tenant: Tenant, visit: Visit) -> dict[str, Any]:
        if not tenant.surfaces.is_fixed(visit.client):
            await tenant.arrivals.wait(visit.sight)
        page = tenant.surfaces.page(visit, visit.exchange.params.get("cursor"))
        return {**page, **self._hints}

    async def _call_tool(self, tenant: Tenant, visit: Visit) -> dict[str, Any]:
        params = visit.exchange.params
        name, arguments = params.get("name"), params.get("arguments")
        if not isinstance(name, str):
            raise RpcError(INVALID_PARAMS, "`tools/call` takes the `name` of a tool, a string.")
        if arguments is not None and not isinstance(arguments, Mapping):
            raise RpcError(INVALID_PARAMS, "`arguments` of `tools/call` is an object.")
        given = {**object_in(arguments)}  # pyright: ignore[reportUnknownArgumentType]
        own = tenant.surfaces.own(name, visit.client)
        if own is not None:
            return await own.call(visit, given)
        relays = tenant.surfaces.relays(visit.client)
        return await tenant.calls.call(visit, name, given, relays=relays)

    async def _list_resources(self, tenant: Tenant, visit: Visit) -> dict[str, Any]:
        return {**await tenant.resources.page(visit, size=self._size), **self._hints}

    async def _list_templates(self, tenant: Tenant, visit: Visit) -> dict[str, Any]:
        return {**await tenant.resources.page_of_templates(visit, size=self._size), **self._hints}

    async def _read_resource(self, tenant: Tenant, visit: Visit) -> dict[str, Any]:
        return await tenant.resources.read(visit)

    async def _subscribe(self, tenant: Tenant, visit: Visit) -> dict[str, Any]:
        uri = _uri_in(visit)
        origin = await tenant.resources.usable(uri, visit)
        session = self._sessions.find(visit.client)
        # A wire without sessions has no way to tell of anything later.
        if session is not None and origin is not None:
            listener = tenant.changes.open_session(session)
            await tenant.changes.watches.add(listener, uri, origin)
        return {}

    async def _unsubscribe(self, tenant: Tenant, visit: Visit) -> dict[str, Any]:
        uri, session = _uri_in(visit), self._sessions.find(visit.client)
        if session is not None and session.listener is not None:
            await tenant.changes.watches.remove(session.listener, [uri])
        return {}

    async def _list_prompts(self, tenant: Tenant, visit: Visit) -> dict[str, Any]:
        return {**await tenant.prompts.page(visit, size=self._size), **self._hints}

    async def _get_prompt(self, tenant: Tenant, visit: Visit) -> dict[str, Any]:
        return await tenant.prompts.get(visit)

    async def _complete(self, tenant: Tenant, visit: Visit) -> dict[str, Any]:
        return await tenant.completions.complete(visit)

    async def _set_level(self, _: Tenant, visit: Visit) -> dict[str, Any]:
        level: object = visit.exchange.params.get("level")
        if not isinstance(level, str) or level not in LEVELS:
            raise RpcError(INVALID_PARAMS, f"A level is one of {', '.join(LEVELS)}.")
        session = self._sessions.find(visit.client)
        if session is not None:
            session.level = level
        return {}

    async def _listen(self, tenant: Tenant, visit: Visit) -> dict[str, Any]:
        return await tenant.changes.listen(visit, tenant.resources)


def _uri_in(visit: Visit) -> str:
    uri: object = visit.exchange.params.get("uri")
    if not isinstance(uri, str):
        raise RpcError(INVALID_PARAMS, f"`{visit.exchange.method}` takes a `uri`, a string.")
    return uri
