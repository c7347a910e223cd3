"""GatewayOptions: the settings of the gateway, its profiles and its limits."""

import re
from collections.abc import Mapping
from typing import Literal

import msgspec

from pegboard.errors import ConfigError
from pegboard.search.options import DEFAULT_METHOD

__all__ = ["GatewayOptions", "Profile"]

_NAMESPACE = re.compile(r"(?=.{1,100}$)[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*")


_MAY_BE_ZERO = ("ttl_ms", "loop_stall_seconds", "log_bytes", "tasks", "task_after")


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
    """Glob patterns of tools that the search surface lists after its own, and that clients which
    load tools only when needed load at once."""
    search_method: str = DEFAULT_METHOD
    """The method of `search_tools` when a call names none; ``bm25`` compares words only."""
    apps: bool = True
    """Carry MCP Apps: tools with a page that the client's host shows."""
    page_size: int = 200
    """How many items a page of a list has."""
    list_seconds: float = 5.0
    """How long a list of resources or prompts waits for a slow server."""
    ttl_ms: int = 60_000
    """How long a client may cache a list; the gateway notifies it of earlier changes."""
    max_result_chars: int = 5000
    """The length limit for results of tools of this process; servers have their own limit."""
    max_skill_chars: int = 40_000
    """The length limit for one file of a skill that `get_skill` returns; the rest is cached."""
    result_cache_on_full: bool = False
    """Also cut and cache long results on the full surface, instead of sending them whole."""
    result_cache_seconds: float = 900.0
    """How long the gateway keeps a result that it cut."""
    result_cache_results: int = 50
    """How many results the gateway keeps for one caller; the oldest goes first."""
    result_cache_bytes: int = 64_000_000
    """How many bytes the gateway keeps for all callers; the oldest of the largest user goes first.
    One caller may use half."""
    response_bytes: int = 134_217_728
    """How many bytes of large responses of servers may be under way at once; others wait."""
    parked_seconds: float = 600.0
    """How long a parked call waits for an answer."""
    parked_calls: int = 256
    """How many calls may be parked, for all callers; one tenant gets at most two thirds."""
    parked_each: int = 16
    """How many calls may be parked, for one caller."""
    tasks: int = 10_000
    """How many tasks are kept, for all callers; those that ended first go first. 0 for no tasks."""
    tasks_each: int = 1000
    """How many tasks are kept for one caller."""
    tasks_running: int = 1000
    """How many tasks run at once; one tenant gets at most two thirds, and one key half."""
    task_bytes: int = 256_000_000
    """How many bytes the results of tasks may have together; those that ended first go first."""
    task_result_bytes: int = 4_000_000
    """How many bytes the result of one task may have; the task of a larger result fails."""
    task_ttl: float = 86_400.0
    """How many seconds a task is kept from its creation; a client may ask for less."""
    task_after: float = 5.0
    """After how many seconds a call becomes a task, for a client that can have one."""
    task_after_for: Mapping[str, float] = msgspec.field(default_factory=dict[str, float])
    """Other times, by glob patterns of names of tools or servers; 0 for a task at once."""
    task_lease: float = 15.0
    """After how many seconds without a sign of life others take over the tasks of a gateway."""
    listeners: int = 1024
    """How many clients may listen for changes at once; one caller may use half."""
    watched_resources: int = 10_000
    """How many resources all clients may watch together; one caller may use half."""
    registered_tools: int = 10_000
    """How many definitions a tenant may register with `register_tool`; one key two thirds."""
    registered_bytes: int = 16_000_000
    """How many bytes those definitions may have; one key may use two thirds."""
    open_tenants: int = 64
    """How many tenants besides the first are open at once; the longest idle one closes first."""
    log_bytes: int = 20_000_000
    """How many bytes the log of the servers has on disk, for `pegboard logs`; 0 keeps no log."""
    log_bytes_per_server: int = 2_000_000
    """How many of those bytes one server may have; its oldest lines go first."""
    calls_days: float = 7.0
    """How many days the gateway keeps each call, without arguments and results."""
    calls_bytes: int = 200_000_000
    """How many bytes the calls may take on the disk; the oldest go first."""
    record_arguments: bool = False
    """Also keep the arguments of calls; they may hold secrets."""
    record_results: bool = False
    """Also keep the results of calls; they may hold secrets, and need much room."""
    loop_stall_seconds: float = 0.1
    """How much CPU time the event loop may use at a stretch, before this is counted in
    ``/metrics`` and logged; 0 switches the watchdog off."""
    registry: Literal["off", "on", "public"] = "off"
    """Serve the list of servers as an MCP registry at ``/v0.1/servers``: ``on`` to keys with the
    scope ``read``, ``public`` to every client that reaches this address, also to web pages."""
    registry_namespace: str = ""
    """What the names of the servers in the registry begin with, such as ``com.example.tools``; by
    default the host of ``auth.resource``, reversed, or else ``local.<name>``."""
    registry_requests: int = 300
    """How many requests to the registry one key may send in a minute; without keys, one address."""
    console: bool = True
    """Serve pages for people at ``/console``."""
    server_card: bool = False
    """Serve a server card (SEP-2127) at ``/mcp/server-card``, to every client."""

    def __post_init__(self) -> None:
        for field in self.__struct_fields__:
            value = getattr(self, field)
            may_be_zero = field in _MAY_BE_ZERO
            least = 0 if may_be_zero else 1 if isinstance(value, int) else 0.001
            if isinstance(value, int | float) and not isinstance(value, bool) and value < least:
                raise ConfigError(f"`{field}` of the gateway is at least {least}, not {value}.")
        if self.registry_namespace and not _NAMESPACE.fullmatch(self.registry_namespace):
            raise ConfigError(
                "`registry_namespace` of the gateway is a domain name in reverse, such as "
                f"`com.example.tools`, not {self.registry_namespace[:64]!r}."
            )
        for pattern, seconds in self.task_after_for.items():
            if seconds < 0:
                words = f"`task_after_for` of the gateway has {seconds} for {pattern[:64]!r}"
                raise ConfigError(f"{words}: a time is at least 0.")
