"""Routes: which URL path leads to which transport and which face of the gateway."""

from functools import lru_cache
from typing import Literal, NamedTuple

from pegboard.gateway.request import Face, Surface

__all__ = ["Route", "Wire", "route_of"]

Wire = Literal["mcp", "sse"]
"""``mcp`` is streamable HTTP of both eras, ``sse`` the older HTTP with an event stream."""

LONGEST_PATH = 200

_ENDPOINTS: dict[str, tuple[Wire, Surface | None]] = {
    "mcp": ("mcp", None),
    "mcp-search": ("mcp", "search"),
    "mcp-full": ("mcp", "full"),
    "sse": ("sse", None),
    "sse-search": ("sse", "search"),
    "sse-full": ("sse", "full"),
}


class Route(NamedTuple):
    """What a path leads to."""

    wire: Wire
    face: Face


def route_of(path: str, default: Surface) -> Route | None:
    """Return the route of a path: ``/mcp``, ``/mcp-full``, ``/mcp/<group>``; ``None`` if none.

    ``/mcp`` and ``/sse`` show the default surface; a group is a server, a tag or a profile.
    """
    return _find(path, default) if len(path) <= LONGEST_PATH else None


@lru_cache(1024)
def _find(path: str, default: Surface) -> Route | None:
    endpoint, _, group = path.removeprefix("/").partition("/")
    group = group.removesuffix("/")
    if endpoint not in _ENDPOINTS or "/" in group:
        return None
    wire, surface = _ENDPOINTS[endpoint]
    return Route(wire, Face(surface=surface or default, group=group or None))
