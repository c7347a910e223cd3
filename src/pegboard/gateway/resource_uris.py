"""ResourceUris: what the resources of many servers are called here, and whose they are.

A resource ``file:///notes`` of the server ``disk`` is ``disk+file:///notes`` here. Servers whose
``prefix`` is empty keep their own addresses.
"""

import re
from typing import Any, cast

from pegboard.errors import ServerNotFoundError
from pegboard.gateway.request import object_in
from pegboard.hub import Hub

__all__ = ["ResourceUris", "scheme_of", "server_of"]

_PLAIN = re.compile(r"[a-z0-9]")
_WRITTEN = re.compile(r"-\.([0-9a-f]+)\.|\.")
_ODD_START = "x-.."
"""Before names that begin with no letter, as a scheme must."""


class ResourceUris:
    """The addresses of the resources of one hub."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def exposed(self, server: str, uri: str) -> str:
        """Return what a resource of a server is called here."""
        return uri if self._keeps(server) else f"{scheme_of(server)}+{uri}"

    def origin(self, exposed: str) -> tuple[str, str] | None:
        """Return the server and its own address for it, of an address that we made."""
        scheme, plus, uri = exposed.partition("+")
        if not plus or ":" in scheme:
            return None
        try:
            server = server_of(scheme.lower())
            self._hub.server(server)
        except (ServerNotFoundError, ValueError, OverflowError):
            return None
        return None if self._keeps(server) else (server, uri)

    def in_content(self, result: dict[str, Any], server: str) -> dict[str, Any]:
        """Return a result in which resources are called as they are here."""
        blocks: object = result.get("content")
        if not isinstance(blocks, list) or self._keeps(server):
            return result
        if not any(_holds_uri(block) for block in cast("list[object]", blocks)):
            return result
        return {
            **result,
            "content": [self.in_block(it, server) for it in cast("list[Any]", blocks)],
        }

    def in_block(self, block: Any, server: str) -> Any:
        """Return a content block in which a resource is called as it is here."""
        if not _holds_uri(block) or self._keeps(server):
            return block
        if block["type"] == "resource_link":
            return self.in_item(block, server)
        return {**block, "resource": self.in_item(block["resource"], server)}

    def in_item(self, item: Any, server: str) -> Any:
        """Return a resource, or what it holds, under the address it has here."""
        uri: object = object_in(item).get("uri")
        return {**item, "uri": self.exposed(server, uri)} if isinstance(uri, str) else item

    def _keeps(self, server: str) -> bool:
        try:
            return self._hub.server(server).config.prefix == ""
        except ServerNotFoundError:
            # It was taken out of the configuration just now.
            return False


def scheme_of(server: str) -> str:
    """Return the name of a server as the beginning of a URI scheme; no two have the same.

    Small letters, digits and ``-`` stay, ``_`` becomes ``.``, and everything else its number.
    """
    written = "".join(
        _written(letter, following)
        for letter, following in zip(server, f"{server[1:]} ", strict=True)
    )
    return written if "a" <= written[:1] <= "z" else f"{_ODD_START}{written}"


def server_of(scheme: str) -> str:
    """Return the server whose name was written so.

    Raises:
        ValueError: when none can be.
    """
    written = scheme.removeprefix(_ODD_START)
    return _WRITTEN.sub(lambda it: chr(int(it[1], 16)) if it[1] else "_", written)


def _written(letter: str, following: str) -> str:
    if letter == "_":
        return "."
    # Before a dot, a dash begins a number.
    plain = following != "_" if letter == "-" else _PLAIN.fullmatch(letter)
    return letter if plain else f"-.{ord(letter):x}."


def _holds_uri(block: object) -> bool:
    return object_in(block).get("type") in ("resource_link", "resource")
