"""What a hub is told: where its servers are, and how to run them."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict

from pegboard.config import ServerConfig
from pegboard.model.tool_names import NamingOption, OnConflict
from pegboard.registry import Registry
from pegboard.storage import Store
from pegboard.upstream import CatalogCache, Question

__all__ = ["HubOptions", "Source", "check_options"]

Source = str | os.PathLike[str] | Mapping[str, Any] | Sequence[ServerConfig] | None
"""A file, what is in one, a list of servers, or ``None`` to look for a file."""


class HubOptions(TypedDict, total=False):
    """What a hub can be told besides its configuration."""

    servers: Mapping[str, object]
    """Further servers: objects of the MCP SDK that live in this process, by name."""
    registry: Registry
    """The board to use, perhaps with local tools on it; without one, a new one."""
    naming: NamingOption
    """How tools are named: ``"mcp"``, ``"double_underscore"``, ``"plain"``, a template such as
    ``"{server}-{tool}"``, or a function of server and tool."""
    on_conflict: OnConflict
    """When two tools want one name: ``"rename"``, ``"skip"``, ``"override"`` or ``"raise"``."""
    catalog_cache: CatalogCache
    """Where definitions are remembered between runs; a file in the user's cache directory."""
    storage: str | Path | Store | None
    """Where this hub keeps what it knows: definitions that are registered, how often tools are
    used, what servers offered. A URL or path as for `open_store`, opened and closed with the hub,
    or a store that is open. Without it only the catalogues of servers are kept; see
    ``catalog_cache``."""
    tenant: str
    """Whose part of the ``storage`` this is; not for a store that is open, which has its tenant."""
    inputs: Mapping[str, str]
    """Answers to VS Code's ``${input:ID}`` in the file."""
    strict: bool
    """Refuse a configuration with a bad entry, instead of leaving the entry out."""
    leave_out: Callable[[ServerConfig], bool]
    """Tells which servers of the configuration are not wanted here."""
    max_starts: int
    """How many servers may be starting at the same time."""
    elicitation: Question
    """Answers a server's questions to the person; ``None`` as its answer declines."""
    sampling: Question
    """Answers a server's requests to the model."""
    roots: Question
    """Tells a server which directories it may look at."""
    relays_questions: bool
    """Let every server ask questions, because calls bring somebody along who answers them: see
    `CallContext`."""
    on_login: Callable[[str, str], object]
    """Shows a person the login page of a server (name, address); without it a browser is opened."""


def check_options(config: object, options: HubOptions) -> None:
    """Refuse what no hub can be opened with.

    Raises:
        TypeError: naming what is accepted.
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
