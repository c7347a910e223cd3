"""ResourceUris: the URIs of resources in the gateway, prefixed with the name of their server.

The resource ``file:///notes`` of the server ``disk`` is ``disk+file:///notes`` in the gateway. The
page of an app keeps its scheme, by which hosts know it: ``ui://clock/app.html`` of the same server
is ``ui://disk/clock/app.html``. A server whose ``prefix`` is empty keeps its own URIs.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, cast

from pegboard.errors import ServerNotFoundError
from pegboard.gateway.request import object_in
from pegboard.hub import Hub
from pegboard.upstream import UpstreamServer

__all__ = ["FLAT_PAGE", "PAGES", "ResourceUris", "scheme_of", "server_of"]

PAGES = "ui://"
"""How the URIs of the pages of MCP Apps begin."""
FLAT_PAGE = "ui/resourceUri"
"""The deprecated key in ``_meta`` for the page of a tool; the present one is ``ui.resourceUri``."""
_PLAIN = re.compile(r"[a-z0-9]")
_WRITTEN = re.compile(r"-\.([0-9a-f]+)\.|\.")
_LONGEST_NAME = 10_000
"""Characters of a written name that are read: of millions, reading would hold up other requests."""
_ODD_START = "x-.."
"""Precedes names that do not begin with a letter, because a scheme must."""


class ResourceUris:
    """The URIs of the resources of one hub.

    Args:
        hub: the names of its servers are in the URIs.
        apps: whether clients get to know the pages of MCP Apps.
    """

    def __init__(self, hub: Hub, *, apps: bool = True) -> None:
        self._hub = hub
        self._apps = apps

    def exposed(self, server: str, uri: str) -> str:
        """Return the URI in the gateway of a server's resource."""
        if self._keeps(server):
            return uri
        if uri.startswith(PAGES):
            return f"{PAGES}{scheme_of(server)}/{uri.removeprefix(PAGES)}"
        return f"{scheme_of(server)}+{uri}"

    def origin(self, exposed: str) -> tuple[str, str] | None:
        """Return the server and the original URI of a URI that the gateway made."""
        if exposed.startswith(PAGES):
            name, mark, rest = exposed.removeprefix(PAGES).partition("/")
            uri = f"{PAGES}{rest}"
        else:
            name, mark, uri = exposed.partition("+")
        if not mark or ":" in name or len(name) > _LONGEST_NAME:
            return None
        try:
            server = server_of(name.lower())
            self._hub.server(server)
        except (ServerNotFoundError, ValueError, OverflowError):
            return None
        return None if self._keeps(server) else (server, uri)

    def in_content(self, result: dict[str, Any], server: UpstreamServer) -> dict[str, Any]:
        """Return a result whose resources have their URIs in the gateway."""
        name = server.config.name
        meta: object = result.get("_meta")
        if isinstance(meta, dict) and ("ui" in meta or FLAT_PAGE in meta):
            result = self.with_page(result, name)
        blocks: object = result.get("content")
        if not isinstance(blocks, list) or server.config.prefix == "":
            return result
        if not any(_holds_uri(block) for block in cast("list[object]", blocks)):
            return result
        return {**result, "content": [self.in_block(it, name) for it in cast("list[Any]", blocks)]}

    def in_block(self, block: Any, server: str) -> Any:
        """Return a content block whose resource has its URI in the gateway."""
        if not _holds_uri(block) or self._keeps(server):
            return block
        if block["type"] == "resource_link":
            return self.in_item(block, server)
        return {**block, "resource": self.in_item(block["resource"], server)}

    def with_page(self, whole: Mapping[str, Any], server: str) -> dict[str, Any]:
        """Return a tool or a result whose page, in its ``_meta``, has its URI in the gateway."""
        meta = {**object_in(whole.get("_meta"))}
        if not self._apps:
            meta = {key: value for key, value in meta.items() if key not in ("ui", FLAT_PAGE)}
        ui, flat = object_in(meta.get("ui")), meta.get(FLAT_PAGE)
        if isinstance(page := ui.get("resourceUri"), str):
            meta["ui"] = {**ui, "resourceUri": self.exposed(server, page)}
        if isinstance(flat, str):
            meta[FLAT_PAGE] = self.exposed(server, flat)
        rest = {key: value for key, value in whole.items() if key != "_meta"}
        return {**rest, "_meta": meta} if meta else rest

    def hides(self, uri: str) -> bool:
        """Tell whether clients do not get to know the resource with an original URI."""
        return not self._apps and uri.startswith(PAGES)

    def in_item(self, item: Any, server: str) -> Any:
        """Return a resource, or its contents, with its URI in the gateway."""
        uri: object = object_in(item).get("uri")
        return {**item, "uri": self.exposed(server, uri)} if isinstance(uri, str) else item

    def _keeps(self, server: str) -> bool:
        try:
            return self._hub.server(server).config.prefix == ""
        except ServerNotFoundError:
            # It was removed from the configuration a moment ago.
            return False


@lru_cache(1024)
def scheme_of(server: str) -> str:
    """Return the name of a server as the start of a URI scheme; no two names give the same.

    Lower-case letters, digits and ``-`` stay, ``_`` becomes ``.``, and any other character becomes
    its code point.
    """
    written = "".join(
        _written(letter, following)
        for letter, following in zip(server, f"{server[1:]} ", strict=True)
    )
    return written if "a" <= written[:1] <= "z" else f"{_ODD_START}{written}"


def server_of(scheme: str) -> str:
    """Return the server name that `scheme_of` wrote.

    Raises:
        ValueError: when no name is written like this.
    """
    written = scheme.removeprefix(_ODD_START)
    return _WRITTEN.sub(lambda it: chr(int(it[1], 16)) if it[1] else "_", written)


def _written(letter: str, following: str) -> str:
    if letter == "_":
        return "."
    # Before a dot, a dash starts a code point.
    plain = following != "_" if letter == "-" else _PLAIN.fullmatch(letter)
    return letter if plain else f"-.{ord(letter):x}."


def _holds_uri(block: object) -> bool:
    return object_in(block).get("type") in ("resource_link", "resource")
