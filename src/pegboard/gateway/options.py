"""What a gateway is told besides its hub."""

from collections.abc import Mapping

import msgspec

from pegboard.errors import ConfigError
from pegboard.search.options import DEFAULT_METHOD

__all__ = ["GatewayOptions", "Profile"]


class Profile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A named part of the catalogue, served under an address of its own."""

    servers: tuple[str, ...] = ("*",)
    """Glob patterns of the servers that belong to it; tools without a server match ``""``."""
    tools: tuple[str, ...] = ("*",)
    """Glob patterns of the names of tools."""
    tags: tuple[str, ...] = ()
    """Only what has one of these; empty for everything."""


class GatewayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Limits and choices; the defaults suit one machine and a few clients."""

    name: str = "pegboard"
    """What the gateway calls itself."""
    profiles: Mapping[str, Profile] = msgspec.field(default_factory=dict[str, Profile])
    """Parts of the catalogue by name, for addresses such as ``/mcp/<name>``."""
    pinned: tuple[str, ...] = ()
    """Glob patterns of tools that the search surface lists beside its own."""
    search_method: str = DEFAULT_METHOD
    """The method of `search_tools` when a call names none; ``bm25`` compares words only."""
    page_size: int = 200
    """How many items one page of a list has."""
    list_seconds: float = 5.0
    """How long a list of resources or prompts waits for a server that answers slowly."""
    ttl_ms: int = 60_000
    """How long a client may keep a list without asking again; it is told of changes before."""
    max_result_chars: int = 5000
    """Longer results of tools of this process are cached; servers have their own limit."""
    result_cache_on_full: bool = False
    """Cache results that are too large on the full surface, too, instead of sending them whole."""
    result_cache_seconds: float = 900.0
    """How long a result that was too large is kept for its caller."""
    result_cache_results: int = 50
    """How many are kept for one caller; the oldest goes first."""
    result_cache_bytes: int = 64_000_000
    """How many bytes are kept for all callers of a tenant; no more than half of it for one."""
    parked_seconds: float = 600.0
    """How long a call waits for the answer to a question."""
    parked_calls: int = 256
    """How many calls may wait so, for all callers."""
    parked_each: int = 16
    """How many calls may wait so, for one caller."""
    listeners: int = 1024
    """How many clients may listen for changes at once."""
    open_tenants: int = 64
    """How many tenants besides the first are open at once; the one idle for longest goes first."""

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            value = getattr(self, field)
            least = 0 if field == "ttl_ms" else 1 if isinstance(value, int) else 0.001
            if isinstance(value, int | float) and not isinstance(value, bool) and value < least:
                raise ConfigError(f"`{field}` of the gateway is at least {least}, not {value}.")
