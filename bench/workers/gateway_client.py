"""The SDK's client, at a bare server and at gateways in turn: one JSON object of targets.

A target is `{"url": …}` or `{"command": […]}`, with the `tool` to call, and optionally the `mode`.
"""

import asyncio
import json
import logging
import statistics
import sys
import time
from contextlib import AsyncExitStack
from typing import Any

logging.disable(logging.CRITICAL)

from mcp import Client, StdioServerParameters  # noqa: E402

TEXT = {"text": "hello"}
BLOCKS, CALLS = 24, 40


async def main(targets: dict[str, dict[str, Any]]) -> None:
    async with AsyncExitStack() as stack:
        clients: dict[str, Client] = {}
        for name, it in targets.items():
            client = Client(_address(it), mode=it.get("mode", "auto"))
            clients[name] = await stack.enter_async_context(client)
            # The client looks at the list before it lets a first call go.
            await clients[name].list_tools()
            await _block(clients[name], it["tool"])
        times: dict[str, list[list[float]]] = {name: [] for name in targets}
        for _ in range(BLOCKS):
            for name, it in targets.items():
                times[name].append(await _block(clients[name], it["tool"]))
    print(json.dumps(_figures(times)))


def _address(target: dict[str, Any]) -> Any:
    if "url" in target:
        return target["url"]
    command, *arguments = target["command"]
    return StdioServerParameters(command=command, args=arguments, env=target.get("env"))


async def _block(client: Client, tool: str) -> list[float]:
    times: list[float] = []
    for _ in range(CALLS):
        began = time.perf_counter()
        result = await client.call_tool(tool, TEXT)
        times.append(time.perf_counter() - began)
        if result.is_error:
            raise SystemExit(f"{tool} answered with an error: {result}")
    return times


def _figures(times: dict[str, list[list[float]]]) -> dict[str, float]:
    """The median of each, and the median of the ratios of the blocks to the first target's."""
    medians = {name: [statistics.median(block) for block in it] for name, it in times.items()}
    first = next(iter(medians.values()))
    figures = {
        name: statistics.median(time for block in it for time in block)
        for name, it in times.items()
    }
    for name, it in medians.items():
        ratios = [mine / base for mine, base in zip(it, first, strict=True)]
        figures[f"{name}_ratio"] = statistics.median(ratios)
    return figures


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
