"""Notifications: tell clients of list changes and resource updates (`subscriptions/listen`)."""

import asyncio  # noqa: TID251 - the loop is woken from any thread, and no task waits for it
import logging
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVarTuple, cast

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from pegboard.errors import PegboardError, ServerNotFoundError
from pegboard.gateway.builtin_tool import CallerContext
from pegboard.gateway.catalog.surfaces import Surfaces
from pegboard.gateway.eras import SUBSCRIPTION_ID
from pegboard.gateway.passthrough.listing_cache import Kind, ListingCache
from pegboard.gateway.passthrough.resources import Resources
from pegboard.gateway.request import Client, Face, RpcError, object_in
from pegboard.gateway.sessions import (
    PROMPTS,
    RESOURCES,
    TOOLS,
    UPDATED,
    WANTED,
    ClientSession,
    Listener,
)
from pegboard.gateway.visibility import Visibility
from pegboard.hub import Hub
from pegboard.model import CatalogChange, Principal, Tool
from pegboard.upstream import (
    ElicitationCompleted,
    PromptsChanged,
    ResourcesChanged,
    ResourceUpdated,
    ServerEvent,
)

__all__ = ["ChangeNotifier", "ResourceWatches", "watched_in"]

logger: logging.Logger = logging.getLogger("pegboard.gateway")

MOST = 1000
"""How many resources one client may watch."""
LONGEST = 100_000
"""How many characters their URIs may have together: the gateway keeps them all the time."""
_AT_ONCE = 16
"""How many subscriptions of one request a server gets at the same time."""
Ts = TypeVarTuple("Ts")
_SHARE = 4
_LONGEST_ID = 1000


class ResourceWatches:
    """Subscribes to resources of one hub for its clients.

    Args:
        hub: its servers send the updates.
        seconds: how long a client waits until the servers have accepted.
    """

    def __init__(self, hub: Hub, *, seconds: float) -> None:
        self._hub = hub
        self._seconds = seconds

    async def add(self, listener: Listener, uri: str, origin: tuple[str, str]) -> None:
        """Subscribe a listener to updates of a resource.

        Raises:
            RpcError: when it would watch too many.
            UpstreamError: when its server cannot be reached, or refuses.
        """
        server = self._hub.server(origin[0])
        # A server that was removed and came back has lost its subscriptions.
        if uri in listener.uris and origin[1] in server.watched.uris:
            return
        _check_amount({*listener.uris, uri})
        listener.uris[uri] = origin
        try:
            await server.subscribe(origin[1])
        except BaseException:
            listener.uris.pop(uri, None)
            raise

    async def add_all(
        self, listener: Listener, uris: Iterable[str], resources: Resources, caller: CallerContext
    ) -> None:
        """Subscribe a listener to the resources it may see, if their servers accept in time."""
        tell = caller.request.on_watched or _ignore_outcome
        turns = defaultdict[str, anyio.Semaphore](lambda: anyio.Semaphore(_AT_ONCE))

        async def add(uri: str) -> None:
            try:
                origin = await resources.usable(uri, caller)
                if origin is not None:
                    async with turns[origin[0]]:
                        await self.add(listener, uri, origin)
            except (RpcError, PegboardError) as error:
                # The acknowledgement leaves this resource out.
                logger.debug("not_watched: %s: %s", uri, error)
                tell(uri, error)
            except BaseException as error:
                tell(uri, error)
                raise
            else:
                tell(uri, None)

        with anyio.move_on_after(self._seconds):
            async with anyio.create_task_group() as group:
                for uri in uris:
                    group.start_soon(add, uri)
                    # Other tasks run in between. All start, because `tell` reports each.
                    await anyio.lowlevel.cancel_shielded_checkpoint()

    async def remove(self, listener: Listener, uris: Iterable[str]) -> None:
        """Unsubscribe a listener from these resources."""
        for uri in uris:
            origin = listener.uris.pop(uri, None)
            if origin is None:
                continue
            try:
                await self._hub.server(origin[0]).unsubscribe(origin[1])
            except PegboardError as error:
                logger.debug("not_unsubscribed: %s: %s", uri, error)


class ChangeNotifier:
    """Notifies the clients of one tenant of changes, each only of what it may see.

    Args:
        hub: its servers and tools change.
        group: runs the tasks that notify sessions.
        surfaces: tells which tools a client lists.
        visibility: returns what a client may see.
        most: how many clients may listen at once; one caller may use a quarter.
        seconds: how long a server may take to accept a subscription.
    """

    def __init__(
        self,
        hub: Hub,
        group: TaskGroup,
        *,
        surfaces: Surfaces,
        visibility: Callable[[Client], Visibility],
        most: int,
        seconds: float,
    ) -> None:
        self._hub = hub
        self._group = group
        self._surfaces = surfaces
        self._visibility_for = visibility
        self._most = most
        self.watches: ResourceWatches = ResourceWatches(hub, seconds=seconds)
        self._listeners: set[Listener] = set()
        self._requests: Counter[str] = Counter()
        self._sending: set[Listener] = set()
        self._listed_names: Callable[[str], Iterable[str]] = lambda _: ()
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

    def __len__(self) -> int:
        return len(self._listeners)

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
            RpcError: when too many clients listen, or the request names no notifications.
        """
        request = caller.request
        asked: object = request.params.get("notifications")
        if not isinstance(asked, Mapping):
            raise RpcError(INVALID_PARAMS, "`subscriptions/listen` takes `notifications`.")
        if isinstance(request.id, str) and len(request.id) > _LONGEST_ID:
            raise RpcError(INVALID_PARAMS, f"An id here has at most {_LONGEST_ID} characters.")
        owner = caller.owner
        if self._requests.total() >= self._most:
            raise RpcError(INTERNAL_ERROR, "Too many clients listen already; try again later.")
        if self._requests[owner] >= max(1, self._most // _SHARE):
            raise RpcError(
                INTERNAL_ERROR, "Too many clients of this caller listen already; end some of them."
            )
        wanted = object_in(asked)  # pyright: ignore[reportUnknownArgumentType]
        meta = {SUBSCRIPTION_ID: request.id}
        listener = Listener(request.client, request.channel, meta=meta)
        listener.wanted = {method for key, method in WANTED.items() if wanted.get(key) is True}
        # Added before the acknowledgement, so that the client misses nothing.
        self._listeners.add(listener)
        self._requests[owner] += 1
        try:
            uris = watched_in(request.params)
            await self.watches.add_all(listener, uris, resources, caller)
            await listener.acknowledge()
            while not listener.is_over:
                await listener.wake.wait()
                listener.wake = anyio.Event()
                await listener.tell()
        finally:
            self._requests[owner] -= 1
            if not self._requests[owner]:
                del self._requests[owner]
            self._listeners.discard(listener)
            if listener.uris:
                self._soon(self.watches.remove, listener, list(listener.uris))
        return {"_meta": meta}

    def _tools_changed(self, change: CatalogChange) -> None:
        tools = (*change.added, *change.changed, *change.removed)
        if threading.get_ident() == self._thread:
            self._note_tools(tools)
            return
        try:
            self._loop.call_soon_threadsafe(self._note_tools, tools)
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
            for listener in list(self._listeners):
                for uri, origin in list(listener.uris.items()):
                    if origin == (event.server, event.uri):
                        self._note(listener, UPDATED, uri)

        elif isinstance(event, ElicitationCompleted):
            for listener in list(self._listeners):
                if (event.server, event.id) in listener.pages:
                    del listener.pages[event.server, event.id]
                    self._soon(listener.tell_of_page, event.id)

    def _note_of_server(self, method: str, server: str) -> None:
        self._note_all(method, lambda _, visibility: self._concerns(server, visibility))

    def _note_all(self, method: str, concerns: Callable[[Client, Visibility], bool]) -> None:
        # Many sessions have the same principal and the same address.
        concerned: dict[tuple[Principal, Face], bool] = {}
        for listener in list(self._listeners):
            client = listener.client
            key = (client.principal, client.face)
            if key not in concerned:
                visibility = self._visibility_of(client)
                concerned[key] = visibility is not None and concerns(client, visibility)
            if concerned[key]:
                self._note(listener, method)

    def _concerns(self, server: str, visibility: Visibility) -> bool:
        tags = self._tags_of(server)
        if not visibility.sees_server(server, tags):
            return False
        if visibility.knows_server(server, tags):
            return True
        # The client is limited to some things of any server, and may know the servers with them.
        registry = self._hub.registry
        tools = (it for it in registry.tools() if it.server == server and registry.runs(it.name))
        return any(map(visibility.sees, tools)) or any(
            visibility.sees_of(server, name, tags) for name in self._listed_names(server)
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


def watched_in(params: Mapping[str, Any]) -> list[str]:
    """Return the resources that a request to listen wants to watch, without duplicates.

    Raises:
        RpcError: when they are too many.
    """
    asked: object = object_in(params.get("notifications")).get("resourceSubscriptions")
    uris = cast("list[object]", asked) if isinstance(asked, list) else []
    watched = list(dict.fromkeys(uri for uri in uris if isinstance(uri, str)))
    _check_amount(watched)
    return watched


def _check_amount(uris: Collection[str]) -> None:
    if len(uris) > MOST or sum(map(len, uris)) > LONGEST:
        words = f"A client may watch at most {MOST} resources, whose URIs have at most {LONGEST} "
        raise RpcError(INVALID_PARAMS, f"{words}characters together.")


def _ignore_outcome(_: str, __: BaseException | None) -> None:
    pass
