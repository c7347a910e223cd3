"""The victim of `bench.neighbours`: `ORIGIN KEY RATE`; it pings and calls at a steady rate.

Each line of standard input makes it print how long the requests took since the last one. A request
counts from the moment at which it was due, so one that had to wait for another is late itself.
"""

import asyncio
import json
import sys
import time
from typing import Any
from urllib.parse import urlsplit

import httptools
from bench.workers.gateway_load import MODERN, call, modern_envelope, open_session, post

HANDSHAKE_TOOL = "mcp_own_ask"
ANSWER = {"action": "accept", "content": {"name": "Ada"}}


class Requests(asyncio.Protocol):
    """One connection; it opens again when the gateway closes it."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.answer: asyncio.Future[tuple[int, bytes]] | None = None
        self.session = ""
        self.body = bytearray()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.fail(error)

    def on_header(self, name: bytes, value: bytes) -> None:
        if name.lower() == b"mcp-session-id":
            self.session = value.decode()

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        if self.answer is not None and not self.answer.done():
            self.answer.set_result((self.parser.get_status_code(), bytes(self.body)))

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        self.fail(error or ConnectionError("closed"))

    def fail(self, error: Exception) -> None:
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(error)

    async def ask(self, host: str, port: int, request: bytes) -> tuple[int, bytes]:
        loop = asyncio.get_running_loop()
        if self.transport is None:
            await loop.create_connection(lambda: self, host, port)
        self.parser, self.body = httptools.HttpResponseParser(self), bytearray()
        self.answer = loop.create_future()
        self.transport.write(request)
        return await self.answer


class Victim:
    """Some requests, each at its own rate, and how long they took."""

    def __init__(self, origin: str, key: str, rate: float) -> None:
        self.url = f"{origin}/mcp-full"
        self.host, self.port = str(urlsplit(origin).hostname), urlsplit(origin).port or 80
        self.key = {"Authorization": f"Bearer {key}"}
        self.rate = rate
        self.times: list[float] = []
        self.errors: list[str] = []
        self.due: dict[str, float] = {}
        session = {**open_session(self.url, self.key), **self.key}
        self.ping = post(self.url, {"id": 1, "method": "ping"}, session)
        named = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call"}
        self.named = {**named, **self.key}
        message = call("mcp_near_echo", {"text": "hello"}, modern_envelope())
        self.call = post(self.url, message, {**self.named, "Mcp-Name": "mcp_near_echo"})
        shake = {"protocolVersion": "2025-11-25", "capabilities": {}}
        shake["clientInfo"] = {"name": "victim", "version": "1"}
        hello = {"id": 1, "method": "initialize", "params": shake}
        self.hello = post(self.url, hello, self.key)

    async def live(self) -> None:
        await asyncio.gather(
            self.keep("ping", 1 / self.rate, self.plainly(self.ping, b"result")),
            self.keep("call", 1 / self.rate, self.plainly(self.call, b"hello")),
            self.keep("session", 1.0, self.come_and_go, timed=False),
            self.keep("question", 1.0, self.be_asked, timed=False),
            self.report(),
        )

    async def keep(self, name: str, every: float, act: Any, *, timed: bool = True) -> None:
        connection, due = Requests(), time.perf_counter()
        while True:
            due += every
            await asyncio.sleep(due - time.perf_counter())
            if timed:
                self.due[name] = due
            try:
                await act(connection)
            except Exception as error:  # noqa: BLE001 - whatever went wrong, it is counted
                self.errors.append(f"{name}: {error!r}"[:300])
                connection = Requests()
            if timed:
                self.times.append(time.perf_counter() - due)
                del self.due[name]
            else:
                due = max(due, time.perf_counter() - every)

    def plainly(self, request: bytes, expected: bytes) -> Any:
        async def act(connection: Requests) -> None:
            status, body = await connection.ask(self.host, self.port, request)
            if status != 200 or expected not in body:
                raise ValueError(f"{status} {body[:200]!r}")

        return act

    async def come_and_go(self, connection: Requests) -> None:
        """Open a session, and end it."""
        await self.plainly(self.hello, b"serverInfo")(connection)
        head = {"Mcp-Session-Id": connection.session, **self.key}
        end = post(self.url, {}, head).replace(b"POST", b"DELETE", 1)
        await connection.ask(self.host, self.port, end)

    async def be_asked(self, connection: Requests) -> None:
        """Call a tool that has a question: the gateway parks the call until the answer."""
        meta = modern_envelope()
        meta["io.modelcontextprotocol/clientCapabilities"] = {"elicitation": {"form": {}}}
        message = call(HANDSHAKE_TOOL, {"seconds": 0.1}, meta)
        for _ in range(3):
            request = post(self.url, message, {**self.named, "Mcp-Name": HANDSHAKE_TOOL})
            status, body = await connection.ask(self.host, self.port, request)
            result = json.loads(body.split(b"data: ")[-1]).get("result")
            if status != 200 or result is None:
                raise ValueError(f"{status} {body[:200]!r}")
            if result.get("resultType") != "input_required":
                return
            message["params"]["inputResponses"] = dict.fromkeys(result["inputRequests"], ANSWER)
            message["params"]["requestState"] = result["requestState"]

    async def report(self) -> None:
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        while await reader.readline():
            now = time.perf_counter()
            times, self.times = self.times, []
            errors, self.errors = self.errors, []
            # What waits now, and what is due behind it, has waited at least so long.
            for due in self.due.values():
                waits = now - due
                while waits > 1 / self.rate:
                    times.append(waits)
                    waits -= 1 / self.rate
            times.sort()
            found = {
                "requests": len(times),
                "p50": times[len(times) // 2] if times else 0.0,
                "p99": times[int(len(times) * 0.99)] if times else 0.0,
                "longest": times[-1] if times else 0.0,
                "errors": len(errors),
                "error": errors[0] if errors else "",
            }
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    origin, key, rate = sys.argv[1:]
    victim = Victim(origin, key, float(rate))
    asyncio.run(victim.live())
