"""Tenants: everything that belongs to one of them, and nothing of it to another."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial

import anyio
from anyio.abc import TaskGroup
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST

from pegboard.errors import PegboardError
from pegboard.gateway.builtin_tool import CallerContext
from pegboard.gateway.calls.era_bridge import Bridge
from pegboard.gateway.calls.result_cache import ResultCache
from pegboard.gateway.calls.run_call import CallRunner
from pegboard.gateway.catalog.groups import Groups
from pegboard.gateway.catalog.startup_wait import StartupWait
from pegboard.gateway.catalog.surfaces import Surfaces
from pegboard.gateway.catalog.tool_list import ToolList, raw_definition
from pegboard.gateway.notifications import ChangeNotifier
from pegboard.gateway.options import GatewayOptions
from pegboard.gateway.passthrough.completions import Completions
from pegboard.gateway.passthrough.listing_cache import ListingCache
from pegboard.gateway.passthrough.own_resources import OwnResources
from pegboard.gateway.passthrough.prompts import Prompts
from pegboard.gateway.passthrough.resources import Resources
from pegboard.gateway.request import Client, ClientRequest, RpcError
from pegboard.gateway.resource_uris import ResourceUris
from pegboard.gateway.tools.call_tool import call_tool
from pegboard.gateway.tools.get_tool_definition import get_tool_definition
from pegboard.gateway.tools.list_tools_by_category import list_tools_by_category
from pegboard.gateway.tools.read_result import read_result
from pegboard.gateway.tools.register_tool import register_tool, unregister_tool
from pegboard.gateway.tools.search_tools import search_tools
from pegboard.gateway.visibility import Visibility
from pegboard.hub import Hub
from pegboard.model.principal import DEFAULT_TENANT

__all__ = ["OpenTenant", "Tenant", "Tenants"]


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
        self.result_cache: ResultCache = ResultCache(
            seconds=options.result_cache_seconds,
            each=options.result_cache_results,
            most=options.result_cache_bytes,
        )
        self.tools: ToolList = ToolList(hub.registry, partial(raw_definition, hub))
        self.arrivals: StartupWait = StartupWait(hub, self.tools)
        self.uris: ResourceUris = ResourceUris(hub)
        limit = options.max_result_chars
        self.calls: CallRunner = CallRunner(
            hub, self.arrivals, bridge, result_cache=self.result_cache, uris=self.uris, limit=limit
        )
        own = (
            search_tools(
                hub.registry,
                self.tools,
                self.arrivals,
                methods=methods,
                default=options.search_method,
            ),
            get_tool_definition(self.tools, self.arrivals),
            list_tools_by_category(self.tools, self.arrivals),
            register_tool(hub.registry),
            unregister_tool(hub.registry, self.tools),
            call_tool(self.calls),
            read_result(self.result_cache, page=limit),
        )
        self.surfaces: Surfaces = Surfaces(self.tools, own, options)
        self.changes: ChangeNotifier = ChangeNotifier(
            hub,
            group,
            surfaces=self.surfaces,
            visibility=self.visibility,
            most=options.listeners,
            seconds=options.list_seconds,
        )
        offers = ListingCache(
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

    def caller(self, exchange: ClientRequest) -> CallerContext:
        """Return a request together with what exists for whoever sent it.

        Raises:
            RpcError: when it came to the address of a group that there is not.
        """
        return CallerContext(exchange, self.visibility(exchange.client))

    def visibility(self, client: Client) -> Visibility:
        """Return what exists for a client.

        Raises:
            RpcError: when it came to the address of a group that there is not.
        """
        group = client.face.group
        if group is None:
            return Visibility(client.principal)
        return Visibility(client.principal, self._groups.admits(group, client.principal))

    def close(self) -> None:
        """Stop following the catalogue and the servers."""
        self.changes.close()
        self.tools.close()

    @property
    def is_idle(self) -> bool:
        """True when nobody waits for anything."""
        return not self.busy and not self.changes.is_awaited


logger: logging.Logger = logging.getLogger("pegboard.gateway")

OpenTenant = Callable[[str], Hub | None]
"""Gives the hub of a tenant, not open yet; ``None`` when there is no such tenant."""


class Tenants:
    """The tenants that are open. The first one is always; others when somebody asks for them.

    Each is opened and closed by a task of its own: nobody waits for the servers of another, and
    whoever asked first may leave.

    Args:
        first: of whoever has no tenant of their own.
        make: makes a tenant of a hub.
        opens: gives the hubs of others; without it there are none.
        group: whose tasks open them; cancelled before they are closed.
        most: how many others are open at once.
        waits: tells whether calls of a tenant are parked.
    """

    def __init__(
        self,
        first: Tenant,
        make: Callable[[Hub], Tenant],
        opens: OpenTenant | None,
        group: TaskGroup,
        *,
        most: int,
        waits: Callable[[str], bool],
    ) -> None:
        self.first: Tenant = first
        self._make = make
        self._opens = opens
        self._group = group
        self._free = most
        self._waits = waits
        self._is_closed = False
        self._others: OrderedDict[str, Tenant] = OrderedDict()
        self._turning: dict[str, _Turn] = {}

    def open_now(self) -> list[Tenant]:
        """Return all tenants that are open."""
        return [self.first, *self._others.values()]

    def known(self, name: str) -> Tenant | None:
        """Return a tenant if it is open."""
        if name == DEFAULT_TENANT:
            return self.first
        tenant = self._others.get(name)
        if tenant is not None:
            self._others.move_to_end(name)
        return tenant

    async def find(self, name: str) -> Tenant:
        """Return a tenant, opening it if need be.

        Raises:
            RpcError: when there is no such tenant, or no room for one more.
        """
        while (tenant := self.known(name)) is None:
            turn = self._turning.get(name)
            if turn is None:
                turn = self._turning[name] = _Turn()
                self._group.start_soon(self._open, name, turn)
            await turn.over.wait()
            if turn.error is not None:
                raise turn.error.with_traceback(None)
        return tenant

    async def hub_of(self, name: str) -> Hub | None:
        """Return the hub of a tenant besides the first, if it is open or just being opened."""
        turn = self._turning.get(name)
        if turn is not None:
            await turn.over.wait()
        tenant = self._others.get(name)
        return None if tenant is None else tenant.hub

    async def close(self) -> None:
        """Close all of them; the hub of the first belongs to whoever opened it."""
        self._is_closed = True
        self.first.close()
        async with anyio.create_task_group() as group:
            for name in list(self._others):
                group.start_soon(self._leave, name)

    async def _open(self, name: str, turn: "_Turn") -> None:
        turn.error = _shutting_down()
        try:
            hub = None if self._opens is None else self._opens(name)
            if hub is None:
                raise RpcError(INVALID_REQUEST, f"There is no tenant {name!r} here.")  # noqa: TRY301 - told as any other
            await self._take_place()
            try:
                self._others[name] = await self._start(hub)
            except BaseException:
                self._free += 1
                raise
            turn.error = None
        except RpcError as error:
            turn.error = error
        except Exception as error:
            # Not for whoever asks: it may tell of files and addresses.
            bug = None if isinstance(error, PegboardError) else error
            context = {"tenant": name, "reason": str(error)}
            logger.error("tenant_not_opened: %r: %s", name, error, exc_info=bug, extra=context)  # noqa: TRY400 - only of bugs
            turn.error = RpcError(INTERNAL_ERROR, f"Tenant {name!r} cannot be served just now.")
        finally:
            del self._turning[name]
            turn.over.set()

    async def _take_place(self) -> None:
        if self._free:
            self._free -= 1
            return
        idle = [name for name, it in self._others.items() if it.is_idle and not self._waits(name)]
        if not idle:
            raise RpcError(INVALID_REQUEST, "Too many tenants are busy; try again later.")
        # Whoever was here last stays; results that somebody may still read go last of all.
        await self._leave(min(idle, key=lambda name: len(self._others[name].result_cache) > 0))

    async def _start(self, hub: Hub) -> Tenant:
        await hub.start(wait=False)
        if self._is_closed:
            await hub.close()
            raise _shutting_down()
        return self._make(hub)

    async def _leave(self, name: str) -> None:
        tenant = self._others.pop(name)
        turn = self._turning[name] = _Turn()
        try:
            tenant.close()
            await tenant.hub.close()
        except Exception:
            # It is gone all the same, and its place is free.
            logger.exception("tenant_not_closed: %r", name, extra={"tenant": name})
        finally:
            del self._turning[name]
            turn.over.set()


class _Turn:
    """A tenant that is being opened, or closed."""

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.error: RpcError | None = None


def _shutting_down() -> RpcError:
    return RpcError(INTERNAL_ERROR, "The gateway is shutting down; try again elsewhere.")
