"""FastMCP, as its users call a tool of their own process."""

import asyncio
import gc
import sys
import time

from fastmcp import Client, FastMCP
from shared import ECHO, TOOLS, functions, report, resident_bytes

CALLS = 500


async def echo(text: str) -> str:
    "Echo."
    return text


async def calls() -> None:
    server = FastMCP("bench")
    server.add_tool(echo)
    async with Client(server) as client:
        answer = await client.call_tool("echo", ECHO)
        assert answer.data == "hello"
        start = time.perf_counter()
        for _ in range(CALLS):
            await client.call_tool("echo", ECHO)
        report(call=(time.perf_counter() - start) / CALLS)


async def register() -> None:
    items = functions()
    gc.collect()
    before = resident_bytes()
    start = time.perf_counter()
    server = FastMCP("bench")
    for item in items:
        server.add_tool(item)
    seconds = time.perf_counter() - start
    assert len(await server.list_tools()) == TOOLS
    report(seconds=seconds, bytes_per_tool=(resident_bytes() - before) / TOOLS)


if __name__ == "__main__":
    asyncio.run({"calls": calls, "register": register}[sys.argv[1]]())
