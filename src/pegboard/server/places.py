"""Places: which address shows which face."""

from functools import lru_cache
from typing import Literal, NamedTuple

from pegboard.gateway.exchange import Face, Surface

__all__ = ["Place", "Wire", "place_of"]

Wire = Literal["mcp", "sse"]
"""``mcp`` is streamable HTTP of both eras, ``sse`` the older HTTP with an event stream."""

LONGEST_GROUP = 200

_ENDPOINTS: dict[str, tuple[Wire, Surface | None]] = {
    "mcp": ("mcp", None),
    "mcp-search": ("mcp", "search"),
    "mcp-full": ("mcp", "full"),
    "sse": ("sse", None),
    "sse-search": ("sse", "search"),
    "sse-full": ("sse", "full"),
}


class Place(NamedTuple):
    """Where a client came to."""

    wire: Wire
    face: Face


@lru_cache(1024)
def place_of(path: str, default: Surface) -> Place | None:
    """Return what is at a path: ``/mcp``, ``/mcp-full``, ``/mcp/<group>``, …; ``None``: nothing.

    ``/mcp`` and ``/sse`` show the default surface; a group is a server, a tag or a profile.
    """
    endpoint, _, group = path.removeprefix("/").partition("/")
    group = group.removesuffix("/")
    if endpoint not in _ENDPOINTS or "/" in group or len(group) > LONGEST_GROUP:
        return None
    wire, surface = _ENDPOINTS[endpoint]
    return Place(wire, Face(surface=surface or default, group=group or None))
