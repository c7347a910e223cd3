"""Sources: load the servers of a hub from a file, a dict, a list, or this process."""

import logging
from collections.abc import Sequence
from urllib.parse import urlsplit

import anyio.to_thread
import msgspec

from pegboard.auth.network_exposure import is_loopback
from pegboard.config import LoadedConfig, ServerConfig, load_servers
from pegboard.config.files.locate import places_looked_in
from pegboard.errors import ConfigError
from pegboard.hub.options import HubOptions, Source

__all__ = ["configs_of", "is_own_address", "load", "load_again"]

_ANY_HOST = ("0.0.0.0", "::")  # noqa: S104 - to be known, not to be bound


def is_own_address(config: ServerConfig, host: str, port: int) -> bool:
    """Tell whether the URL of a server is that of a gateway at this host and port."""
    place = urlsplit(config.url or "")
    name = place.hostname or ""
    is_here = name == host or "localhost" in (name, host) or host in _ANY_HOST
    return place.port == port and is_loopback(name) and is_here


logger: logging.Logger = logging.getLogger("pegboard.hub")


async def load(source: Source, options: HubOptions) -> LoadedConfig:
    """Read the configuration, in a thread if it is a file, and log its problems.

    Raises:
        ConfigError: when the file cannot be used at all, or with ``strict``.
    """
    if isinstance(source, Sequence) and not isinstance(source, str):
        return LoadedConfig(servers=_checked(source), origin="explicit")
    strict, inputs = options.get("strict", False), options.get("inputs")
    approval = options.get("approval")
    loaded = await anyio.to_thread.run_sync(
        lambda: load_servers(source, strict=strict, inputs=inputs, approval=approval)
    )
    for problem in loaded.problems:
        place = loaded.path or "configuration"
        context = {"problem": str(problem)}
        logger.warning("config_problem: %s: %s", place, problem, extra=context)
    if loaded.origin == "none" and not options.get("servers"):
        places = ", ".join(await anyio.to_thread.run_sync(places_looked_in))
        logger.warning("config_not_found: looked for %s", places, extra={"places": places})
    return loaded


async def load_again(source: Source, options: HubOptions, *, before: LoadedConfig) -> LoadedConfig:
    """Read the configuration of an open hub again; a server whose entry is invalid now stays.

    Raises:
        ConfigError: when the file is gone, cannot be used, or has no section for servers. Only an
            empty section removes all servers.
    """
    place = None if before.path is None else str(before.path)
    try:
        # The same file as before, even if a file with precedence has been created since.
        loaded = await load(source if place is None else place, options)
    except ConfigError as error:
        if place is None or not error.is_missing:
            raise
        raise ConfigError("The configuration file is gone.", path=place, is_missing=True) from None
    errors = [it for it in loaded.problems if it.severity == "error"]
    for it in errors:
        if it.server is None:
            raise ConfigError(it.message, path=place, line=it.line, column=it.column)
    if before.servers and not loaded.has_section:
        raise ConfigError(
            'The file names no servers; to stop all of them, write "mcpServers": {}.', path=place
        )
    # One that is not allowed any more is stopped.
    refused = {it.server for it in errors if it.kind == "not_allowed"}
    broken = {it.server for it in errors} - {it.name for it in loaded.servers} - refused
    kept = tuple(it for it in before.servers if it.name in broken)
    for it in kept:
        context = {"server": it.name}
        logger.error(
            "config_kept: server %r stays as it was: its entry in the file cannot be used.",
            it.name,
            extra=context,
        )
    servers = (*loaded.servers, *kept)
    if place is None:
        return msgspec.structs.replace(loaded, servers=servers)
    return msgspec.structs.replace(
        loaded, servers=servers, origin=before.origin, others=before.others
    )


def configs_of(loaded: LoadedConfig, options: HubOptions) -> list[ServerConfig]:
    """Return all servers: those of the configuration, and those in this process.

    Raises:
        ConfigError: when two servers have one name.
    """
    unwanted = options.get("leave_out")
    wanted = [it for it in loaded.servers if unwanted is None or not unwanted(it)]
    configs = [*wanted, *_in_memory(options)]
    names = [config.name for config in configs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(f"Two servers are named {twice[0]!r}; give each a name of its own.")
    return configs


def _in_memory(options: HubOptions) -> list[ServerConfig]:
    return [
        msgspec.structs.replace(it, name=name)
        if isinstance(it, ServerConfig)
        else ServerConfig(name=name, transport="memory", server=it)
        for name, it in options.get("servers", {}).items()
    ]


def _checked(configs: Sequence[object]) -> tuple[ServerConfig, ...]:
    found = tuple(it for it in configs if isinstance(it, ServerConfig))
    if len(found) != len(configs):
        raise TypeError(
            "A list of servers holds `ServerConfig` objects; pass what is in a file as a dict: "
            '{"mcpServers": {...}}.'
        )
    return found
