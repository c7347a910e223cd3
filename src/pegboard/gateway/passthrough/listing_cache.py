"""ListingCache: resources and prompts of all servers, cached while a server is slow or down."""

import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice
from time import monotonic
from typing import Any, Literal

import anyio
import msgspec
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND

from pegboard.errors import PegboardError, ProtocolError, ServerNotFoundError
from pegboard.gateway.catalog.tool_list import NO_CURSOR, cursor_after, position_of
from pegboard.gateway.request import RpcError
from pegboard.gateway.resource_uris import ResourceUris
from pegboard.hub import Hub
from pegboard.model.hidden_characters import visible_json
from pegboard.upstream import (
    PromptsChanged,
    ResourcesChanged,
    ServerEvent,
    ServerState,
    ServerUp,
    UpstreamServer,
)

__all__ = ["LARGEST_ITEM", "Items", "Kind", "ListingCache", "page_of", "visible_items"]

logger: logging.Logger = logging.getLogger("pegboard.gateway")

Kind = Literal["resources/list", "resources/templates/list", "prompts/list"]
Items = list[dict[str, Any]]
_NAMED: dict[Kind, str] = {
    "resources/list": "uri",
    "resources/templates/list": "uriTemplate",
    "prompts/list": "name",
}
_KINDS: tuple[Kind, ...] = tuple(_NAMED)
LARGEST_ITEM = 256 * 1024
"""Bytes that one resource, template or prompt of a list may have, as a tool."""
_TURN = 64 * 1024
_LONGEST_NAME = 200
_MOST_TOLD = 20
"""So many items that are left out of a list are named in the log; the others are counted."""
_AFTER_FAILURE = 10.0
"""Seconds until a server whose list failed is asked again, unless it reports a change."""


class _List:
    """The last list of one server, and the state of the next request for it."""

    def __init__(self) -> None:
        self.items: Items | None = None
        self.is_stale = True
        self.listed_at = 0.0
        self.asked_at = 0.0
        self.failed_at = -_AFTER_FAILURE
        self.arriving: anyio.Event | None = None


class ListingCache:
    """The lists of all servers of a hub. No request waits twice for a server that does not answer.

    Args:
        hub: its servers are asked.
        group: runs the tasks that ask them, so that a late answer is cached, too.
        seconds: how long a list waits for a server.
        fresh: for how many seconds a cached list counts as current.
        on_late: called when a list arrives too late for the request that asked for it.
    """

    def __init__(
        self,
        hub: Hub,
        group: TaskGroup,
        *,
        seconds: float,
        fresh: float,
        on_late: Callable[[Kind, str], None],
    ) -> None:
        self._hub = hub
        self._group = group
        self._seconds = seconds
        self._fresh = fresh
        self._on_late = on_late
        self._lists: dict[tuple[Kind, str], _List] = {}

    async def listed(self, kind: Kind) -> list[tuple[str, Items]]:
        """Return the list of each server, or its last known list, sorted by server name."""
        servers = self._servers_listing(kind)
        asked = [found for server in servers if (found := self._asked(kind, server)) is not None]
        for known in asked:
            with anyio.move_on_after(known.asked_at + self._seconds - monotonic()):
                if known.arriving is not None:
                    await known.arriving.wait()
        return self.known(kind, servers)

    def known(self, kind: Kind, servers: Iterable[str]) -> list[tuple[str, Items]]:
        """Return the cached lists of these servers."""
        lists = ((server, self._lists.get((kind, server))) for server in servers)
        return [(server, it.items) for server, it in lists if it is not None and it.items]

    def names_of(self, server: str) -> Iterator[str]:
        """Give the names and URIs in the gateway of all that a server last listed."""
        exposed = ResourceUris(self._hub).exposed
        for kind, key in _NAMED.items():
            shown = self._hub.exposed_name if key == "name" else exposed
            for _, items in self.known(kind, [server]):
                originals = (item.get(key) for item in items)
                yield from (shown(server, it) for it in originals if isinstance(it, str))

    def take_in(self, event: ServerEvent) -> None:
        """Mark lists as stale after an event of a server."""
        kinds: tuple[Kind, ...] = ()
        if isinstance(event, ServerUp):
            kinds = _KINDS
        elif isinstance(event, ResourcesChanged):
            kinds = _KINDS[:2]
        elif isinstance(event, PromptsChanged):
            kinds = _KINDS[2:]
        for kind in kinds:
            known = self._lists.get((kind, event.server))
            if known is not None:
                known.is_stale = True
                known.failed_at = -_AFTER_FAILURE

    def can(self, server: str, capability: str) -> bool:
        """Tell whether a server has a capability; true if that is not known yet."""
        try:
            said = self._hub.server(server).connection.negotiated
        except ServerNotFoundError:
            return False
        return said is None or capability in said.capabilities

    def _servers_listing(self, kind: Kind) -> list[str]:
        capability = kind.partition("/")[0]
        names = (it.config.name for it in self._hub.enabled_servers())
        return sorted(name for name in names if self.can(name, capability))

    def _asked(self, kind: Kind, name: str) -> _List | None:
        """Ask a server if its list is due, and return the list that is on its way."""
        known = self._lists.setdefault((kind, name), _List())
        if known.arriving is not None:
            return known
        server = self._hub.server(name)
        if not self._is_due(known, server):
            return None
        known.arriving = anyio.Event()
        known.asked_at = monotonic()
        self._group.start_soon(self._fetch, kind, server, known)
        return known

    def _is_due(self, known: _List, server: UpstreamServer) -> bool:
        now = monotonic()
        if known.items is None:
            return now - known.failed_at >= _AFTER_FAILURE
        # A server that sleeps is not woken only to refresh its list.
        if server.connection.state != ServerState.READY:
            return False
        return known.is_stale or now - known.listed_at >= self._fresh

    async def _fetch(self, kind: Kind, server: UpstreamServer, known: _List) -> None:
        before, known.is_stale = known.items, False
        try:
            listed = await server.list_all(kind)
            known.items = await visible_items(listed, kind, server.config.name)
            known.listed_at = monotonic()
        except PegboardError as error:
            self._failed(kind, server.config.name, known, error)
        except Exception:
            known.failed_at = monotonic()
            logger.exception("list_failed: %s of %r", kind, server.config.name)
        finally:
            if known.arriving is not None:
                known.arriving.set()
                known.arriving = None
        if monotonic() - known.asked_at > self._seconds and known.items != before:
            self._on_late(kind, server.config.name)

    def _failed(self, kind: Kind, name: str, known: _List, error: PegboardError) -> None:
        if isinstance(error, ProtocolError) and error.rpc_code == METHOD_NOT_FOUND:
            known.items, known.listed_at = [], monotonic()
            return
        known.failed_at, known.is_stale = monotonic(), True
        context = {"server": name, "reason": str(error)}
        logger.warning("list_failed: %s of %r: %s", kind, name, error, extra=context)


async def visible_items(listed: Items, kind: Kind, server: str) -> Items:
    """Return the items of a list with hidden characters shown as escapes, in turns with others.

    Clients send a URI back as it is, so an item whose URI hides something is left out. The name of
    a prompt gets another form in the gateway anyway.
    """
    key, items, done, left_out = _NAMED[kind], Items(), 0, 0
    for item in listed:
        if not isinstance(item, dict):  # pyright: ignore[reportUnnecessaryIsInstance]
            continue
        size = _size(item)
        done += size
        if size > LARGEST_ITEM:
            left_out += 1
            _left_out(item.get(key), server, f"it has more than {LARGEST_ITEM} bytes", left_out)
            continue
        shown = visible_json(item)
        if shown is not item or done > _TURN:
            # What hides in one item takes up to milliseconds to show.
            done = 0
            await checkpoint()
        if shown is not item and key in item:
            if key != "name" and visible_json(item[key]) != item[key]:
                left_out += 1
                _left_out(item[key], server, "its URI has hidden characters", left_out)
                continue
            shown = {**shown, key: item[key]}
        items.append(shown)
    if left_out > _MOST_TOLD:
        words = "item_left_out: %d more of %s of server %r"
        logger.warning(words, left_out - _MOST_TOLD, kind, server, extra={"server": server})
    return items


def _left_out(named: object, server: str, reason: str, number: int) -> None:
    if number <= _MOST_TOLD:
        context = {"server": server, "reason": reason}
        name = str(named)[:_LONGEST_NAME]
        logger.warning("item_left_out: %r of server %r: %s", name, server, reason, extra=context)


def _size(item: Any) -> int:
    try:
        return len(msgspec.json.encode(item))
    except (TypeError, ValueError, RecursionError):
        # A server of this process may have values that are not JSON.
        return 0


def page_of(items: Collection[Any], cursor: object, *, key: str, size: int) -> dict[str, Any]:
    """Return one page of items as the result of a list, with the cursor of the next page.

    Raises:
        RpcError: when the cursor is invalid.
    """
    position = position_of(cursor)
    if not re.fullmatch("[0-9]{0,12}", position):
        raise RpcError(INVALID_PARAMS, NO_CURSOR)
    start = int(position or 0)
    page: dict[str, Any] = {key: list(islice(items, start, start + size))}
    if start + size < len(items):
        page["nextCursor"] = cursor_after(str(start + size))
    return page
