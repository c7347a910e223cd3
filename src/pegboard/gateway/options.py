"""GatewayOptions: the settings of the gateway, its profiles and its limits."""

from collections.abc import Mapping

import msgspec

from pegboard.errors import ConfigError
from pegboard.search.options import DEFAULT_METHOD

__all__ = ["GatewayOptions", "Profile"]


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named part of the catalogue with its own address."""

    servers: tuple[str, ...] = ("*",)
    """Glob patterns of its servers; a tool without a server matches ``""``."""
    tools: tuple[str, ...] = ("*",)
    """Glob patterns of the names of its tools."""
    tags: tuple[str, ...] = ()
    """Only tools with one of these tags; empty for all tools."""


class GatewayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a gateway; the defaults suit one machine and a few clients."""

    name: str = "pegboard"
    """The name that the gateway gives to clients."""
    profiles: Mapping[str, Profile] = msgspec.field(default_factory=dict[str, Profile])
    """Named parts of the catalogue, for addresses such as ``/mcp/<name>``."""
    pinned: tuple[str, ...] = ()
    """Glob patterns of tools that the search surface lists after its own."""
    search_method: str = DEFAULT_METHOD
    """The method of `search_tools` when a call names none; ``bm25`` compares words only."""
    page_size: int = 200
    """How many items a page of a list has."""
    list_seconds: float = 5.0
    """How long a list of resources or prompts waits for a slow server."""
    ttl_ms: int = 60_000
    """How long a client may cache a list; the gateway notifies it of earlier changes."""
    max_result_chars: int = 5000
    """The length limit for results of tools of this process; servers have their own limit."""
    result_cache_on_full: bool = False
    """Also cut and cache long results on the full surface, instead of sending them whole."""
    result_cache_seconds: float = 900.0
    """How long the gateway keeps a result that it cut."""
    result_cache_results: int = 50
    """How many results the gateway keeps for one caller; the oldest goes first."""
    result_cache_bytes: int = 64_000_000
    """How many bytes the gateway keeps for all callers of a tenant; one caller may use half."""
    parked_seconds: float = 600.0
    """How long a parked call waits for an answer."""
    parked_calls: int = 256
    """How many calls may be parked, for all callers."""
    parked_each: int = 16
    """How many calls may be parked, for one caller."""
    listeners: int = 1024
    """How many clients may listen for changes at once; one caller may use a quarter."""
    open_tenants: int = 64
    """How many tenants besides the first are open at once; the longest idle one closes first."""

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            value = getattr(self, field)
            least = 0 if field == "ttl_ms" else 1 if isinstance(value, int) else 0.001
            if isinstance(value, int | float) and not isinstance(value, bool) and value < least:
                raise ConfigError(f"`{field}` of the gateway is at least {least}, not {value}.")
