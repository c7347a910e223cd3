"""McpRegistry: the servers of the gateway in the format of an MCP registry (``server.json``)."""

import re
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Self

import msgspec
from mcp_types import INVALID_PARAMS

from pegboard.gateway.catalog.group_addresses import ApprovedServer
from pegboard.gateway.catalog.tool_list import cursor_after, position_of
from pegboard.gateway.request import RpcError
from pegboard.server.http.discovery.public_address import PublicAddress
from pegboard.version import installed_version

__all__ = ["UNKNOWN_VERSION", "ListQuery", "ListedServer", "McpRegistry"]

SCHEMA = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
OFFICIAL = "io.modelcontextprotocol.registry/official"
UNKNOWN_VERSION = "0.0.0"
"""The version of a server that has not said one, or none that the schema allows."""
OWN_VERSION = installed_version()
LATEST = "latest"
PAGE, MOST_ON_PAGE = 30, 100
MOST_KNOWN = 10_000
"""Of how many servers the registry knows since when they are there, over all tenants."""
_SHOWN = 100
_VERSION = re.compile(r"(?=.{1,100}$)[0-9A-Za-z][0-9A-Za-z.+_-]*")
_RANGE = re.compile(r"(^|\.)[xX](\.|$)")


class ListedServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server of the registry in its only version, which is the latest."""

    name: str
    title: str
    description: str
    version: str
    remote: dict[str, Any]
    """How a client connects to it."""
    published: datetime
    updated: datetime

    def value(self) -> dict[str, Any]:
        """Return what clients are told: a ``server.json``, and the ``_meta`` of the registry."""
        published = _written(self.published)
        server = {
            "$schema": SCHEMA,
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "version": self.version,
            "remotes": [self.remote],
        }
        meta = {
            "status": "active",
            "statusChangedAt": published,
            "publishedAt": published,
            "updatedAt": _written(self.updated),
            "isLatest": True,
        }
        return {"server": server, "_meta": {OFFICIAL: meta}}


class ListQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What a request for the list of servers asks for."""

    after: str = ""
    """The name after which the page begins."""
    limit: int = PAGE
    search: str = ""
    version: str = LATEST
    updated_since: datetime | None = None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """Read the parameters of a query; unknown ones are ignored.

        Raises:
            RpcError: when one of them cannot be used.
        """
        limit = given.get("limit") or str(PAGE)
        # Of `int`, which takes signs, spaces and digits of other scripts, only the plain numbers.
        if not (limit.isascii() and limit.isdecimal() and int(limit[:9]) > 0):
            raise RpcError(INVALID_PARAMS, "`limit` is a whole number of at least 1.")
        return cls(
            after=position_of(given.get("cursor") or None),
            limit=min(int(limit[:9]), MOST_ON_PAGE),
            search=given.get("search", "").strip().casefold(),
            version=given.get("version") or LATEST,
            updated_since=_moment(given.get("updated_since", "")),
        )

    def takes(self, entry: ListedServer) -> bool:
        """Tell whether an entry is asked for."""
        return (
            self.search in entry.name.casefold()
            and self.version in (LATEST, entry.version)
            and (self.updated_since is None or entry.updated >= self.updated_since)
        )


class McpRegistry:
    """Describes servers as an MCP registry does; each is reached through the gateway only.

    Args:
        address: where the gateway is reached.
        gateway: the name of the gateway.
    """

    def __init__(self, address: PublicAddress, gateway: str) -> None:
        self._address = address
        self._gateway = gateway
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()

    def entries(
        self, servers: Iterable[ApprovedServer], *, tenant: str, base: str
    ) -> dict[str, ListedServer]:
        """Return the gateway itself and servers of a tenant, by name and in this order.

        Args:
            servers: the servers of one tenant.
            tenant: the tenant.
            base: the address of the gateway; see `PublicAddress.base`.
        """
        words = "All tools of this gateway, found by search."
        own = self._entry(
            tenant,
            self._address.name,
            {"title": self._gateway, "description": words},
            version=OWN_VERSION,
            url=f"{base}/mcp",
        )
        found = {own.name: own}
        for server in servers:
            path = self._address.path_of(server.name)
            if path is None:
                continue
            name, title = self._address.name_of(server.name), server.name
            words = f"{title[:40]}, through the gateway {self._gateway[:30]}."
            shown = {"title": title, "description": words}
            entry = self._entry(tenant, name, shown, version=server.version, url=base + path)
            found.setdefault(name, entry)
        return dict(sorted(found.items()))

    def page(self, entries: Mapping[str, ListedServer], query: ListQuery) -> dict[str, Any]:
        """Return one page of the list of servers."""
        names = list(entries)
        start = bisect_right(names, query.after) if query.after else 0
        asked = (it for name in names[start:] if query.takes(it := entries[name]))
        page: list[ListedServer] = []
        metadata: dict[str, Any] = {}
        for entry in asked:
            if len(page) == query.limit:
                metadata["nextCursor"] = cursor_after(page[-1].name)
                break
            page.append(entry)
        return {
            "servers": [it.value() for it in page],
            "metadata": {**metadata, "count": len(page)},
        }

    def _entry(
        self, tenant: str, name: str, shown: Mapping[str, str], *, version: str, url: str
    ) -> ListedServer:
        version = _legal_version(version)
        known = self._since(tenant, name, version)
        return ListedServer(
            name=name,
            title=_on_one_line(shown["title"]),
            description=_on_one_line(shown["description"]),
            version=version,
            remote=self._address.remote(url),
            published=known.published,
            updated=known.updated,
        )

    def _since(self, tenant: str, name: str, version: str) -> "_Known":
        """Return since when a server is known in its version."""
        key, before = (tenant, name), self._known.get((tenant, name))
        if before is not None and before.version == version:
            self._known.move_to_end(key)
            return before
        now = datetime.now(UTC)
        published = now if before is None else before.published
        known = self._known[key] = _Known(version=version, published=published, updated=now)
        self._known.move_to_end(key)
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)
        return known


class _Known(msgspec.Struct, frozen=True, kw_only=True):
    version: str
    published: datetime
    updated: datetime


def _legal_version(said: str) -> str:
    """Return a version that is no range and no tag; servers may say anything."""
    is_plain = _VERSION.fullmatch(said) and not _RANGE.search(said) and said.casefold() != LATEST
    return said if is_plain else UNKNOWN_VERSION


def _on_one_line(words: str) -> str:
    return " ".join(words.split())[:_SHOWN] or "-"


def _written(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _moment(written: str) -> datetime | None:
    if not written:
        return None
    try:
        # A `+` in a query stands for a space, and many clients do not encode it.
        moment = datetime.fromisoformat(written[:64].strip().replace(" ", "+"))
    except ValueError:
        words = "`updated_since` is a moment such as `2026-07-28T12:00:00Z`."
        raise RpcError(INVALID_PARAMS, words) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
