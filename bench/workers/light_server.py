"""An MCP server of the modern era that takes next to no time: `PORT [CERTIFICATE]`.

It speaks HTTP, or HTTPS with the certificate and the key in a file, without the SDK.
"""

import asyncio
import json
import ssl
import sys
from typing import Any

import httptools

SERVER = {"io.modelcontextprotocol/serverInfo": {"name": "light", "version": "1"}}
SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
}
ECHO = {"name": "echo", "description": "Give back the text.", "inputSchema": SCHEMA}


class Connection(asyncio.Protocol):
    """One socket that stays open, for one request after the other."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.parser = httptools.HttpRequestParser(self)
        self.body = b""

    def data_received(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.transport.close()

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        body, self.body = self.body, b""
        if self.parser.get_method() != b"POST":
            self.write(b"405 Method Not Allowed", b"")
            return
        message = json.loads(body)
        if "id" not in message:
            self.write(b"202 Accepted", b"")
            return
        answer = {"jsonrpc": "2.0", "id": message["id"], **respond(message)}
        self.write(b"200 OK", json.dumps(answer, separators=(",", ":")).encode())

    def write(self, status: bytes, body: bytes) -> None:
        self.transport.write(
            b"HTTP/1.1 %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
            % (status, len(body), body)
        )


def respond(message: dict[str, Any]) -> dict[str, Any]:
    match message["method"]:
        case "tools/call":
            text = message["params"]["arguments"]["text"]
            result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": False}
        case "tools/list":
            result = {"tools": [ECHO], "ttlMs": 0, "cacheScope": "private"}
        case "server/discover":
            result = {
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {"listChanged": False}},
                "ttlMs": 0,
                "cacheScope": "private",
            }
        case other:
            return {"error": {"code": -32601, "message": f"no method {other}"}}
    return {"result": {**result, "resultType": "complete", "_meta": SERVER}}


async def serve(port: int, certificate: str | None) -> None:
    context = None
    if certificate is not None:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate)
    server = await asyncio.get_running_loop().create_server(
        Connection, "127.0.0.1", port, ssl=context
    )
    await server.serve_forever()


if __name__ == "__main__":
    port, *rest = sys.argv[1:]
    asyncio.run(serve(int(port), rest[0] if rest else None))
