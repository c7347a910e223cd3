"""Gateway: answers the requests of MCP clients on any transport, and drains them at shutdown."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Self

import anyio
from anyio import AsyncContextManagerMixin
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from msgspec.structs import replace

from pegboard.errors import ConfigError, PegboardError
from pegboard.gateway.builtin_tool import CallerContext
from pegboard.gateway.calls.era_bridge import Bridge, client_key
from pegboard.gateway.calls.suspended_calls import OpenQuestion
from pegboard.gateway.catalog.group_addresses import ApprovedServer
from pegboard.gateway.eras import for_client
from pegboard.gateway.errors import CutOffError, rpc_error_of
from pegboard.gateway.options import GatewayOptions
from pegboard.gateway.request import Channel, Client, ClientRequest, Face, RpcError
from pegboard.gateway.router import Router
from pegboard.gateway.scopes import MissingScopeError, missing_scope, own_tool_in
from pegboard.gateway.sessions import ClientSession, Sessions
from pegboard.gateway.tasks import core_tasks
from pegboard.gateway.tasks.record import TaskRecord
from pegboard.gateway.tasks.table import TaskTable
from pegboard.gateway.tasks.task_methods import TaskMethods
from pegboard.gateway.tasks.tasks import Tasks
from pegboard.gateway.tasks.upkeep import TaskUpkeep
from pegboard.gateway.tenants import Common, OpenTenant, Tenant, Tenants
from pegboard.hub import Hub
from pegboard.model.principal import DEFAULT_TENANT, Principal, Scope
from pegboard.observe.call_reporter import CallReporter
from pegboard.policies.fair_share import LimitUse
from pegboard.storage import Store
from pegboard.upstream.messages.extensions import ANNOUNCED_EXTENSIONS, SKILLS, UI, without
from pegboard.upstream.messages.protocol import TASKS
from pegboard.version import installed_version

__all__ = ["Gateway"]

_LISTEN = "subscriptions/listen"
_SHOWN = 100
_VERSION = installed_version()
_STOPPING = 1.0
"""Seconds that each step of a shutdown may take."""
_TELLING = 0.1
"""Seconds in which requests that waited for a server get their errors."""


class Gateway(AsyncContextManagerMixin):
    """One MCP endpoint in front of a hub, for clients of both eras; use it with ``async with``.

    Args:
        hub: its tools, resources and prompts are served. The program that opened the hub closes it.
            Open it with ``relays_questions``, so that servers know that they may ask the client,
            and with ``relays_apps``, so that they offer their MCP Apps.
        options: see `GatewayOptions`.
        open_tenant: returns the hub of another tenant; the gateway opens and closes it.
        reporter: is told of each call; it must observe the registries of the hubs, too.
        store: keeps tasks, so that they survive a restart; ``None`` keeps them in memory.

    Raises:
        ConfigError: on entering, when `search_method` of the options is no method of the hub.
    """

    def __init__(
        self,
        hub: Hub,
        options: GatewayOptions | None = None,
        *,
        open_tenant: OpenTenant | None = None,
        reporter: CallReporter | None = None,
        store: Store | None = None,
    ) -> None:
        self.options: GatewayOptions = options or GatewayOptions()
        self.info: dict[str, Any] = {"name": self.options.name, "version": _VERSION}
        """The ``serverInfo`` that clients get."""
        self._hub = hub
        self._open_tenant = open_tenant
        self._reporter = CallReporter() if reporter is None else reporter
        self._store = store
        self._sessions = Sessions()
        self._router = Router(self.options, self._sessions, introduction=self._introduction)
        self._tenants: Tenants | None = None
        self._common: Common | None = None
        self._group: TaskGroup | None = None
        self._is_draining = False
        self._running: set[anyio.CancelScope] = set()
        self._idle = anyio.Event()

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator[Self]:
        raised: BaseException | None = None
        # In a thread: finding plug-ins reads the disk.
        methods = await run_sync(self._hub.registry.search_engine.methods)
        self._check_search_method(methods)
        async with anyio.create_task_group() as group:
            tenants = self._tenants = self._make_tenants(group, methods)
            self._group = group
            group.start_soon(self._upkeep(tenants).run)
            try:
                yield self
            except anyio.get_cancelled_exc_class():
                raise
            except BaseException as error:  # noqa: BLE001 - raised again below, alone
                raised = error
            finally:
                self._group = self._tenants = None
                group.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):  # every wait in it has a limit
                    await tenants.close()
        if raised is not None:
            raise raised

    @property
    def is_ready(self) -> bool:
        """True while the gateway accepts requests: it is open and not draining."""
        return self._tenants is not None and not self._is_draining

    @property
    def busy(self) -> int:
        """How many requests run; requests that only listen do not count."""
        return len(self._running)

    @property
    def instructions(self) -> str:
        """The instructions for a model on the search surface."""
        return self.instructions_for(Face())

    def instructions_for(self, face: Face) -> str:
        """Return the instructions for a model; empty on the full surface."""
        return _SEARCH_WORDS if face.surface == "search" else ""

    def capabilities(self, client_version: str, client: Client | None = None) -> dict[str, Any]:
        """Return the capabilities of the gateway, for a client with this protocol version.

        The extension for skills is among them if the tenant of the client may have any.
        """
        can: dict[str, Any] = {
            "tools": {"listChanged": True},
            "resources": {"listChanged": True, "subscribe": True},
            "prompts": {"listChanged": True},
            "logging": {},
        }
        extensions = dict(ANNOUNCED_EXTENSIONS)
        for extension in self._withheld(client_version, client):
            extensions.pop(extension, None)
        if extensions:
            can["extensions"] = extensions
        if client_version == core_tasks.VERSION and self.options.tasks:
            can["tasks"] = core_tasks.CAPABILITY
        return can if client_version == "2024-11-05" else {**can, "completions": {}}

    def _withheld(self, client_version: str, client: Client | None) -> list[str]:
        """Return the extensions that a client is not told of."""
        name = DEFAULT_TENANT if client is None else client.principal.tenant
        tenant = None if self._tenants is None else self._tenants.known(name)
        has_tasks = self.options.tasks and client_version in MODERN_PROTOCOL_VERSIONS
        has_skills = tenant is None or tenant.skills.methods.are_offered
        offered = {UI: self.options.apps, SKILLS: has_skills, TASKS: has_tasks}
        return [extension for extension, is_offered in offered.items() if not is_offered]

    async def respond(self, request: ClientRequest) -> dict[str, Any]:
        """Return the raw result of a request, as a client of its era expects it.

        Raises:
            RpcError: the error that the client gets instead of a result.
        """
        if "extensions" in request.client.capabilities and not self.options.apps:
            request = _without_apps(request)
        method, client = request.method, request.client
        handler = self._router.find(method, client.era)
        if handler is None:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method[:_SHOWN]}")
        tenants = self._tenants
        if tenants is None or self._is_draining:
            raise _shutting_down()
        with anyio.CancelScope() as scope:
            self._begin(scope, method)
            try:
                name = client.principal.tenant
                tenant = tenants.known(name) or await self._found(name, tenants)
                with tenant:
                    caller = tenant.caller(request)
                    missing = missing_scope(request, self.options)
                    if missing is not None:
                        raise MissingScopeError(missing, client.principal)
                    result = await handler(tenant, caller)
            except PegboardError as error:
                raise rpc_error_of(error, client.principal) from error
            except RecursionError:
                raise RpcError(INVALID_PARAMS, "The request is nested too deeply.") from None
            finally:
                self._end(scope)
            return for_client(result, client, method=method, info=self.info)
        raise CutOffError

    async def admit(self, client: Client) -> None:
        """Refuse a client whose address names no group that it may see.

        Raises:
            RpcError: when there is no such group, or the gateway is shutting down.
        """
        tenants = self._tenants
        if tenants is None:
            raise _shutting_down()
        tenant = await self._found(client.principal.tenant, tenants)
        tenant.visibility(client)

    async def hub_of(self, tenant: str) -> Hub | None:
        """Return the hub of a tenant other than the first, if it is open or opening."""
        return None if self._tenants is None else await self._tenants.hub_of(tenant)

    def questions(self) -> list[OpenQuestion]:
        """Return the questions of servers that wait for a person, of all callers."""
        return [] if self._common is None else self._common.questions()

    def answer(self, question: OpenQuestion, response: Mapping[str, Any]) -> bool:
        """Answer a question in place of the client; return whether it was still open."""
        return self._common is not None and self._common.answer(question, response)

    async def tenant_of(self, principal: Principal) -> Tenant:
        """Return the tenant of a caller, and open it if necessary.

        Raises:
            RpcError: when there is no such tenant, or the gateway is shutting down.
        """
        tenants = self._tenants
        if tenants is None or self._is_draining:
            raise _shutting_down()
        return await self._found(principal.tenant, tenants)

    async def approved_servers(self, principal: Principal) -> list[ApprovedServer]:
        """Return the servers of a caller's tenant that it may know, for a registry of servers.

        Raises:
            RpcError: when there is no such tenant, or the gateway is shutting down.
        """
        return (await self.tenant_of(principal)).approved_servers(principal)

    async def learn_skills(self) -> None:
        """Wait, but not long, until a search of the operator finds the skills, too."""
        if self._tenants is not None:
            await self._tenants.first.skills.learn()

    def own_tool(self, request: ClientRequest) -> str:
        """Return the name of the gateway's own tool that a request calls, or ``""``."""
        return own_tool_in(request, self.options)

    def missing_scope(self, request: ClientRequest) -> Scope | None:
        """Return the scope that a request needs and its caller lacks, or ``None``."""
        return missing_scope(request, self.options)

    def parked(self, request: ClientRequest) -> int:
        """Return how many calls of a caller are parked or tasks, without the one that this resumes.

        Raises:
            RpcError: when the request cannot be read.
        """
        common = self._common
        if common is None:
            return 0
        running = common.tasks.tasks.count(request.client.principal)
        return common.suspended_calls.count(request) + running

    def limits(self) -> list[LimitUse]:
        """Return how much is used up of each limit that callers share; for the operator."""
        tenants, common = self._tenants, self._common
        if tenants is None or common is None:
            return []
        of_tenants = [it for name, of in tenants.by_name().items() for it in of.limits(name)]
        return [*common.limits(), tenants.use(), *of_tenants]

    async def notified(self, request: ClientRequest) -> None:
        """Handle a notification from a client."""
        tenant = self._known(request.client)
        if tenant is not None and request.method == "notifications/roots/list_changed":
            await tenant.hub.roots_changed(client_key(request.client))

    def clients(self, tenant: str) -> list[Client]:
        """Return the clients of a tenant with a session, and those that listen for changes.

        A modern client that does not listen is known only while a request of it runs.
        """
        opened = None if self._tenants is None else self._tenants.known(tenant)
        listening = [] if opened is None else opened.changes.clients()
        modern = [it for it in listening if it.era == "modern"]
        return [*(it.client for it in self._sessions.of(tenant)), *modern]

    def connected(self, client: Client, channel: Channel) -> None:
        """Add a session of the handshake era, with the channel to its client."""
        self.disconnected(client.session)
        session = self._sessions.open(client, channel)
        if self._group is not None:
            self._group.start_soon(self._join, session)

    def disconnected(self, session: str) -> None:
        """Remove a session of the handshake era."""
        left = self._sessions.close(session)
        if left is not None and self._group is not None:
            self._group.start_soon(self._leave, left)

    async def drain(self, seconds: float) -> None:
        """Refuse new requests, and wait for the running ones, but not longer than this.

        When the time is over, or this call is cancelled, the gateway cancels the remaining requests
        and answers them with `CutOffError`. A request that still waits for a server to start gets
        an error that says that the server was not asked.
        """
        self._is_draining = True
        tenants = [] if self._tenants is None else self._tenants.open_now()
        for tenant in tenants:
            tenant.changes.end_requests()
        if self._common is not None:
            self._common.tasks.tasks.let_go()
        try:
            await self._idle_within(seconds)
        finally:
            with anyio.CancelScope(shield=True):  # every wait in it has a limit
                with anyio.move_on_after(_STOPPING):
                    async with anyio.create_task_group() as group:
                        for tenant in tenants if self._running else ():
                            group.start_soon(tenant.hub.stop_starting)
                await self._idle_within(_TELLING)
                for scope in self._running:
                    scope.cancel()
                await self._idle_within(_STOPPING)

    async def _idle_within(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            while self._running:
                self._idle = anyio.Event()
                await self._idle.wait()

    def _begin(self, scope: anyio.CancelScope, method: str) -> None:
        """Let a drain wait for a request, or cancel it; a drain does not wait for listeners."""
        if method != _LISTEN:
            self._running.add(scope)

    def _track(self, scope: anyio.CancelScope) -> Callable[[], None]:
        """Let a drain wait for the call of a task, too; call the result when it has ended."""
        self._running.add(scope)
        return partial(self._end, scope)

    def _end(self, scope: anyio.CancelScope) -> None:
        self._running.discard(scope)
        if not self._running:
            self._idle.set()

    async def _found(self, name: str, tenants: Tenants) -> Tenant:
        tenant = await tenants.find(name)
        for session in self._sessions.of(name):
            # These sessions were open while the tenant was closed.
            if session.listener is not None:
                tenant.changes.open_session(session)
        return tenant

    def _check_search_method(self, known: tuple[str, ...]) -> None:
        method = self.options.search_method
        if method not in known:
            words = f"`search_method` of the gateway is one of {', '.join(known)}, not {method!r}."
            raise ConfigError(words)

    def _make_tenants(self, group: TaskGroup, methods: tuple[str, ...]) -> Tenants:
        options = self.options
        tasks = Tasks(options, group, TaskTable(self._store), track=self._track)
        tasks.on_change = self._task_changed
        methods_of_tasks = TaskMethods(tasks, self._sessions, self.info)
        common = self._common = Common(options, group, self._reporter, tasks=methods_of_tasks)

        def make(hub: Hub) -> Tenant:
            bridge = Bridge(common.suspended_calls, self._sessions)
            return Tenant(hub, options, group, bridge=bridge, methods=methods, common=common)

        opens, most = self._open_tenant, options.open_tenants
        return Tenants(make(self._hub), make, opens, group, most=most, common=common)

    def _upkeep(self, tenants: Tenants) -> TaskUpkeep:
        assert self._common is not None, "it is made with the tenants"
        methods = self._common.tasks

        async def resume(caller: CallerContext, record: TaskRecord) -> dict[str, Any]:
            assert record.upstream is not None, "else there is nothing to ask for"
            tenant = await self._found(record.tenant, tenants)
            with tenant:
                return await tenant.calls.resume(
                    caller, record.tool, record.upstream, relays=record.relays
                )

        return TaskUpkeep(methods.tasks, resume, methods.core.push)

    def _task_changed(self, record: TaskRecord, client: Client | None) -> None:
        """Notify the session that began a task, if it is open, and the clients that follow it."""
        tenant = None if self._tenants is None else self._tenants.known(record.tenant)
        if tenant is not None:
            tenant.changes.task_changed(record.id)
        session = None if client is None else self._sessions.find(client)
        if session is not None and self._group is not None:
            params = core_tasks.as_params(record)
            self._group.start_soon(session.channel.notify, core_tasks.STATUS_NOTIFICATION, params)

    def _introduction(self, client: Client) -> dict[str, Any]:
        words = self.instructions_for(client.face)
        found: dict[str, Any] = {"capabilities": self.capabilities(client.version, client)}
        return {**found, "instructions": words} if words else found

    def _known(self, client: Client) -> Tenant | None:
        return None if self._tenants is None else self._tenants.known(client.principal.tenant)

    async def _join(self, session: ClientSession) -> None:
        client = session.client
        try:
            tenants = self._tenants
            name = client.principal.tenant
            tenant = None if tenants is None else await self._found(name, tenants)
        except (RpcError, PegboardError):
            # Each request of the session gets the reason.
            return
        if tenant is not None and self._sessions.find(client) is session:
            tenant.changes.open_session(session)

    async def _leave(self, session: ClientSession) -> None:
        tenant = self._known(session.client)
        if tenant is not None:
            await tenant.changes.close_session(session)
            await tenant.hub.forget_client(client_key(session.client))


def _without_apps(request: ClientRequest) -> ClientRequest:
    """Return a request whose client shows no apps, so that no server hears that it does."""
    capabilities = without(request.client.capabilities, UI)
    return replace(request, client=replace(request.client, capabilities=capabilities))


def _shutting_down() -> RpcError:
    return RpcError(INTERNAL_ERROR, "The gateway is shutting down; try again elsewhere.")


_SEARCH_WORDS = (
    "Many tools are behind this server, and none of them is listed. Say what you need with "
    "search_tools, then run one of the hits with call_tool; get_tool_definition shows its full "
    "schema. When search_tools finds nothing, try other words before giving up, and do not guess "
    "names."
)
