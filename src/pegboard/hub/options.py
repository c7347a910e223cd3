"""HubOptions: the options of a hub, and their checks."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from pegboard.config import ServerApproval, ServerConfig
from pegboard.model.tool_names import NamingOption, OnConflict
from pegboard.registry import Registry
from pegboard.storage import Store
from pegboard.upstream import ALL_KINDS, CatalogCache, Question, Questions, ServerLogger
from pegboard.upstream.messages.extensions import SHOWN_APPS, UI

__all__ = ["HubOptions", "Source", "check_options", "questions_of"]

Source = str | os.PathLike[str] | Mapping[str, Any] | Sequence[ServerConfig] | None
"""A file, its content, a list of servers, or ``None`` to look for a file."""


class HubOptions(TypedDict, total=False):
    """The options of a hub besides its configuration."""

    servers: Mapping[str, object]
    """Further servers: objects of the MCP SDK that live in this process, by name."""
    registry: Registry
    """The board to use, perhaps with local tools on it; by default a new one."""
    naming: NamingOption
    """How tools are named: ``"mcp"``, ``"mcp_short"``, ``"double_underscore"``, ``"plain"``, a
    template such as ``"{server}-{tool}"``, or a function of server and tool. ``gateway.naming`` of
    the file overrides it."""
    on_conflict: OnConflict
    """What happens when two tools want one name: ``"rename"``, ``"skip"``, ``"override"`` or
    ``"raise"``."""
    catalog_cache: CatalogCache
    """Where definitions are cached between runs; by default in the user's cache directory."""
    storage: str | Path | Store | None
    """Where this hub stores registered definitions, the usage of tools, and server catalogs.
    It is a URL or path as for `open_store`, opened and closed with the hub, or an open store.
    Without it, only the catalogs of servers are stored; see ``catalog_cache``."""
    tenant: str
    """The tenant in the ``storage``; not for an open store, which has its tenant."""
    inputs: Mapping[str, str]
    """Values for VS Code's ``${input:ID}`` in the file."""
    strict: bool
    """Refuse a configuration with a bad entry, instead of leaving the entry out."""
    approval: ServerApproval
    """Which servers of the configuration may be used, besides what its own ``registry`` says."""
    leave_out: Callable[[ServerConfig], bool]
    """Tells which servers of the configuration are left out."""
    max_starts: int
    """How many servers may be starting at the same time."""
    elicitation: Question
    """Handles elicitation: a server's questions to the person; the result ``None`` declines."""
    sampling: Question
    """Handles sampling: a server's requests to the model."""
    roots: Question
    """Handles roots: tells a server which directories it may use."""
    relays_questions: bool
    """Allow all servers elicitation, sampling and roots, because the client of each call handles
    them: see `CallContext`."""
    relays_apps: bool
    """Tell all servers that the clients of calls can show MCP Apps, so that they offer them."""
    on_login: Callable[[str, str], object]
    """Shows the login page of a server (name, URL) to a person; by default a browser opens it."""
    server_log: ServerLogger
    """Keeps what servers write to standard error, and what becomes of them."""


def check_options(config: object, options: HubOptions) -> None:
    """Check the arguments of a hub.

    Raises:
        TypeError: when one is wrong; the message names what is accepted.
    """
    unknown = set(options) - HubOptions.__annotations__.keys()
    if unknown:
        raise TypeError(f"Unknown options: {', '.join(sorted(unknown))}.")
    registry = options.get("registry")
    if options.get("storage") is not None and registry is not None and registry.storage is not None:
        raise TypeError("The `registry` has a storage already; leave out `storage`.")
    if options.get("tenant") is not None and not isinstance(options.get("storage"), str | Path):
        raise TypeError("A `tenant` needs a `storage` that is a URL or a path.")
    if config is None or isinstance(config, str | os.PathLike | Mapping):
        return
    if not isinstance(config, Sequence) or isinstance(config, bytes | bytearray):
        raise TypeError(
            "A hub is opened with the path of a file, with what is in one as a dict, with a list "
            f"of `ServerConfig`, or with nothing to look for a file; not with "
            f"{type(config).__name__!r}."
        )


def questions_of(options: HubOptions) -> Questions:
    """Return what servers may ask, and what they are told of the clients of their calls."""
    return Questions(
        elicitation=options.get("elicitation"),
        sampling=options.get("sampling"),
        roots=options.get("roots"),
        of_calls=ALL_KINDS if options.get("relays_questions") else frozenset(),
        extensions={UI: SHOWN_APPS} if options.get("relays_apps") else {},
    )
