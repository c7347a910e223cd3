"""An MCP server that answers as it is told, for `bench.neighbours`: `http PORT` or `stdio`.

Over HTTP it speaks the modern era, over stdio the handshake era. The tool `hostile` takes an
order: what to answer to which method, and what to send before. `/start/ERA/N` is a server whose
first answer is hostile, the Nth of the list.
"""

import asyncio
import gzip
import json
import os
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httptools
from bench.neighbours_fields import HOLE, Fields, answer_fields, made

SERVER = {"io.modelcontextprotocol/serverInfo": {"name": "hostile", "version": "1"}}
ECHO = {"type": "object", "properties": {"text": {"type": "string"}}}


def _items(count: int) -> dict[str, Any]:
    allowed = [{"kind": f"k{it}", "n": it} for it in range(count)]
    items: dict[str, Any] = {"type": "string"} if count == 0 else {"enum": allowed}
    return {"type": "object", "properties": {"items": {"type": "array", "items": items}}}


OFFERED = [
    {"name": "echo", "description": "Give back the text.", "inputSchema": ECHO},
    {"name": "hostile", "description": "Do as told.", "inputSchema": {"type": "object"}},
    {"name": "strings", "description": "Takes strings.", "inputSchema": _items(0)},
    {"name": "few", "description": "Takes some objects.", "inputSchema": _items(500)},
    {"name": "many", "description": "Takes more objects.", "inputSchema": _items(3000)},
    {"name": "ask", "description": "Ask the person.", "inputSchema": {"type": "object"}},
]
PROMPT = {"name": "prompt", "arguments": [{"name": "a"}]}
RESOURCE = {"uri": "bad://one", "name": "one"}
LISTS: dict[str, dict[str, Any]] = {
    "tools/list": {"tools": OFFERED},
    "prompts/list": {"prompts": [PROMPT]},
    "resources/list": {"resources": [RESOURCE]},
    "resources/templates/list": {
        "resourceTemplates": [{"uriTemplate": "bad://{a}", "name": "some"}]
    },
}
CAPABILITIES: dict[str, Any] = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "completions": {},
    "logging": {},
}
CHANGED = [
    {"jsonrpc": "2.0", "method": f"notifications/{it}/list_changed"}
    for it in ("tools", "prompts", "resources")
]


def encoded(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def filled(order: dict[str, Any], document: str) -> bytes:
    before, hole, after = document.partition(json.dumps(HOLE))
    value = made(order["value"], order["size"], order["values"]) if hole else b""
    return before.encode() + value + after.encode()


class Answers:
    """What the server answers: as usual, or as ordered."""

    def __init__(self, era: str) -> None:
        self.era = era
        self.orders: dict[str, dict[str, Any]] = {}
        self.pages = 0

    def take(self, order: dict[str, Any]) -> None:
        """Keep an order for the next requests of its method; an empty one ends it."""
        self.orders[order["for"]] = order

    def order_for(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """The order that this request has to be answered by."""
        method, params = message.get("method", ""), message.get("params") or {}
        if method == "tools/call" and params.get("name") == "hostile":
            order = params.get("arguments") or {}
            if order.get("for", "tools/call") == "tools/call":
                return order
            self.take(order)
            return None
        order = self.orders.get(method)
        if order is not None and order.get("once"):
            del self.orders[method]
        return order

    def result(self, message: dict[str, Any]) -> dict[str, Any]:
        """What a well-meaning server answers."""
        method, params = message["method"], message.get("params") or {}
        match method:
            case "tools/call":
                text = (params.get("arguments") or {}).get("text", "done")
                result: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
            case _ if method in LISTS:
                result = {**LISTS[method], "ttlMs": 0, "cacheScope": "private"}
            case "resources/read":
                result = {"contents": [{"uri": params["uri"], "text": "x"}]}
            case "prompts/get":
                said = {"role": "user", "content": {"type": "text", "text": "x"}}
                result = {"messages": [said]}
            case "completion/complete":
                result = {"completion": {"values": ["x"]}}
            case "server/discover":
                result = {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES}
                result |= {"ttlMs": 0, "cacheScope": "private"}
            case "initialize":
                result = {"protocolVersion": params["protocolVersion"]}
                result |= {
                    "capabilities": CAPABILITIES,
                    "serverInfo": {"name": "h", "version": "1"},
                }
            case _:
                result = {}
        if self.era == "modern":
            return {**result, "resultType": "complete", "_meta": SERVER}
        return result

    def response(self, message: dict[str, Any], order: dict[str, Any] | None) -> bytes:
        """The response to a request."""
        if order is None or order.get("answer") is None:
            if order is not None and order.get("endless"):
                return self._page(message)
            if order is not None and order.get("tools"):
                return self._catalogue(message, order["tools"])
            result = encoded(self.result(message))
        else:
            result = filled(order, order["answer"])
        request_id = encoded(message["id"])
        return b'{"jsonrpc":"2.0","id":' + request_id + b',"result":' + result + b"}"

    def _page(self, message: dict[str, Any]) -> bytes:
        """One page of a list without an end."""
        self.pages += 1
        name = message["method"].split("/")[0]
        member = "resourceTemplates" if "templates" in message["method"] else name
        entry = {
            "tools": {"description": "x" * 2000, "inputSchema": ECHO},
            "prompts": {"description": "x" * 2000},
            "resources": {"description": "x" * 2000},
        }[name]
        items = [
            {**entry, "name": f"n{self.pages}x{it}", "uri": f"bad://{self.pages}/{it}",
             "uriTemplate": f"bad://{self.pages}/{it}/{{a}}"}
            for it in range(500)
        ]  # fmt: skip
        result = {member: items, "nextCursor": str(self.pages), "ttlMs": 0, "cacheScope": "private"}
        if self.era == "modern":
            result["resultType"] = "complete"
        return encoded({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def _catalogue(self, message: dict[str, Any], count: int) -> bytes:
        """One page of a very long list of tools."""
        start = int((message.get("params") or {}).get("cursor") or 0)
        words = ("create", "delete", "find", "send", "user", "invoice", "report", "channel", "file")
        tools = [
            {
                "name": f"{words[it % 9]}_{words[it // 9 % 9]}_{it}",
                "description": f"{words[it // 81 % 9]} the {words[it % 7]} of number {it}",
                "inputSchema": ECHO,
            }
            for it in range(start, min(start + 5000, count))
        ]
        result: dict[str, Any] = {"tools": [*OFFERED, *tools] if start == 0 else tools}
        if start + 5000 < count:
            result["nextCursor"] = str(start + 5000)
        if self.era == "modern":
            result |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        return encoded({"jsonrpc": "2.0", "id": message["id"], "result": result})


def nested_gzip(levels: int) -> tuple[bytes, str]:
    """A body that yields nothing, however long it is inflated; and its coding."""
    blocks = b"\x00\x00\x00\xff\xff" * 6_000_000
    plain = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = plain.compress(b"")
    body = (head or gzip.compress(b"")[:10]) + blocks
    for level in range(levels - 1):
        body = gzip.compress(body * (1 if level == 0 else 400), 9)
    return body, ", ".join(["gzip"] * levels)


EVENT_FLOODS = {
    "blank lines": b"\n",
    "empty data": b"data:\n",
    "comments": b":\n",
    "carriage returns": b"\r",
    "ids": b"id: 1\n",
    "events": b"data: 1\n\n",
    "no end of line": b"data: x",
}


class Connection(asyncio.Protocol):
    """One socket of HTTP/1.1."""

    listeners: "set[Connection]" = set()
    answers = Answers("modern")
    first: dict[tuple[str, int], tuple[str, str]] = {}

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.parser = httptools.HttpRequestParser(self)
        self.body = bytearray()
        self.path = ""
        self.drained = asyncio.Event()
        self.drained.set()
        self.busy: asyncio.Task[None] | None = None

    def connection_lost(self, _: Exception | None) -> None:
        self.listeners.discard(self)
        self.drained.set()
        if self.busy is not None:
            self.busy.cancel()

    def pause_writing(self) -> None:
        self.drained.clear()

    def resume_writing(self) -> None:
        self.drained.set()

    def data_received(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.transport.close()

    def on_url(self, url: bytes) -> None:
        self.path = url.decode()

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:  # noqa: PLR0911 - one for each kind of request
        body, self.body = bytes(self.body), bytearray()
        if self.parser.get_method() != b"POST":
            self.write(b"405 Method Not Allowed", b"")
            return
        message = json.loads(body)
        if self.path == "/order":
            self.answers.take(message)
            self.write(b"200 OK", b"{}")
            self.tell_changes(message)
            return
        if "id" not in message:
            self.write(b"202 Accepted", b"")
            return
        if self.path.startswith("/start/"):
            self.start(message)
            return
        if self.path == "/asks":
            self.ask(message)
            return
        if message["method"] == "subscriptions/listen":
            self.listen(message)
            return
        order = self.answers.order_for(message)
        if order is not None and order.get("how"):
            self.busy = asyncio.get_running_loop().create_task(self.misbehave(message, order))
            return
        self.write(b"200 OK", self.answers.response(message, order))

    def tell_changes(self, order: dict[str, Any]) -> None:
        """Tell the gateway that the list of the order has changed."""
        for change in CHANGED if order.get("changed") else ():
            for it in tuple(self.listeners):
                if order["for"].split("/")[0] in change["method"]:
                    it.event(encoded(change | it.subscription))

    def write(self, status: bytes, body: bytes, *headers: bytes) -> None:
        lines = [b"HTTP/1.1 " + status, b"Content-Type: application/json", *headers]
        lines.append(b"Content-Length: %d" % len(body))
        self.transport.write(b"\r\n".join([*lines, b"", b""]) + body)

    def begin_events(self) -> None:
        self.transport.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )

    def chunk(self, data: bytes) -> None:
        self.transport.write(b"%x\r\n%b\r\n" % (len(data), data))

    def event(self, data: bytes) -> None:
        self.chunk(b"data: " + data + b"\n\n")

    def listen(self, message: dict[str, Any]) -> None:
        self.begin_events()
        key = "io.modelcontextprotocol/subscriptionId"
        self.subscription = {"params": {"_meta": {key: str(message["id"])}}}
        wanted = (message.get("params") or {}).get("notifications", {})
        params = {**self.subscription["params"], "notifications": wanted}
        name = "notifications/subscriptions/acknowledged"
        self.event(encoded({"jsonrpc": "2.0", "method": name, "params": params}))
        self.listeners.add(self)

    def start(self, message: dict[str, Any]) -> None:
        """Answer as a server whose very first answer is hostile."""
        _, _, era, number = self.path.split("/")[:4]
        answers = Answers(era)
        method = message["method"]
        if era == "handshake" and method == "server/discover":
            error = {"code": -32601, "message": "no such method"}
            body = encoded({"jsonrpc": "2.0", "id": message["id"], "error": error})
            self.write(b"200 OK", body)
            return
        order = None
        if method in ("server/discover", "initialize") and number != "harmless":
            document, value = start_answers(era)[int(number)]
            order = {"answer": document, "value": value, "size": 4_000_000, "values": 1_000_000}
        if method == "tools/list":
            order = {"answer": json.dumps({**answers.result(message), "tools": OFFERED[:1]})}
        self.write(b"200 OK", answers.response(message, order))

    def ask(self, message: dict[str, Any]) -> None:
        """A server of the handshake era that asks the person in the stream of the call."""
        if message["method"] == "server/discover":
            error = {"code": -32601, "message": "no such method"}
            body = encoded({"jsonrpc": "2.0", "id": message["id"], "error": error})
            self.write(b"404 Not Found", body)
            return
        if message["method"] != "tools/call":
            body = Answers("handshake").response(message, None)
            self.write(b"200 OK", body, b"Mcp-Session-Id: one")
            return
        self.begin_events()
        form = {"type": "object", "properties": {"name": {"type": "string"}}}
        params = {"message": "Who?", "requestedSchema": form}
        question = {"jsonrpc": "2.0", "id": f"q{message['id']}", "params": params}
        self.event(encoded({**question, "method": "elicitation/create"}))

    async def misbehave(  # noqa: C901, PLR0915 - one branch for each kind of misbehaviour
        self, message: dict[str, Any], order: dict[str, Any]
    ) -> None:
        """Answer with something that a proper server does not write."""
        how, size = order["how"], order.get("size", 0)
        if how == "events":
            self.begin_events()
            for document in order.get("before", ()):
                self.event(filled(order, document))
            self.event(self.answers.response(message, {"answer": None}))
            self.transport.write(b"0\r\n\r\n")
        elif how.startswith("gzip"):
            body, coding = nested_gzip(int(how[4:]))
            self.write(b"200 OK", body, b"Content-Encoding: " + coding.encode())
        elif how == "bomb":
            body = gzip.compress(bytes(order["size"]), 9)
            self.write(b"200 OK", body, b"Content-Encoding: gzip")
        elif how in EVENT_FLOODS:
            self.begin_events()
            part = EVENT_FLOODS[how] * (65536 // len(EVENT_FLOODS[how]))
            for _ in range(size // 65536):
                self.chunk(part)
                await self.drained.wait()
            self.event(self.answers.response(message, None))
            self.transport.write(b"0\r\n\r\n")
        elif how == "one byte a chunk":
            body = self.answers.response(message, None)
            self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n")
            self.transport.write(b"Transfer-Encoding: chunked\r\n\r\n")
            for _ in range(size // 6000):
                self.transport.write(b"1\r\n \r\n" * 1000)
                await self.drained.wait()
            self.chunk(body)
            self.transport.write(b"0\r\n\r\n")
        elif how == "many headers":
            head = b"".join(b"X-%d: x\r\n" % it for it in range(size // 12))
            self.transport.write(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n")
        elif how == "failure":
            self.write(b"500 Internal Server Error", b"x" * size)
        elif how == "challenge":
            place = self.transport.get_extra_info("sockname")[1]
            url = f"http://127.0.0.1:{place}/metadata"
            challenge = f'Bearer resource_metadata="{url}", ' + "a=b, " * (size // 5)
            self.write(b"401 Unauthorized", b"", b"WWW-Authenticate: " + challenge.encode())
        elif how == "unknown result":
            result = {"resultType": "task", "task": {"taskId": "x" * size}}
            self.write(
                b"200 OK", encoded({"jsonrpc": "2.0", "id": message["id"], "result": result})
            )


def start_answers(era: str) -> list[tuple[str, str]]:
    """Hostile first answers of an era: the message, and the value in its hole."""
    from bench.neighbours_fields import VALUES

    method = "server/discover" if era == "modern" else "initialize"
    found = answer_fields(Fields())[era, method]
    return [(it.message, name) for it in found for name in it.hostile(VALUES)]


def serve_stdio() -> None:  # noqa: C901, PLR0915 - one loop
    """The same over standard input and output, in the handshake era."""
    answers, out = Answers("handshake"), sys.stdout.buffer
    waiting: list[dict[str, Any]] = []
    lock = threading.Lock()

    def take_orders(path: str) -> None:
        while True:
            with Path(path).open("rb") as orders:
                for line in orders:
                    order = json.loads(line)
                    answers.take(order)
                    for change in CHANGED if order.get("changed") else ():
                        if order["for"].split("/")[0] in change["method"]:
                            write(encoded(change))

    def write(line: bytes) -> None:
        with lock:
            out.write(line + b"\n")
            out.flush()

    if path := os.environ.get("HOSTILE_ORDERS"):
        threading.Thread(target=take_orders, args=(path,), daemon=True).start()
    for line in sys.stdin.buffer:
        message = json.loads(line)
        if "method" not in message:
            for it in waiting:
                write(answers.response(it, None))
            waiting.clear()
        if "method" not in message or "id" not in message:
            continue
        if message["method"] == "server/discover":
            error = {"code": -32601, "message": "no such method"}
            write(encoded({"jsonrpc": "2.0", "id": message["id"], "error": error}))
            continue
        order = answers.order_for(message)
        arguments = (message.get("params") or {}).get("arguments") or {}
        for document in (order or {}).get("before", ()):
            write(filled(order or {}, document))
        if arguments.get("waits"):
            waiting.append(message)
            continue
        if order is not None and order.get("how") == "flood":
            threading.Thread(target=flood, args=(write, out, lock, order), daemon=True).start()
        elif message["method"] == "tools/call" and message["params"].get("name") == "ask":
            form = {"type": "object", "properties": {"name": {"type": "string"}}}
            params = {"message": "Who?", "requestedSchema": form}
            question = {"jsonrpc": "2.0", "id": f"q{message['id']}", "params": params}
            write(encoded({**question, "method": "elicitation/create"}))
            threading.Timer(
                float(arguments.get("seconds", 0.05)),
                lambda it=message: write(answers.response(it, None)),
            ).start()
            continue
        write(answers.response(message, order))


def flood(write: Any, out: Any, lock: threading.Lock, order: dict[str, Any]) -> None:
    """Write as fast as the pipe takes it."""
    ends = time.monotonic() + order["seconds"]
    for part in _flood_parts(order["what"]):
        if time.monotonic() > ends:
            return
        if order["what"] == "stderr":
            os.write(2, part)
            continue
        with lock:
            out.write(part)
            out.flush()


def _flood_parts(what: str) -> Iterator[bytes]:
    message = {"jsonrpc": "2.0", "method": "notifications/message"}
    logs = encoded(message | {"params": {"level": "info", "data": "x"}}) + b"\n"
    progress = encoded({
        "jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": 1, "progress": 1},
    }) + b"\n"  # fmt: skip
    unit = {
        "logs": logs,
        "progress": progress,
        "blank lines": b"\n",
        "not JSON": b"{\n",
        "stderr": b"words\n",
        "changes": b"".join(encoded(it) + b"\n" for it in CHANGED),
        "answers": encoded({"jsonrpc": "2.0", "id": 424242, "result": {}}) + b"\n",
        "pings": encoded({"jsonrpc": "2.0", "id": 7, "method": "ping"}) + b"\n",
    }[what]
    part = unit * max(1, 65536 // len(unit))
    while True:
        yield part


async def serve_http(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["http", port]:
            asyncio.run(serve_http(int(port)))
        case ["stdio"]:
            serve_stdio()
        case other:
            raise SystemExit(f"What is {other}?")
