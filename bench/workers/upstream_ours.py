"""Pegboard's connections, against the SDK's bare client on the same server."""

import asyncio
import logging
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

logging.disable(logging.CRITICAL)

from upstream_shared import OURS, SERVER, TEXT, compare, http_server, report  # noqa: E402

from pegboard import Hub, ServerConfig  # noqa: E402
from pegboard.upstream import FileCatalogCache, NoCatalogCache  # noqa: E402

SLOW = Path(__file__).parent / "slow_server.py"


async def _calls(target: Any, config: ServerConfig, blocks: int, calls: int) -> None:
    from mcp import Client

    figures: dict[str, float] = {}
    async with Client(target) as client, Hub([config], catalog_cache=NoCatalogCache()) as hub:
        await client.list_tools()

        async def bare() -> object:
            return await client.call_tool("echo", TEXT)

        async def ours() -> object:
            return await hub.call("mcp_peer_echo", TEXT)

        for at_once in (1, 16):
            found = await compare(
                {"bare": bare, "ours": ours}, calls=calls, blocks=blocks, at_once=at_once
            )
            figures |= {f"{name}_{at_once}": value for name, value in found.items()}
    report(**figures)


async def memory() -> None:
    """In memory: a server object in this process."""
    from upstream_server import build

    server = build()
    await _calls(server, ServerConfig(name="peer", transport="memory", server=server), 60, 48)


async def stdio() -> None:
    """Over the pipes of a process."""
    from mcp import StdioServerParameters

    target = StdioServerParameters(command=str(OURS), args=[str(SERVER), "stdio"])
    config = ServerConfig(
        name="peer", transport="stdio", command=str(OURS), args=(str(SERVER), "stdio")
    )
    await _calls(target, config, 15, 48)


async def http() -> None:
    """Over streamable HTTP on loopback."""
    with http_server() as url:
        config = ServerConfig(name="peer", transport="streamable_http", url=url)
        await _calls(url, config, 15, 48)


async def stateless() -> None:
    """Stateless calls against stateful ones, to a modern server and to a legacy one."""
    figures: dict[str, float] = {}
    with http_server() as url:
        for protocol in ("auto", "legacy"):
            configs = [
                ServerConfig(
                    name=name,
                    transport="streamable_http",
                    url=url,
                    protocol=protocol,
                    stateless=name == "stateless",
                )
                for name in ("stateful", "stateless")
            ]
            async with Hub(configs, catalog_cache=NoCatalogCache()) as hub:
                found = await compare(
                    {
                        name: lambda name=name: hub.call(f"mcp_{name}_echo", TEXT)
                        for name in ("stateful", "stateless")
                    },
                    calls=24,
                    blocks=9,
                )
            figures |= {f"{protocol}_{name}": value for name, value in found.items()}
    report(**figures)


def _lazy_servers(folder: Path) -> tuple[list[ServerConfig], FileCatalogCache]:
    configs = [
        ServerConfig(
            name=f"server-{number}",
            transport="stdio",
            command=sys.executable,
            args=("-S", "-E", str(SLOW), "0", str(folder / "pids")),
            protocol="legacy",
            lazy=True,
        )
        for number in range(100)
    ]
    return configs, FileCatalogCache(folder / "memory")


async def warm_up() -> None:
    """The run before: it starts all servers once, and remembers what they offer."""
    configs, remembered = _lazy_servers(Path(sys.argv[2]))
    async with Hub(configs, catalog_cache=remembered, max_starts=4):
        pass


async def open_lazy() -> None:
    """A hundred lazy servers from a warm catalogue; then a hundred first calls at once."""
    with tempfile.TemporaryDirectory() as folder:
        # In a process of its own, as the run before would be.
        subprocess.run([sys.executable, __file__, "warm_up", folder], check=True)  # noqa: ASYNC221
        configs, remembered = _lazy_servers(Path(folder))
        pids = Path(folder) / "pids"
        pids.unlink()
        figures: dict[str, float] = {}
        for name, some in (("empty", []), ("hundred", configs)):
            hub = Hub(some, catalog_cache=remembered)
            began, worked = time.perf_counter(), time.process_time()
            await hub.start()
            figures[f"{name}_seconds"] = time.perf_counter() - began
            figures[f"{name}_work"] = time.process_time() - worked
            figures["tools"] = len(hub.registry)
            if name == "hundred":
                figures["processes"] = len(pids.read_text("ascii").split()) if pids.exists() else 0
                await asyncio.gather(
                    *[hub.call("mcp_server_7_tool_0", {"text": "x"}) for _ in range(100)]
                )
                figures["spawns"] = len(pids.read_text("ascii").split())
            await hub.close()
        report(**figures)


async def open_eager() -> None:
    """Fifty eager servers that take half a second to start."""
    configs = [
        ServerConfig(
            name=f"server-{number}",
            transport="stdio",
            command=sys.executable,
            args=("-S", "-E", str(SLOW), "0.5"),
            protocol="legacy",
        )
        for number in range(50)
    ]
    # What the SDK takes to import is paid once per process, and by every contender.
    async with Hub(configs[:1], catalog_cache=NoCatalogCache()):
        pass
    hub = Hub(configs, catalog_cache=NoCatalogCache())
    began = time.perf_counter()
    await hub.start()
    seconds = time.perf_counter() - began
    ready = sum(status.state == "ready" for status in hub.servers.values())
    await hub.close()
    report(seconds=seconds, ready=ready, cores=os.cpu_count() or 0)


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]]())
