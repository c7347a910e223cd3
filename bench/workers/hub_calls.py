"""CPU time per `Hub.call`, a block of calls for each line on stdin that names an address.

It is given one JSON object of addresses. It runs with any Pegboard, so it uses only names that
have been public for long.
"""

import asyncio
import json
import logging
import sys
import time

logging.disable(logging.CRITICAL)

from upstream_shared import TEXT, report  # noqa: E402

from pegboard import Hub, ServerConfig  # noqa: E402
from pegboard.upstream import NoCatalogCache  # noqa: E402

CALLS, WARM_UP = 50, 3


async def main(addresses: dict[str, str]) -> None:
    configs = [
        ServerConfig(name=name, transport="streamable_http", url=url)
        for name, url in addresses.items()
    ]
    async with Hub(configs, catalog_cache=NoCatalogCache()) as hub:
        for name in addresses:
            for _ in range(WARM_UP):
                await block(hub, name)
        report()
        sys.stdout.flush()
        while name := (await asyncio.to_thread(sys.stdin.readline)).strip():
            report(cpu=await block(hub, name))
            sys.stdout.flush()


async def block(hub: Hub, name: str) -> float:
    began = time.process_time()
    for _ in range(CALLS):
        result = await hub.call(f"mcp_{name}_echo", TEXT)
    passed = (time.process_time() - began) / CALLS
    if TEXT["text"] not in str(result):
        raise SystemExit(f"{name} answered {result}")
    return passed


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
