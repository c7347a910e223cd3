"""A load generator: `URL ERA TOOL CONNECTIONS SECONDS`; or `ceiling`, against next to nothing.

It writes requests that were made once to sockets that stay open, and reads the answers with a
parser written in C. So it takes a small part of what the parties it measures take.
"""

import asyncio
import itertools
import json
import resource
import statistics
import sys
import time
import urllib.request
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httptools

MODERN = "2026-07-28"
HANDSHAKE = "2025-11-25"
CLIENT = {"name": "load", "version": "1"}
ARGUMENTS = {"text": "hello"}
ID = b"1000000"
"""Stands for the id of a request: within a session no two are alike."""
FEWEST, LONGEST = 50, 60
"""It goes on until it has so many answers, but not for more seconds than that."""
WARM_UP = 0.5
"""Seconds that are not counted."""
DECLARED = {"elicitation": {"form": {}}, "sampling": {}, "roots": {"listChanged": True}}
"""What most desktop clients can do."""


class Connection(asyncio.Protocol):
    """One socket: a request, its answer, the next request."""

    def __init__(self, request: bytes, expected: bytes, ids: Iterator[int]) -> None:
        self.before, _, self.after = request.partition(ID)
        self.expected, self.ids = expected, ids
        self.times: list[float] = []
        self.errors: list[str] = []
        self.closed = asyncio.get_running_loop().create_future()
        self.ends = float("inf")

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.parser = httptools.HttpResponseParser(self)
        self.send()

    def send(self) -> None:
        self.body: list[bytes] = []
        self.began = time.perf_counter()
        self.transport.write(b"%b%b%b" % (self.before, b"%d" % next(self.ids), self.after))

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self.body.append(body)

    def on_message_complete(self) -> None:
        now = time.perf_counter()
        status, body = self.parser.get_status_code(), b"".join(self.body)
        if status == 200 and self.expected in body:
            self.times.append(now - self.began)
        else:
            self.errors.append(f"{status} {body[:300]!r}")
        if now < self.ends and len(self.errors) < 20:
            # Not at once: the parser is still busy with this answer.
            asyncio.get_running_loop().call_soon(self.again)
        else:
            self.transport.close()

    def again(self) -> None:
        self.parser = httptools.HttpResponseParser(self)
        self.send()

    def connection_lost(self, error: Exception | None) -> None:
        if error is not None:
            self.errors.append(repr(error))
        if not self.closed.done():
            self.closed.set_result(None)


def post(url: str, message: dict[str, Any], headers: dict[str, str]) -> bytes:
    """The bytes of one request."""
    parts = urlsplit(url)
    body = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode()
    lines = [
        f"POST {parts.path} HTTP/1.1",
        f"Host: {parts.netloc}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"Content-Length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


def call(tool: str, arguments: dict[str, Any], meta: dict[str, Any]) -> dict[str, Any]:
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    return {
        "id": int(ID),
        "method": "tools/call",
        "params": {**params, "_meta": meta} if meta else params,
    }


def modern_envelope() -> dict[str, Any]:
    prefix = "io.modelcontextprotocol/"
    return {
        f"{prefix}protocolVersion": MODERN,
        f"{prefix}clientInfo": CLIENT,
        f"{prefix}clientCapabilities": {},
    }


def request_for(
    url: str,
    era: str,
    tool: str,
    arguments: dict[str, Any] = ARGUMENTS,
    *,
    headers: dict[str, str] | None = None,
) -> bytes:
    """A call of a tool in one of the eras; in the older one a session is opened for it.

    The era `declaring` is the older one, with a client that can be asked.
    """
    more = headers or {}
    if era == "modern":
        named = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": tool}
        return post(url, call(tool, arguments, modern_envelope()), {**named, **more})
    session = open_session(url, more, DECLARED if era == "declaring" else {})
    return post(url, call(tool, arguments, {}), {**session, **more})


def open_session(
    url: str, more: dict[str, str], capabilities: dict[str, Any] | None = None
) -> dict[str, str]:
    """Shake hands; gives the headers of the session."""
    params = {
        "protocolVersion": HANDSHAKE,
        "capabilities": capabilities or {},
        "clientInfo": CLIENT,
    }
    answer = _urlopen(url, {"id": 1, "method": "initialize", "params": params}, more)
    session = {"MCP-Protocol-Version": HANDSHAKE}
    if answer.headers.get("Mcp-Session-Id"):
        session["Mcp-Session-Id"] = answer.headers["Mcp-Session-Id"]
    _urlopen(url, {"method": "notifications/initialized"}, {**session, **more})
    return session


def _urlopen(url: str, message: dict[str, Any], headers: dict[str, str]) -> Any:
    kinds = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    request = urllib.request.Request(url, body, {**kinds, **headers})
    with urllib.request.urlopen(request, timeout=60) as answer:
        answer.read()
        return answer


async def load(
    url: str, request: bytes, expected: bytes, *, connections: int, seconds: float
) -> dict[str, float]:
    """Send one request again and again, on some connections at once."""
    parts = urlsplit(url)
    loop = asyncio.get_running_loop()
    opened: list[Connection] = []
    ids = itertools.count(int(ID) + 1)
    for _ in range(connections):
        _, it = await loop.create_connection(
            lambda: Connection(request, expected, ids), parts.hostname, parts.port
        )
        opened.append(it)
    before = min(WARM_UP, seconds / 2)
    await asyncio.sleep(before)
    for it in opened:
        it.times.clear()
    began, worked = time.perf_counter(), _cpu()
    await asyncio.sleep(seconds)
    while sum(len(it.times) for it in opened) < FEWEST and time.perf_counter() < began + LONGEST:  # noqa: ASYNC110 - an event would cost every answer
        await asyncio.sleep(0.5)
    passed, work = time.perf_counter() - began, _cpu() - worked
    times = sorted(value for it in opened for value in it.times)
    errors = [error for it in opened for error in it.errors]
    for it in opened:
        it.ends = 0.0
    await asyncio.wait([it.closed for it in opened], timeout=30)
    if errors or not times:
        raise SystemExit(f"{len(errors)} errors, {len(times)} answers from {url}: {errors[:1]}")
    return {
        "calls": len(times) / passed * (passed + before),
        "calls_per_second": len(times) / passed,
        "p50": statistics.median(times),
        "p99": times[int(len(times) * 0.99)],
        "load_cpu_per_call": work / len(times),
    }


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Constant(asyncio.Protocol):
    """Next to nothing: it answers every packet with the same bytes."""

    ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(self.ANSWER)


async def ceiling() -> dict[str, float]:
    """What the generator can do at most, with next to nothing in the same process."""
    server = await asyncio.get_running_loop().create_server(Constant, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    request = request_for(url, "modern", "echo")
    return await load(url, request, b"hello", connections=16, seconds=2)


def main() -> None:
    match sys.argv[1:]:
        case ["ceiling"]:
            found = asyncio.run(ceiling())
        case [url, era, tool, connections, seconds]:
            request = request_for(url, era, tool)
            found = asyncio.run(
                load(url, request, b"hello", connections=int(connections), seconds=float(seconds))
            )
        case other:
            raise SystemExit(f"What is {other}?")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
