"""Starting servers once, so that the store remembers what they offer."""

import logging
from collections.abc import Mapping, Sequence

import anyio
from msgspec.structs import replace

from pegboard.cli.output import progress
from pegboard.cli.wording import counted
from pegboard.config import ServerConfig
from pegboard.hub import Hub
from pegboard.upstream import ServerState

__all__ = ["start_servers"]


def start_servers(configs: Sequence[ServerConfig], store: str) -> Mapping[str, str]:
    """Start servers, have their tools remembered in a store, and return why some of them failed."""
    # What goes wrong is said once, by the command.
    logging.getLogger("pegboard").addHandler(logging.NullHandler())
    return anyio.run(_start, configs, store)


async def _start(configs: Sequence[ServerConfig], store: str) -> Mapping[str, str]:
    # One that is to be started by its first call would never be asked for its tools otherwise.
    hub = Hub([replace(config, lazy=False) for config in configs], storage=store)
    with progress() as bar:
        task = bar.add_task(f"Starting {counted(len(configs), 'server')}", total=len(configs))
        hub.on_change(lambda _: bar.advance(task))
        async with hub:
            return {
                name: status.last_error or f"Server {name!r} is {status.state}."
                for name, status in hub.servers.items()
                if status.state != ServerState.READY
            }
