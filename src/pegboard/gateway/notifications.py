"""Notifications: tell clients of list changes and resource updates (`subscriptions/listen`)."""

import asyncio  # noqa: TID251 - the loop is woken from any thread, and no task waits for it
import logging
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVarTuple

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup
from mcp_types import INVALID_PARAMS

from pegboard.errors import LimitReachedError, ServerNotFoundError
from pegboard.gateway.builtin_tool import CallerContext
from pegboard.gateway.catalog.surfaces import Surfaces
from pegboard.gateway.eras import SUBSCRIPTION_ID
from pegboard.gateway.passthrough.listing_cache import Kind, ListingCache
from pegboard.gateway.passthrough.resources import Resources
from pegboard.gateway.passthrough.seen_items import in_turns
from pegboard.gateway.request import Client, Face, RpcError, object_in
from pegboard.gateway.resource_watches import SOON, ResourceWatches, watched_in
from pegboard.gateway.sessions import (
    PROMPTS,
    RESOURCES,
    TASK,
    TOOLS,
    UPDATED,
    WANTED,
    ClientSession,
    Listener,
)
from pegboard.gateway.skills.catalog import ShownSkill, SkillCatalog
from pegboard.gateway.tasks.task_methods import TaskMethods, tasks_in
from pegboard.gateway.visibility import Visibility
from pegboard.hub import Hub
from pegboard.model import CatalogChange, Principal, Tool
from pegboard.policies.fair_share import FairShare
from pegboard.registry.threads import context_of_asyncio
from pegboard.upstream import (
    ElicitationCompleted,
    PromptsChanged,
    ResourcesChanged,
    ResourceUpdated,
    ServerEvent,
)
from pegboard.upstream.messages.extensions import UI, declares

__all__ = ["ChangeNotifier", "NotificationShares"]

logger: logging.Logger = logging.getLogger("pegboard.gateway")

_SLICE = 250
"""How many listeners are told of a change before other tasks run."""
Ts = TypeVarTuple("Ts")
_LONGEST_ID = 1000


class NotificationShares(NamedTuple):
    """How many clients of each caller listen, and how many resources they watch."""

    listeners: FairShare
    watches: FairShare


class ChangeNotifier:
    """Notifies the clients of one tenant of changes, each only of what it may see.

    Args:
        hub: its servers and tools change.
        group: runs the tasks that notify sessions.
        surfaces: tells which tools a client lists.
        visibility: returns what a client may see.
        shares: how many clients of each caller listen, and what they watch.
        tasks: the tasks that clients may follow.
        seconds: how long a server may take to accept a subscription.
    """

    def __init__(  # noqa: PLR0913 - it tells of all of it
        self,
        hub: Hub,
        group: TaskGroup,
        *,
        surfaces: Surfaces,
        visibility: Callable[[Client], Visibility],
        shares: NotificationShares,
        tasks: TaskMethods,
        seconds: float,
    ) -> None:
        self._hub = hub
        self._group = group
        self._tasks = tasks
        self._surfaces = surfaces
        self._visibility_for = visibility
        self._shares = shares.listeners
        self.watches: ResourceWatches = ResourceWatches(hub, seconds=seconds, shares=shares.watches)
        self._listeners: set[Listener] = set()
        self._requests = 0
        """How many requests to listen are under way."""
        self._sending: set[Listener] = set()
        self._listed_names: Callable[[str], Iterable[str]] = lambda _: ()
        self._looking: dict[tuple[str, str], bool] = {}
        """Changes of servers for which a task looks who sees something there; whether once more."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._stops = [hub.registry.subscribe(self._tools_changed)]

    def follow(self, listings: ListingCache) -> None:
        """Follow the events of the servers; the listings take them in before the clients do."""

        def take_in(event: ServerEvent) -> None:
            listings.take_in(event)
            self._server_told(event)

        self._listed_names = listings.names_of
        self._stops.append(self._hub.on_change(take_in))

    def late(self, kind: Kind, server: str) -> None:
        """Notify clients of a list that arrived too late for the request that asked for it."""
        told = PROMPTS if kind == "prompts/list" else RESOURCES
        self._note_of_server(told, server)

    def skills_changed(self, skills: Sequence[ShownSkill], catalog: SkillCatalog) -> None:
        """Notify clients of changed skills, which some of them see as prompts and resources.

        The tool that reads skills appears with the first one and goes with the last.
        """

        def concerns(_: Client, visibility: Visibility) -> bool:
            return any(catalog.sees(it, visibility) for it in skills)

        for method in (PROMPTS, RESOURCES, TOOLS):
            self._note_all(method, concerns)

    def __len__(self) -> int:
        return len(self._listeners)

    def clients(self) -> list[Client]:
        """Return the clients that are told of changes."""
        return [it.client for it in self._listeners]

    @property
    def is_awaited(self) -> bool:
        """True while a client listens or watches a resource; an open session does not count."""
        return bool(self._requests) or any(it.uris for it in self._listeners)

    def close(self) -> None:
        """Stop following the hub, and end the requests to listen."""
        for stop in self._stops:
            stop()
        self.end_requests()

    def end_requests(self) -> None:
        """End the requests to listen with their results."""
        for listener in list(self._listeners):
            listener.end()

    def open_session(self, session: ClientSession) -> Listener:
        """Notify a client of the handshake era of changes, until its session closes.

        The tenant may have closed and opened again since the last request of the client.
        """
        if session.listener is None or session.listener not in self._listeners:
            session.listener = Listener(session.client, session.channel, meta={})
            session.listener.wanted = set(WANTED.values())
            self._listeners.add(session.listener)
        return session.listener

    async def close_session(self, session: ClientSession) -> None:
        """Stop notifying a client of the handshake era."""
        if session.listener is not None:
            self._listeners.discard(session.listener)
            await self.watches.remove(session.listener, list(session.listener.uris))

    async def listen(self, caller: CallerContext, resources: Resources) -> dict[str, Any]:
        """Notify a modern client of changes for as long as its request lasts.

        Raises:
            RpcError: when the request names no notifications, or too many resources.
            LimitReachedError: when too many clients of the caller listen, or watch too much.
        """
        request = caller.request
        asked: object = request.params.get("notifications")
        if not isinstance(asked, Mapping):
            raise RpcError(INVALID_PARAMS, "`subscriptions/listen` takes `notifications`.")
        if isinstance(request.id, str) and len(request.id) > _LONGEST_ID:
            raise RpcError(INVALID_PARAMS, f"An id here has at most {_LONGEST_ID} characters.")
        if not self._shares.admits(caller.owner):
            setting = self._shares.setting
            words = f"Too many of your clients listen already (`{setting}`). End some of them."
            raise LimitReachedError(words, setting=setting, retry_after=SOON)
        wanted = object_in(asked)  # pyright: ignore[reportUnknownArgumentType]
        meta = {SUBSCRIPTION_ID: request.id}
        listener = Listener(request.client, request.channel, meta=meta)
        listener.wanted = {method for key, method in WANTED.items() if wanted.get(key) is True}
        # Added before the acknowledgement, so that the client misses nothing.
        self._listeners.add(listener)
        self._requests += 1
        self._shares.add(caller.owner)
        try:
            uris = watched_in(request.params)
            await self.watches.add_all(listener, uris, resources, caller)
            await self._tasks.follow(listener, tasks_in(request.params))
            await listener.acknowledge()
            for task in listener.tasks:
                listener.note(TASK, task)
            while not listener.is_over:
                await listener.wake.wait()
                listener.wake = anyio.Event()
                await listener.tell()
        finally:
            self._requests -= 1
            self._shares.remove(caller.owner)
            self._listeners.discard(listener)
            self._tasks.unfollow(listener.tasks)
            if listener.uris:
                self._soon(self.watches.remove, listener, list(listener.uris))
        return {"_meta": meta}

    def task_changed(self, task: str) -> None:
        """Notify the clients that follow a task."""
        for listener in self._listeners:
            if task in listener.tasks:
                listener.note(TASK, task)

    def _tools_changed(self, change: CatalogChange) -> None:
        tools = (*change.added, *change.changed, *change.removed)
        if threading.get_ident() == self._thread:
            self._note_tools(tools)
            return
        try:
            context = context_of_asyncio()
            self._loop.call_soon_threadsafe(self._note_tools, tools, context=context)
        except RuntimeError:
            # The event loop is closed, so no client listens.
            logger.debug("loop_is_gone")

    def _note_tools(self, tools: Sequence[Tool]) -> None:
        self._note_all(
            TOOLS, lambda client, visibility: self._surfaces.lists_any(tools, client, visibility)
        )

    def _server_told(self, event: ServerEvent) -> None:
        if isinstance(event, ResourcesChanged):
            self._note_of_server(RESOURCES, event.server)
        elif isinstance(event, PromptsChanged):
            self._note_of_server(PROMPTS, event.server)
        elif isinstance(event, ResourceUpdated):
            for listener, uri in self.watches.watchers((event.server, event.uri)):
                self._note(listener, UPDATED, uri)
        elif isinstance(event, ElicitationCompleted):
            for listener in list(self._listeners):
                if (event.server, event.id) in listener.pages:
                    del listener.pages[event.server, event.id]
                    self._soon(listener.tell_of_page, event.id)

    def _note_of_server(self, method: str, server: str) -> None:
        tags = self._tags_of(server)
        self._note_all(
            method, lambda _, it: it.sees_server(server, tags) and it.knows_server(server, tags)
        )
        if (method, server) in self._looking:
            self._looking[method, server] = True
        elif any("*" not in it.client.principal.tools for it in self._listeners):
            self._looking[method, server] = False
            self._soon(self._note_limited, method, server)

    def _note_all(self, method: str, concerns: Callable[[Client, Visibility], bool]) -> None:
        # Many sessions have the same principal and the same address, and see the same tools.
        concerned: dict[tuple[Principal, Face, bool], bool] = {}

        def note(listeners: Iterable[Listener]) -> None:
            for listener in listeners:
                client = listener.client
                key = (client.principal, client.face, declares(client.capabilities, UI))
                if key not in concerned:
                    visibility = self._visibility_of(client)
                    concerned[key] = visibility is not None and concerns(client, visibility)
                if concerned[key]:
                    self._note(listener, method)

        reachable = [it for it in self._listeners if it.is_reachable]
        note(reachable[:_SLICE])
        if len(reachable) > _SLICE:
            self._soon(_in_slices, note, reachable)

    async def _note_limited(self, method: str, server: str) -> None:
        """Notify the clients that are limited to some things of any server, and have some of it.

        That takes some time for a server with much, which may report changes all the time.
        """
        try:
            is_due = True
            while is_due:
                self._looking[method, server] = False
                concerned: dict[tuple[Principal, Face, bool], bool] = {}
                for listener in [it for it in self._listeners if it.is_reachable]:
                    client = listener.client
                    key = (client.principal, client.face, declares(client.capabilities, UI))
                    if key not in concerned:
                        visibility = self._visibility_of(client)
                        concerned[key] = visibility is not None and await self._sees_some(
                            server, visibility
                        )
                        await anyio.lowlevel.checkpoint()
                    if concerned[key] and listener in self._listeners:
                        self._note(listener, method)
                is_due = self._looking[method, server]
        finally:
            del self._looking[method, server]

    async def _sees_some(self, server: str, visibility: Visibility) -> bool:
        tags, registry = self._tags_of(server), self._hub.registry
        if not visibility.sees_server(server, tags) or visibility.knows_server(server, tags):
            # The others were notified at once.
            return False
        tool = await in_turns(
            registry.tools(),
            lambda it: it.server == server and registry.runs(it.name) and visibility.sees(it),
        )
        names, sees = self._listed_names(server), visibility.sees_of
        return (
            tool is not None or await in_turns(names, lambda it: sees(server, it, tags)) is not None
        )

    def _note(self, listener: Listener, method: str, uri: str = "") -> None:
        listener.note(method, uri)
        # A session has no request that waits for changes, so a task sends them.
        if listener.client.era == "legacy" and listener not in self._sending:
            self._sending.add(listener)
            self._soon(self._send_pending, listener)

    def _soon(self, work: Callable[[*Ts], Coroutine[Any, Any, object]], *args: *Ts) -> None:
        try:
            self._group.start_soon(work, *args)
        except RuntimeError:
            # The gateway is closed, and the hub closes soon.
            logger.debug("group_is_gone")

    async def _send_pending(self, listener: Listener) -> None:
        try:
            await listener.tell()
        except Exception:
            logger.exception("not_told: a client was not told of a change")
        finally:
            self._sending.discard(listener)

    def _tags_of(self, server: str) -> tuple[str, ...]:
        try:
            return self._hub.server(server).config.tags
        except ServerNotFoundError:
            return ()

    def _visibility_of(self, client: Client) -> Visibility | None:
        try:
            return self._visibility_for(client)
        except RpcError:
            return None


async def _in_slices(
    note: Callable[[Iterable[Listener]], None], listeners: Sequence[Listener]
) -> None:
    """Tell all listeners but the first slice, and let other tasks run in between."""
    for start in range(_SLICE, len(listeners), _SLICE):
        await anyio.lowlevel.checkpoint()
        note(listeners[start : start + _SLICE])
