"""Soak: mixed load on a gateway while its upstreams come and go; then nothing may be left over.

`python -m bench.soak --minutes 10`. It fails when a call to the steady upstream fails or hangs, or
when memory, tasks, descriptors, threads or processes do not come back to where they were.
"""

import argparse
import json
import logging
import random
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import mcp_types as types
from mcp import Client, MCPError

from bench.gateway_contenders import OURS, UPSTREAM, Contender, free_port, pegboard, running
from bench.measure import ROOT, WORKERS
from bench.workers.gateway_load import request_for

MODES = ("legacy", "2026-07-28")
CLIENTS = 12
LONGEST_CALL = 30
"""Seconds after which a call counts as hung."""
SETTLE = 40
"""Seconds within which everything has to be over once the load ends."""
ALLOWED = {"MiB": 24, "descriptors": 4, "tasks": 4, "threads": 4, "processes": 1}
"""By how much each may have grown."""
SearchResponse = types.ElicitResult(action="accept", content={"name": "Ada"})


class Load:
    """Clients that do a little of everything, and what came of it."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self.done: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()
        self.is_over = False

    async def run(self, seconds: float) -> None:
        """Keep some clients busy for so long."""
        self.is_over = False
        async with anyio.create_task_group() as tasks:
            for number in range(CLIENTS):
                tasks.start_soon(self._live, MODES[number % 2])
            await anyio.sleep(seconds)
            self.is_over = True

    async def _live(self, mode: str) -> None:
        while not self.is_over:
            await self._visit(mode)

    async def _visit(self, mode: str) -> None:
        """One client: it connects, does some things, and leaves, sometimes without a word."""

        async def elicit(_: Any, params: Any) -> types.ElicitResult:
            return SearchResponse

        face = random.choice(["/mcp", "/mcp-full"])
        try:
            async with Client(
                f"{self._origin}{face}", mode=mode, elicitation_callback=elicit
            ) as client:
                for _ in range(random.randrange(1, 30)):
                    if self.is_over:
                        return
                    await self._act(client, face, mode)
        except* (MCPError, OSError) as group:
            self.wrong[f"visit: {group.exceptions[0]!r}"[:200]] += 1

    async def _act(self, client: Client, face: str, mode: str) -> None:
        name = random.choice(list(ACTIONS if mode != "legacy" else LEGACY_ACTIONS))
        try:
            with anyio.fail_after(LONGEST_CALL):
                await ACTIONS[name](client, face)
            self.done[name] += 1
        except TimeoutError:
            self.wrong[f"{name} hung ({mode} {face})"] += 1
        except MCPError as error:
            if name in MAY_FAIL:
                self.done[f"{name}, refused"] += 1
            else:
                self.wrong[f"{name}: {error.error.code} {error.error.message}"[:200]] += 1


async def _call(client: Client, face: str, tool: str, **arguments: Any) -> types.CallToolResult:
    if face == "/mcp-full":
        return await client.call_tool(tool, arguments)
    return await client.call_tool("call_tool", {"name": tool, "arguments": arguments})


def _steady(tool: str) -> Any:
    async def act(client: Client, face: str) -> None:
        result = await _call(client, face, f"mcp_steady_{tool}")
        if result.is_error:
            raise MCPError(0, f"{result.content}")

    return act


def _shaky(server: str) -> Any:
    async def act(client: Client, face: str) -> None:
        result = await _call(client, face, f"mcp_{server}_echo", text="hello")
        if result.is_error:
            raise MCPError(0, "as expected now and then")

    return act


async def _list_tools(client: Client, face: str) -> None:
    await client.list_tools(cache_mode="bypass")


async def _list_resources(client: Client, face: str) -> None:
    await client.list_resources(cache_mode="bypass")


async def _list_prompts(client: Client, face: str) -> None:
    await client.list_prompts(cache_mode="bypass")


async def _search(client: Client, face: str) -> None:
    if face == "/mcp":
        await client.call_tool("search_tools", {"query": "give back the text"})


async def _read(client: Client, face: str) -> None:
    for it in (await client.list_resources()).resources:
        if "static-text" in str(it.uri):
            await client.read_resource(str(it.uri))


async def _give_up(client: Client, face: str) -> None:
    """Call a tool that does not answer, and lose patience."""
    with anyio.move_on_after(random.random()):
        await _call(client, face, "mcp_mute_echo", text="hello")


async def _vanish(client: Client, face: str) -> None:
    """Call a tool that does not answer, over a socket that is gone before it could."""
    address = urlsplit(str(client.server))
    tool = "mcp_mute_echo" if face == "/mcp-full" else "call_tool"
    request = request_for(str(client.server), "modern", tool, {"name": "mcp_mute_echo"})
    async with await anyio.connect_tcp(str(address.hostname), address.port or 80) as stream:
        await stream.send(request[: random.randrange(1, len(request) + 200)])
        await anyio.sleep(random.random() / 5)


async def _listen(client: Client, face: str) -> None:
    async with client.listen(tools_list_changed=True):
        await anyio.sleep(random.random())


ACTIONS: dict[str, Any] = {
    "text": _steady("test_simple_text"),
    "progress": _steady("test_tool_with_progress"),
    "elicitation": _steady("test_input_required_result_elicitation"),
    "changed tools": _steady("test_trigger_tool_change"),
    "list of tools": _list_tools,
    "list of resources": _list_resources,
    "list of prompts": _list_prompts,
    "search": _search,
    "resource": _read,
    "flapping": _shaky("flapping"),
    "dying": _shaky("dying"),
    "mute": _shaky("mute"),
    "cancelled": _give_up,
    "vanished": _vanish,
    "listening": _listen,
}
LEGACY_ACTIONS = {name: it for name, it in ACTIONS.items() if name != "listening"}
MAY_FAIL = {"flapping", "dying", "mute", "cancelled"}


async def flap(port: int) -> None:
    """Start the upstream behind HTTP, kill it, and start it again, for ever."""
    while True:
        command = [OURS, UPSTREAM, "http", str(port)]
        process = await anyio.open_process(command, stdin=subprocess.DEVNULL)
        try:
            await anyio.sleep(random.uniform(8, 20))
        finally:
            process.kill()
            with anyio.CancelScope(shield=True):
                await process.wait()
        await anyio.sleep(random.uniform(0, 3))


def state_of(gateway: Contender) -> dict[str, float]:
    """What the gateway holds at this moment."""
    process = Path(f"/proc/{gateway.pid}")
    with urllib.request.urlopen(f"{gateway.origin}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    gauges = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    children = [it for it in _parents().values() if it == gateway.pid]
    return {
        "MiB": gateway.resident_mib(),
        "descriptors": len(list((process / "fd").iterdir())),
        "tasks": float(gauges.get("pegboard_tasks", 0)),
        "threads": len(list((process / "task").iterdir())),
        "processes": len(children),
        "running": float(gauges.get("pegboard_requests_running", 0)),
    }


def _parents() -> dict[int, int]:
    found: dict[int, int] = {}
    for it in Path("/proc").iterdir():
        if it.name.isdigit():
            try:
                fields = (it / "stat").read_text("ascii", "replace").rpartition(")")[2].split()
            except OSError:
                continue
            found[int(it.name)] = int(fields[1])
    return found


async def settled(gateway: Contender) -> dict[str, float]:
    """Wait until nothing is under way; gives what is held then."""
    best: dict[str, float] = {}
    deadline = time.monotonic() + SETTLE
    while time.monotonic() < deadline:
        await anyio.sleep(2)
        now = await anyio.to_thread.run_sync(state_of, gateway)
        best = {name: min(value, best.get(name, value)) for name, value in now.items()}
    return best


async def soak(gateway: Contender, port: int, *, minutes: float) -> int:
    load = Load(gateway.origin)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(flap, port)
        await load.run(min(60, minutes * 60 / 3))
        before = await settled(gateway)
        print(f"after the warm-up: {json.dumps(before)}", flush=True)
        await load.run(minutes * 60)
        after = await settled(gateway)
        tasks.cancel_scope.cancel()
    print(f"after the soak:    {json.dumps(after)}")
    print(f"done:  {json.dumps(load.done)}\nwrong: {json.dumps(load.wrong)}")
    leaked = {
        name: after[name] - before[name]
        for name, more in ALLOWED.items()
        if after[name] - before[name] > more
    }
    print(f"left over: {json.dumps(leaked)}")
    return 1 if leaked or load.wrong or after["running"] else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    minutes = parser.parse_args().minutes
    # The SDK's client tells of every answer that came when it had left.
    logging.disable(logging.CRITICAL)
    port = free_port()
    python = {"command": str(OURS), "cwd": str(ROOT)}
    dying = str(WORKERS / "dying_server.py")
    servers: dict[str, Any] = {
        "steady": {**python, "args": ["-m", "tests.conformance.fixture_server", "stdio"]},
        "flapping": {"url": f"http://127.0.0.1:{port}/mcp"},
        "dying": {**python, "args": ["-S", "-E", dying, "dying"], "protocol": "legacy"},
        "mute": {
            **python,
            "args": ["-S", "-E", dying, "mute"],
            "protocol": "legacy",
            "timeouts": {"call": 2},
        },
    }
    with ExitStack() as stack:
        first = [OURS, UPSTREAM, "http", port]
        with running(first, f"http://127.0.0.1:{port}/mcp/"):
            gateway = stack.enter_context(pegboard(servers))
        verdict = anyio.run(lambda: soak(gateway, port, minutes=minutes))
        pid = gateway.pid
    orphans = [it for it, parent in _parents().items() if parent == pid]
    print(f"processes left by the gateway: {orphans}")
    return 1 if orphans else verdict


if __name__ == "__main__":
    sys.exit(main())
