"""Which servers a hub has: those of its file, list or dict, and those of this process."""

import logging
from collections.abc import Sequence

import anyio.to_thread
import msgspec

from pegboard.config import LoadedConfig, ServerConfig, load_servers
from pegboard.config.locate import places_looked_in
from pegboard.errors import ConfigError
from pegboard.hub.options import HubOptions, Source

__all__ = ["configs_of", "load"]

logger: logging.Logger = logging.getLogger("pegboard.hub")


async def load(source: Source, options: HubOptions) -> LoadedConfig:
    """Read the configuration, in a thread if it is a file, and log what is wrong with it.

    Raises:
        ConfigError: when the file cannot be used at all, or with ``strict``.
    """
    if isinstance(source, Sequence) and not isinstance(source, str):
        return LoadedConfig(servers=_checked(source), origin="explicit")
    strict, inputs = options.get("strict", False), options.get("inputs")
    loaded = await anyio.to_thread.run_sync(
        lambda: load_servers(source, strict=strict, inputs=inputs)
    )
    for problem in loaded.problems:
        place = loaded.path or "configuration"
        context = {"problem": str(problem)}
        logger.warning("config_problem: %s: %s", place, problem, extra=context)
    if loaded.origin == "none" and not options.get("servers"):
        places = ", ".join(await anyio.to_thread.run_sync(places_looked_in))
        logger.warning("config_not_found: looked for %s", places, extra={"places": places})
    return loaded


def configs_of(loaded: LoadedConfig, options: HubOptions) -> list[ServerConfig]:
    """Return all servers: those that were read, and the objects of this process.

    Raises:
        ConfigError: when two have one name.
    """
    configs = [*loaded.servers, *_in_memory(options)]
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
