"""Idle sessions of the handshake era: `URL COUNT`; says `ready`, and holds them until the end."""

import asyncio
import json
import sys
from typing import Any
from urllib.parse import urlsplit

from gateway_load import CLIENT, HANDSHAKE, post

AT_ONCE = 20


async def main(url: str, count: int) -> None:
    """Open them all, each with the stream on which a client waits for news."""
    gate = asyncio.Semaphore(AT_ONCE)
    held = await asyncio.gather(*[_open(url, gate) for _ in range(count)])
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for writer in held:
        writer.close()


async def _open(url: str, gate: asyncio.Semaphore) -> asyncio.StreamWriter:
    params = {"protocolVersion": HANDSHAKE, "capabilities": {}, "clientInfo": CLIENT}
    async with gate:
        head, _ = await _exchange(url, {"id": 1, "method": "initialize", "params": params}, {})
        session = {"MCP-Protocol-Version": HANDSHAKE, "Mcp-Session-Id": head["mcp-session-id"]}
        await _exchange(url, {"method": "notifications/initialized"}, session)
        parts = urlsplit(url)
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        lines = [
            f"GET {parts.path} HTTP/1.1",
            f"Host: {parts.netloc}",
            "Accept: text/event-stream",
            *(f"{name}: {value}" for name, value in session.items()),
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode())
        status = await reader.readline()
        if b" 200 " not in status:
            raise SystemExit(f"No stream: {status!r}")
        return writer


async def _exchange(
    url: str, message: dict[str, Any], headers: dict[str, str]
) -> tuple[dict[str, str], bytes]:
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write(post(url, message, {**headers, "Connection": "close"}))
    answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    if " 20" not in first:
        raise SystemExit(f"{json.dumps(message)} was answered with {answer!r}")
    named = (line.partition(":") for line in lines)
    return {name.lower(): value.strip() for name, _, value in named}, body


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
