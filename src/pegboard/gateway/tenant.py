"""Tenant: the catalogue of one tenant, and all that is kept for its callers."""

from collections.abc import Iterable
from functools import partial

from anyio.abc import TaskGroup

from pegboard.gateway.arrivals import Arrivals
from pegboard.gateway.bridge import Bridge
from pegboard.gateway.call_tool import call_tool
from pegboard.gateway.calls import Calls
from pegboard.gateway.changes import Changes
from pegboard.gateway.completions import Completions
from pegboard.gateway.exchange import Client, Exchange
from pegboard.gateway.get_tool_definition import get_tool_definition
from pegboard.gateway.groups import Groups
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
from pegboard.gateway.sight import Sight
from pegboard.gateway.surfaces import Surfaces
from pegboard.gateway.tool_list import ToolList, raw_definition
from pegboard.gateway.uris import Uris
from pegboard.hub import Hub

__all__ = ["Tenant"]


class Tenant:
    """The catalogue of one tenant, and all that is kept for its callers."""

    def __init__(
        self,
        hub: Hub,
        options: GatewayOptions,
        group: TaskGroup,
        *,
        bridge: Bridge,
        methods: Iterable[str],
    ) -> None:
        self.hub: Hub = hub
        self.shelf: Shelf = Shelf(
            seconds=options.shelf_seconds,
            each=options.shelved_results,
            most=options.shelved_bytes,
        )
        self.tools: ToolList = ToolList(hub.registry, partial(raw_definition, hub))
        self.arrivals: Arrivals = Arrivals(hub, self.tools)
        self.uris: Uris = Uris(hub)
        limit = options.max_result_chars
        self.calls: Calls = Calls(
            hub, self.arrivals, bridge, shelf=self.shelf, uris=self.uris, limit=limit
        )
        own = (
            search_tools(hub.registry, self.tools, self.arrivals, methods=methods),
            get_tool_definition(self.tools, self.arrivals),
            list_tools_by_category(self.tools, self.arrivals),
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
            hub, offers, self.uris, bridge, resources=self.resources, prompts=self.prompts
        )
        self.busy: int = 0
        """How many requests are under way."""
        self._groups = Groups(hub, options)

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
        return Sight(client.principal, self._groups.admits(group, client.principal))

    def close(self) -> None:
        """Stop following the catalogue and the servers."""
        self.changes.close()
        self.tools.close()

    @property
    def is_idle(self) -> bool:
        """True when nobody waits for anything."""
        return not self.busy and not self.changes.is_awaited
