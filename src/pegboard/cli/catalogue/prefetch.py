"""Start servers once, so that their tools are cached in the store."""

import logging
from collections.abc import Mapping, Sequence

import anyio
from msgspec.structs import replace

from pegboard.cli.terminal.output import progress
from pegboard.cli.terminal.plain_text import counted
from pegboard.config import ServerConfig
from pegboard.hub import Hub
from pegboard.upstream import ServerState

__all__ = ["start_servers", "within"]


def start_servers(
    configs: Sequence[ServerConfig], store: str, *, patience: float | None = None
) -> Mapping[str, str]:
    """Start servers, cache their tools in a store, and return why some of them failed.

    Args:
        configs: the servers.
        store: where their tools are cached.
        patience: how many seconds each may take, instead of its configured limits.
    """
    # The command itself reports each failure once.
    logging.getLogger("pegboard").addHandler(logging.NullHandler())
    return anyio.run(_start, [_to_start(it, patience) for it in configs], store)


def within(config: ServerConfig, patience: float | None) -> ServerConfig:
    """Return a server whose start is limited to so many seconds, if a limit is given."""
    if patience is None:
        return config
    own = config.timeouts
    limits = replace(own, connect=min(own.connect, patience), list=min(own.list, patience))
    return replace(config, timeouts=limits)


def _to_start(config: ServerConfig, patience: float | None) -> ServerConfig:
    # Otherwise, a lazy server would never be asked for its tools.
    return replace(within(config, patience), lazy=False)


async def _start(configs: Sequence[ServerConfig], store: str) -> Mapping[str, str]:
    hub = Hub(configs, storage=store)
    with progress() as bar:
        task = bar.add_task(f"Starting {counted(len(configs), 'server')}", total=len(configs))
        hub.on_change(lambda _: bar.advance(task))
        async with hub:
            return {
                name: status.last_error or f"Server {name!r} is {status.state}."
                for name, status in hub.servers.items()
                if status.state != ServerState.READY
            }
