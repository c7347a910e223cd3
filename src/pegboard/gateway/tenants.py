"""Tenants: isolated catalogues with their own servers, opened on demand and closed when idle."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import chain
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup
from mcp_types import INTERNAL_ERROR, INVALID_REQUEST

from pegboard.errors import PegboardError
from pegboard.gateway.builtin_tool import CallerContext
from pegboard.gateway.calls.era_bridge import Bridge
from pegboard.gateway.calls.result_cache import ResultCache
from pegboard.gateway.calls.run_call import CallRunner
from pegboard.gateway.calls.suspended_calls import OpenQuestion, SuspendedCalls
from pegboard.gateway.catalog.apps import Apps, definition_with_page
from pegboard.gateway.catalog.group_addresses import ApprovedServer, Groups
from pegboard.gateway.catalog.startup_wait import StartupWait
from pegboard.gateway.catalog.surfaces import Surfaces
from pegboard.gateway.catalog.tool_list import ToolList
from pegboard.gateway.notifications import ChangeNotifier, NotificationShares
from pegboard.gateway.options import GatewayOptions
from pegboard.gateway.passthrough.completions import Completions
from pegboard.gateway.passthrough.listing_cache import ListingCache
from pegboard.gateway.passthrough.prompts import Prompts
from pegboard.gateway.passthrough.resources import OwnResources, Resources
from pegboard.gateway.request import Client, ClientRequest, RpcError
from pegboard.gateway.resource_uris import ResourceUris
from pegboard.gateway.skills.tenant_skills import TenantSkills
from pegboard.gateway.tasks.task_methods import TaskMethods
from pegboard.gateway.tools.call_tool import call_tool
from pegboard.gateway.tools.get_skill import get_skill
from pegboard.gateway.tools.get_tool_definition import get_tool_definition
from pegboard.gateway.tools.list_tools_by_category import list_tools_by_category
from pegboard.gateway.tools.read_result import read_result
from pegboard.gateway.tools.register_tool import register_tool, unregister_tool
from pegboard.gateway.tools.registration_quota import RegisteredTools
from pegboard.gateway.tools.search_tools import search_tools
from pegboard.gateway.visibility import Visibility
from pegboard.hub import Hub
from pegboard.model import Tool
from pegboard.model.principal import DEFAULT_TENANT, Principal
from pegboard.observe.call_reporter import CallReporter
from pegboard.policies.fair_share import FairShare, LimitUse
from pegboard.upstream.messages.extensions import UI, declares

__all__ = ["Common", "OpenTenant", "Tenant", "Tenants"]

logger: logging.Logger = logging.getLogger("pegboard.gateway")

OpenTenant = Callable[[str], Hub | None]
"""Returns the hub of a tenant, not yet open; ``None`` if there is no such tenant."""


class Common:
    """What all tenants share: tasks, parked calls, cached results, limits, the reporter."""

    def __init__(
        self,
        options: GatewayOptions,
        group: TaskGroup,
        reporter: CallReporter,
        *,
        tasks: TaskMethods,
    ) -> None:
        self.reporter: CallReporter = reporter
        self.tasks: TaskMethods = tasks
        self.suspended_calls: SuspendedCalls = SuspendedCalls(
            group,
            seconds=options.parked_seconds,
            most=options.parked_calls,
            each=options.parked_each,
        )
        self.result_cache: ResultCache = ResultCache(
            seconds=options.result_cache_seconds,
            each=options.result_cache_results,
            most=options.result_cache_bytes,
        )
        self.notifications: NotificationShares = NotificationShares(
            listeners=FairShare("listeners", options.listeners, setting="gateway.listeners"),
            watches=FairShare(
                "watched resources", options.watched_resources, setting="gateway.watched_resources"
            ),
        )

    def questions(self) -> list[OpenQuestion]:
        """Return the questions that wait for a person, of all callers."""
        of_tasks = (it.open_questions() for it in self.tasks.tasks.live.values())
        return [*self.suspended_calls.questions(), *chain.from_iterable(of_tasks)]

    def answer(self, question: OpenQuestion, response: Mapping[str, Any]) -> bool:
        """Answer a question in place of the client; return whether it was still open."""
        if question.kind == "call":
            return self.suspended_calls.answer(question, response)
        running = self.tasks.tasks.live.get(question.id)
        if running is None or question.key not in running.asked:
            return False
        running.take({question.key: response})
        return True

    def limits(self) -> list[LimitUse]:
        """Return how much is used up of each limit."""
        shares = (self.suspended_calls.shares, *self.notifications, self.result_cache.shares)
        return [*(it.use() for it in shares), *self.tasks.tasks.limits()]


class Tenant:
    """The catalogue of one tenant, and the state of its callers."""

    def __init__(
        self,
        hub: Hub,
        options: GatewayOptions,
        group: TaskGroup,
        *,
        bridge: Bridge,
        methods: Iterable[str],
        common: Common,
    ) -> None:
        self.hub: Hub = hub
        self.uris: ResourceUris = ResourceUris(hub, apps=options.apps)
        self.tools: ToolList = ToolList(hub.registry, partial(definition_with_page, hub, self.uris))
        self.tasks: TaskMethods = common.tasks
        self.startup_wait: StartupWait = StartupWait(hub, self.tools)
        self.skills: TenantSkills = TenantSkills(
            hub,
            group,
            self.uris,
            seconds=options.list_seconds,
            ttl_ms=options.ttl_ms,
            on_change=lambda skills: self.changes.skills_changed(skills, self.skills.catalog),
        )
        self.registered: RegisteredTools = RegisteredTools(
            hub.registry, most=options.registered_tools, most_bytes=options.registered_bytes
        )
        limit = options.max_result_chars
        self.calls: CallRunner = CallRunner(
            hub,
            self.startup_wait,
            bridge,
            result_cache=common.result_cache,
            uris=self.uris,
            apps=Apps(hub, self.tools, self.uris),
            limit=limit,
            reporter=common.reporter,
        )
        own = (
            search_tools(
                hub,
                self.startup_wait,
                self.skills,
                methods=methods,
                default=options.search_method,
            ),
            get_tool_definition(self.tools, self.startup_wait),
            get_skill(self.skills, common.result_cache, limit=options.max_skill_chars),
            list_tools_by_category(self.tools, self.startup_wait),
            register_tool(hub.registry, self.registered),
            unregister_tool(hub.registry, self.tools, self.registered),
            call_tool(self.calls, hub.registry),
            read_result(common.result_cache, page=limit),
        )
        self.surfaces: Surfaces = Surfaces(
            self.tools, own, options, shows_skills=self.skills.catalog.shows_any
        )
        self.changes: ChangeNotifier = ChangeNotifier(
            hub,
            group,
            surfaces=self.surfaces,
            visibility=self.visibility,
            shares=common.notifications,
            tasks=common.tasks,
            seconds=options.list_seconds,
        )
        listings = ListingCache(
            hub,
            group,
            seconds=options.list_seconds,
            fresh=options.ttl_ms / 1000,
            on_late=self.changes.late,
        )
        self.changes.follow(listings)
        self.resources: Resources = Resources(
            hub,
            listings,
            self.uris,
            bridge,
            own=OwnResources(hub.registry, self.tools),
            skills=self.skills,
        )
        self.prompts: Prompts = Prompts(hub, listings, self.uris, bridge, skills=self.skills)
        self.completions: Completions = Completions(
            hub, listings, self.uris, bridge, resources=self.resources, prompts=self.prompts
        )
        self.busy: int = 0
        """How many requests run."""
        self._groups = Groups(hub, options)
        self._has_apps = options.apps

    def __enter__(self) -> None:
        """Count a request that runs: the tenant stays open until it ends."""
        self.busy += 1

    def __exit__(self, *_: object) -> None:
        self.busy -= 1

    def caller(self, request: ClientRequest) -> CallerContext:
        """Return a request with the visibility of its client.

        Raises:
            RpcError: when the address of the client names no group that it may see.
        """
        return CallerContext(request, self.visibility(request.client))

    def shown(self, name: object, visibility: Visibility) -> Tool | None:
        """Return a tool that a client may see now, or ``None``."""
        return self.tools.get(name, visibility)

    def visibility(self, client: Client) -> Visibility:
        """Return the part of the catalogue that a client may see.

        Raises:
            RpcError: when the address of the client names no group that it may see.
        """
        group, can = client.face.group, client.capabilities
        apps = self._has_apps and "extensions" in can and declares(can, UI)
        if group is None:
            return Visibility(client.principal, apps=apps)
        admits = self._groups.admits(group, client.principal)
        return Visibility(client.principal, admits, apps=apps)

    def approved_servers(self, principal: Principal) -> list[ApprovedServer]:
        """Return the servers with an address of their own that a caller may know."""
        return self._groups.servers(principal, self.tools)

    def close(self) -> None:
        """Stop following the catalogue and the servers."""
        self.changes.close()
        self.skills.close()
        self.tools.close()
        self.registered.close()

    def limits(self, name: str) -> list[LimitUse]:
        """Return how much is used up of the limits of this tenant, with its name."""
        used = self.registered.use()
        used += [it for server in self.hub.enabled_servers() for it in server.limits()]
        return [msgspec.structs.replace(it, name=f"{it.name} ({name})") for it in used]

    @property
    def is_idle(self) -> bool:
        """True when no request runs and no client waits for changes."""
        return not self.busy and not self.changes.is_awaited


class Tenants:
    """The open tenants. The first one is always open; a request opens any other on demand.

    Each tenant has its own task that opens or closes it. So no caller waits for the servers of
    another tenant, and opening goes on when the first caller disconnects.

    Args:
        first: the default tenant.
        make: makes a tenant of a hub.
        opens: returns the hubs of other tenants; without it there are none.
        group: runs the tasks that open them; it is cancelled before the tenants close.
        most: how many other tenants are open at once.
        common: tells whether calls of a tenant are parked, and results cached.
    """

    def __init__(
        self,
        first: Tenant,
        make: Callable[[Hub], Tenant],
        opens: OpenTenant | None,
        group: TaskGroup,
        *,
        most: int,
        common: Common,
    ) -> None:
        self.first: Tenant = first
        self._make = make
        self._opens = opens
        self._group = group
        self._most = self._free = most
        self._common = common
        self._is_closed = False
        self._others: OrderedDict[str, Tenant] = OrderedDict()
        self._transitions: dict[str, _Transition] = {}

    def use(self) -> LimitUse:
        """Return how many tenants are open, besides the first."""
        used = self._most - self._free
        return LimitUse(
            name="open tenants", used=used, limit=self._most, setting="gateway.open_tenants"
        )

    def by_name(self) -> dict[str, Tenant]:
        """Return all open tenants by their names."""
        return {DEFAULT_TENANT: self.first, **self._others}

    def open_now(self) -> list[Tenant]:
        """Return all open tenants."""
        return [self.first, *self._others.values()]

    def known(self, name: str) -> Tenant | None:
        """Return a tenant, or ``None`` if it is not open."""
        if name == DEFAULT_TENANT:
            return self.first
        tenant = self._others.get(name)
        if tenant is not None:
            self._others.move_to_end(name)
        return tenant

    async def find(self, name: str) -> Tenant:
        """Return a tenant, and open it if necessary.

        Raises:
            RpcError: when there is no such tenant, or no room for one more.
        """
        while (tenant := self.known(name)) is None:
            transition = self._transitions.get(name)
            if transition is None:
                transition = self._transitions[name] = _Transition()
                self._group.start_soon(self._open, name, transition)
            await transition.over.wait()
            if transition.error is not None:
                raise transition.error.with_traceback(None)
        return tenant

    async def hub_of(self, name: str) -> Hub | None:
        """Return the hub of a tenant other than the first, if it is open or opening."""
        transition = self._transitions.get(name)
        if transition is not None:
            await transition.over.wait()
        tenant = self._others.get(name)
        return None if tenant is None else tenant.hub

    async def close(self) -> None:
        """Close all tenants, but not the hub of the first: the program that opened it closes it."""
        self._is_closed = True
        self.first.close()
        async with anyio.create_task_group() as group:
            for name in list(self._others):
                group.start_soon(self._leave, name)

    async def _open(self, name: str, transition: "_Transition") -> None:
        transition.error = _shutting_down()
        try:
            hub = None if self._opens is None else self._opens(name)
            if hub is None:
                raise RpcError(INVALID_REQUEST, f"There is no tenant {name!r} here.")  # noqa: TRY301 - handled as any other
            await self._take_place()
            try:
                self._others[name] = await self._start(hub)
            except BaseException:
                self._free += 1
                raise
            transition.error = None
        except RpcError as error:
            transition.error = error
        except Exception as error:
            # The caller does not get the reason: it may name files and addresses.
            bug = None if isinstance(error, PegboardError) else error
            context = {"tenant": name, "reason": str(error)}
            logger.error("tenant_not_opened: %r: %s", name, error, exc_info=bug, extra=context)  # noqa: TRY400 - only of bugs
            transition.error = RpcError(
                INTERNAL_ERROR, f"Tenant {name!r} cannot be served just now."
            )
        finally:
            del self._transitions[name]
            transition.over.set()

    async def _take_place(self) -> None:
        if self._free:
            self._free -= 1
            return
        waits = self._common.suspended_calls.waits_in
        idle = [name for name, it in self._others.items() if it.is_idle and not waits(name)]
        if not idle:
            raise RpcError(INVALID_REQUEST, "Too many tenants are busy; try again later.")
        # The least recently used goes first, but tenants with cached results go last of all.
        await self._leave(min(idle, key=self._common.result_cache.has_results_of))

    async def _start(self, hub: Hub) -> Tenant:
        await hub.start(wait=False)
        if self._is_closed:
            await hub.close()
            raise _shutting_down()
        return self._make(hub)

    async def _leave(self, name: str) -> None:
        tenant = self._others.pop(name)
        transition = self._transitions[name] = _Transition()
        try:
            tenant.close()
            await tenant.hub.close()
        except Exception:
            # The tenant is gone all the same, and its place is free.
            logger.exception("tenant_not_closed: %r", name, extra={"tenant": name})
        finally:
            del self._transitions[name]
            transition.over.set()


class _Transition:
    """A tenant that is opening or closing."""

    def __init__(self) -> None:
        self.over = anyio.Event()
        self.error: RpcError | None = None


def _shutting_down() -> RpcError:
    return RpcError(INTERNAL_ERROR, "The gateway is shutting down; try again elsewhere.")
