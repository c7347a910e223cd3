"""ChangeNotifier: clients of either era are told when a list or a resource is not what it was."""

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
"""So many resources one client may want to hear of,"""
LONGEST = 100_000
"""with addresses of so many characters together: they are kept for as long as it listens."""
_AT_ONCE = 16
"""So many a server is asked for at a time by one request."""


class ResourceWatches:
    """Subscribes to resources of one hub for its clients.

    Args:
        hub: whose servers tell.
        seconds: how long a client waits until they have agreed.
    """

    def __init__(self, hub: Hub, *, seconds: float) -> None:
        self._hub = hub
        self._seconds = seconds

    async def add(self, listener: Listener, uri: str, origin: tuple[str, str]) -> None:
        """Have a listener told when a resource changes.

        Raises:
            RpcError: when it would watch too many.
            UpstreamError: when its server cannot be asked, or does not agree.
        """
        server = self._hub.server(origin[0])
        # A server that was removed, and is back, knows nothing of it any more.
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
        """Have a listener told of those that exist for it, and whose servers agree in time."""
        tell = caller.request.on_watched or _ignore_outcome
        turns = defaultdict[str, anyio.Semaphore](lambda: anyio.Semaphore(_AT_ONCE))

        async def add(uri: str) -> None:
            try:
                origin = await resources.usable(uri, caller)
                if origin is not None:
                    async with turns[origin[0]]:
                        await self.add(listener, uri, origin)
            except (RpcError, PegboardError) as error:
                # What is not acknowledged is not promised.
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
                    # Others have a turn between two; all are started, for each is told of.
                    await anyio.lowlevel.cancel_shielded_checkpoint()

    async def remove(self, listener: Listener, uris: Iterable[str]) -> None:
        """Have a listener told no more of these."""
        for uri in uris:
            origin = listener.uris.pop(uri, None)
            if origin is None:
                continue
            try:
                await self._hub.server(origin[0]).unsubscribe(origin[1])
            except PegboardError as error:
                logger.debug("not_unsubscribed: %s: %s", uri, error)


def watched_in(params: Mapping[str, Any]) -> list[str]:
    """Return the resources that a request to listen asks to watch, each once.

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
        words = f"A client may watch {MOST} resources, whose addresses have {LONGEST} characters "
        raise RpcError(INVALID_PARAMS, f"{words}together, and no more.")


def _ignore_outcome(_: str, __: BaseException | None) -> None:
    pass


Ts = TypeVarTuple("Ts")

_SHARE = 4
_LONGEST_ID = 1000


class ChangeNotifier:
    """Tells the clients of one tenant; each only of what exists for it.

    Args:
        hub: whose servers and tools change.
        group: whose tasks tell the sessions.
        surfaces: which tools a client is shown.
        sight: what exists for a client.
        most: how many may listen at once; no more than a quarter of them for one caller.
        seconds: how long a server may take to agree that it tells of a resource.
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
        """Hear what servers tell of themselves, and let the lists know it before the clients."""

        def take_in(event: ServerEvent) -> None:
            listings.take_in(event)
            self._server_told(event)

        self._listed_names = listings.names_of
        self._stops.append(self._hub.on_change(take_in))

    def late(self, kind: Kind, server: str) -> None:
        """Take note that a list has come after somebody did not get it."""
        told = PROMPTS if kind == "prompts/list" else RESOURCES
        self._note_of_server(told, server)

    def __len__(self) -> int:
        return len(self._listeners)

    @property
    def is_awaited(self) -> bool:
        """True while somebody waits for changes; a session that only could be told does not."""
        return bool(self._requests) or any(it.uris for it in self._listeners)

    def close(self) -> None:
        """End all of it."""
        for stop in self._stops:
            stop()
        self.end_requests()

    def end_requests(self) -> None:
        """Give the requests to listen their results."""
        for listener in list(self._listeners):
            listener.end()

    def open_session(self, session: ClientSession) -> Listener:
        """Tell a client of the handshake era of changes, until its session is closed.

        Its tenant may have been closed, and opened again, since it was last here.
        """
        if session.listener is None or session.listener not in self._listeners:
            session.listener = Listener(session.client, session.channel, meta={})
            session.listener.wanted = set(WANTED.values())
            self._listeners.add(session.listener)
        return session.listener

    async def close_session(self, session: ClientSession) -> None:
        """Tell it nothing more."""
        if session.listener is not None:
            self._listeners.discard(session.listener)
            await self.watches.remove(session.listener, list(session.listener.uris))

    async def listen(self, caller: CallerContext, resources: Resources) -> dict[str, Any]:
        """Tell a modern client of changes for as long as its request lasts.

        Raises:
            RpcError: when too many listen already, or it is not said what for.
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
            raise RpcError(INTERNAL_ERROR, "Too many clients of yours listen already; end some.")
        wanted = object_in(asked)  # pyright: ignore[reportUnknownArgumentType]
        meta = {SUBSCRIPTION_ID: request.id}
        listener = Listener(request.client, request.channel, meta=meta)
        listener.wanted = {method for key, method in WANTED.items() if wanted.get(key) is True}
        # Before it is acknowledged, so that nothing is missed.
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
            # The loop is closed, so nobody listens.
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
        # Many sessions are of the same principal, at the same address.
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
        # It is limited to some things, of any server: those that have such things it may know.
        registry = self._hub.registry
        tools = (it for it in registry.tools() if it.server == server and registry.runs(it.name))
        return any(map(visibility.sees, tools)) or any(
            visibility.sees_of(server, name, tags) for name in self._listed_names(server)
        )

    def _note(self, listener: Listener, method: str, uri: str = "") -> None:
        listener.note(method, uri)
        # A session has no request that would wait for news: somebody has to tell it.
        if listener.client.era == "legacy" and listener not in self._sending:
            self._sending.add(listener)
            self._soon(self._send_pending, listener)

    def _soon(self, work: Callable[[*Ts], Coroutine[Any, Any, object]], *args: *Ts) -> None:
        try:
            self._group.start_soon(work, *args)
        except RuntimeError:
            # The gateway is closed, and the hub soon will be.
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
