"""FastMCP's proxy in front of a server: `default|connected URL PORT`. Needs FastMCP 4."""

import asyncio
import logging
import sys

from fastmcp import Client
from fastmcp.server import create_proxy

logging.disable(logging.CRITICAL)


async def main(kind: str, url: str, port: int) -> None:
    if kind == "default":
        await _serve(create_proxy(url), port)
    else:
        async with Client(url) as client:
            await _serve(create_proxy(client), port)


async def _serve(proxy: object, port: int) -> None:
    await proxy.run_http_async(port=port, log_level="critical", show_banner=False)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
