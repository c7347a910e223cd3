"""How long some requests take, one at a time and in turns: `URL`, requests as JSON on stdin."""

import asyncio
import json
import statistics
import sys
import time
from typing import Any

import httptools
from gateway_load import HANDSHAKE, MODERN, modern_envelope, open_session, post

BLOCKS, TIMES = 30, 10


class Line:
    """One connection that stays open, for one request after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def exchange(self, request: bytes) -> tuple[int, bytes]:
        self._body: list[bytes] = []
        self._is_whole = False
        parser = httptools.HttpResponseParser(self)
        self._writer.write(request)
        while not self._is_whole:
            parser.feed_data(await self._reader.read(1 << 20))
        return parser.get_status_code(), b"".join(self._body)

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        self._is_whole = True


async def main(url: str, wanted: dict[str, dict[str, Any]]) -> None:
    host, _, port = url.split("/")[2].partition(":")
    line = Line(*await asyncio.open_connection(host, int(port)))
    session = await asyncio.to_thread(open_session, url, {})
    requests = {name: _request(url, it, session) for name, it in wanted.items()}
    times: dict[str, list[float]] = {name: [] for name in requests}
    sizes: dict[str, int] = {}
    for block in range(BLOCKS + 1):
        for name, request in requests.items():
            for _ in range(TIMES):
                began = time.perf_counter()
                status, body = await line.exchange(request)
                passed = time.perf_counter() - began
                if status != 200 or b'"error"' in body[:200]:
                    raise SystemExit(f"{name}: {status} {body[:500]!r}")
                sizes[name] = len(body)
                if block:
                    times[name].append(passed)
    figures = {name: statistics.median(it) for name, it in times.items()}
    print(json.dumps({**figures, **{f"{name}_bytes": size for name, size in sizes.items()}}))


def _request(url: str, wanted: dict[str, Any], session: dict[str, str]) -> bytes:
    message = {"id": 7, "method": wanted["method"], "params": wanted.get("params", {})}
    if wanted.get("era") == "legacy":
        assert session["MCP-Protocol-Version"] == HANDSHAKE
        return post(url, message, session)
    message["params"] = {**message["params"], "_meta": modern_envelope()}
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": wanted["method"]}
    if "name" in message["params"]:
        headers["Mcp-Name"] = message["params"]["name"]
    return post(url, message, headers)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], json.load(sys.stdin)))
