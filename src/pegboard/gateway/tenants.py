"""Tenants: everything that belongs to one of them, and nothing of it to another."""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import anyio
from anyio.abc import TaskGroup
from mcp_types import INVALID_REQUEST

from pegboard.errors import ServerNotFoundError, ToolNotFoundError
from pegboard.gateway.bridge import Bridge
from pegboard.gateway.call_tool import call_tool
from pegboard.gateway.calls import Calls
from pegboard.gateway.changes import Changes
from pegboard.gateway.completions import Completions
from pegboard.gateway.exchange import Client, Exchange, RpcError
from pegboard.gateway.get_tool_definition import get_tool_definition
from pegboard.gateway.list_tools_by_category import list_tools_by_category
from pegboard.gateway.offers import Offers
from pegboard.gateway.options import GatewayOptions
from pegboard.gateway.own_resources import OwnResources
from pegboard.gateway.own_tool import Visit
from pegboard.gateway.prompts import Prompts
from pegboard.gateway.read_result import read_result
from pegboard.gateway.register_tool import register_tool, unregister_tool
from pegboard.gateway.resources import Resources
from pegboard.gateway.search_tools import search_tools
from pegboard.gateway.shelf import Shelf
from pegboard.gateway.sight import Admits, Sight, group_named
from pegboard.gateway.surfaces import Surfaces
from pegboard.gateway.tool_list import ToolList
from pegboard.gateway.uris import Uris
from pegboard.hub import Hub
from pegboard.model import Tool
from pegboard.model.principal import DEFAULT_TENANT

__all__ = ["OpenTenant", "Tenant", "Tenants"]

OpenTenant = Callable[[str], Hub | None]
"""Gives the hub of a tenant, not open yet; ``None`` when there is no such tenant."""


class Tenant:
    """The catalogue of one tenant, and all that is kept for its callers."""

    def __init__(
        self, hub: Hub, options: GatewayOptions, group: TaskGroup, *, bridge: Bridge
    ) -> None:
        self.hub: Hub = hub
        self.shelf: Shelf = Shelf(
            seconds=options.shelf_seconds,
            each=options.shelved_results,
            chars=options.shelved_chars,
        )
        self.tools: ToolList = ToolList(hub.registry, self._raw_definition)
        self.uris: Uris = Uris(hub)
        limit = options.max_result_chars
        self.calls: Calls = Calls(
            hub, self.tools, bridge, shelf=self.shelf, uris=self.uris, limit=limit
        )
        own = (
            search_tools(hub.registry, self.tools),
            get_tool_definition(self.tools),
            list_tools_by_category(self.tools),
            register_tool(hub.registry),
            unregister_tool(hub.registry, self.tools),
            call_tool(self.calls),
            read_result(self.shelf, page=limit),
        )
        self.surfaces: Surfaces = Surfaces(self.tools, own, options)
        self.changes: Changes = Changes(
            hub,
            group,
            surfaces=self.surfaces,
            sight=self.sight,
            most=options.listeners,
            seconds=options.list_seconds,
        )
        offers = Offers(
            hub,
            group,
            seconds=options.list_seconds,
            fresh=options.ttl_ms / 1000,
            on_late=self.changes.late,
        )
        self.changes.follow(offers)
        self.resources: Resources = Resources(
            hub, offers, self.uris, bridge, own=OwnResources(hub.registry, self.tools)
        )
        self.prompts: Prompts = Prompts(hub, offers, self.uris, bridge)
        self.completions: Completions = Completions(
            hub, offers, bridge, resources=self.resources, prompts=self.prompts
        )
        self.busy: int = 0
        """How many requests are under way."""
        self._options = options
        self._groups: dict[str, Admits] = {}

    def visit(self, exchange: Exchange) -> Visit:
        """Return a request together with what exists for whoever sent it.

        Raises:
            RpcError: when it came to the address of a group that there is not.
        """
        return Visit(exchange, self.sight(exchange.client))

    def sight(self, client: Client) -> Sight:
        """Return what exists for a client.

        Raises:
            RpcError: when it came to the address of a group that there is not.
        """
        group = client.face.group
        if group is None:
            return Sight(client.principal)
        admits = self._groups.get(group)
        if admits is None:
            # What is a group once stays one; what it holds is looked at each time.
            admits = self._groups[group] = group_named(group, self.hub, self._options)
        return Sight(client.principal, admits)

    def close(self) -> None:
        """Stop following the catalogue and the servers."""
        self.changes.close()
        self.tools.close()

    @property
    def is_idle(self) -> bool:
        """True when nobody waits for anything."""
        return not self.busy and not len(self.changes)

    def _raw_definition(self, tool: Tool) -> Mapping[str, Any] | None:
        if tool.server is None:
            return None
        try:
            server, original = self.hub.origin(tool.name)
            return self.hub.server(server).definition(original)
        except (ToolNotFoundError, ServerNotFoundError):
            return None


class Tenants:
    """The tenants that are open. The first one is always; others when somebody asks for them.

    Args:
        first: of whoever has no tenant of their own.
        make: makes a tenant of a hub.
        opens: gives the hubs of others; without it there are none.
        most: how many others are open at once.
    """

    def __init__(
        self,
        first: Tenant,
        make: Callable[[Hub], Tenant],
        opens: OpenTenant | None,
        *,
        most: int,
    ) -> None:
        self.first: Tenant = first
        self._make = make
        self._opens = opens
        self._most = most
        self._others: OrderedDict[str, Tenant] = OrderedDict()
        self._opening = anyio.Lock()

    def open_now(self) -> list[Tenant]:
        """Return all tenants that are open."""
        return [self.first, *self._others.values()]

    def known(self, name: str) -> Tenant | None:
        """Return a tenant if it is open."""
        return self.first if name == DEFAULT_TENANT else self._others.get(name)

    async def find(self, name: str) -> Tenant:
        """Return a tenant, opening it if need be.

        Raises:
            RpcError: when there is no such tenant, or no room for one more.
        """
        tenant = self.known(name)
        if tenant is None:
            async with self._opening:
                tenant = self._others.get(name) or await self._open(name)
        if tenant is not self.first:
            self._others.move_to_end(name)
        return tenant

    async def close(self) -> None:
        """Close all of them; the hub of the first belongs to whoever opened it."""
        self.first.close()
        async with self._opening:
            for name in list(self._others):
                await self._leave(name)

    async def _open(self, name: str) -> Tenant:
        hub = None if self._opens is None else self._opens(name)
        if hub is None:
            raise RpcError(INVALID_REQUEST, f"There is no tenant {name!r} here.")
        if len(self._others) >= self._most:
            idle = next((other for other, it in self._others.items() if it.is_idle), None)
            if idle is None:
                raise RpcError(INVALID_REQUEST, "Too many tenants are busy; try again later.")
            await self._leave(idle)
        await hub.start()
        tenant = self._others[name] = self._make(hub)
        return tenant

    async def _leave(self, name: str) -> None:
        tenant = self._others.pop(name)
        tenant.close()
        await tenant.hub.close()
