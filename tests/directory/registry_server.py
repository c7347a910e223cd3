"""An MCP registry on this machine: the API `/v0.1/servers` over real `server.json` files."""

import json
import re
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

__all__ = ["DATA", "Registry", "documents", "serving"]

DATA = Path(__file__).parents[1] / "data" / "registry"
OFFICIAL = "io.modelcontextprotocol.registry/official"
_VERSIONS = re.compile(r"/v0\.1/servers/([^/]+)/versions(?:/([^/]+))?")


def documents(*names: str) -> list[dict[str, Any]]:
    """Return the documents of these files, or of all."""
    paths = [DATA / f"{it}.json" for it in names] or sorted(DATA.glob("*.json"))
    return [json.loads(it.read_bytes()) for it in paths]


class Registry:
    """What the registry has, and what was asked of it; ``answer`` replaces what it says."""

    def __init__(self, servers: Iterable[dict[str, Any]]) -> None:
        self.servers = list(servers)
        self.asked: list[str] = []
        self.page = 100
        self.url = ""
        self.answer: Callable[[str], tuple[int, dict[str, str], bytes] | None] = lambda _: None
        self.status: dict[tuple[str, str], str] = {}

    def respond(self, target: str) -> tuple[int, dict[str, str], bytes]:
        self.asked.append(target)
        other = self.answer(target)
        if other is not None:
            return other
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path == "/v0.1/servers":
            return self._sent(self._listed(query))
        found = _VERSIONS.fullmatch(parts.path)
        if found is None:
            return self._missing()
        versions = [it for it in self.servers if it["name"] == unquote(found[1])]
        if found[2] is None and versions:
            wrapped = [self._wrapped(it) for it in versions]
            return self._sent({"servers": wrapped, "metadata": {"count": len(wrapped)}})
        wanted = versions[-1]["version"] if found[2] == "latest" and versions else found[2]
        one = [it for it in versions if it["version"] == unquote(wanted or "")]
        return self._sent(self._wrapped(one[0])) if one else self._missing()

    def _listed(self, query: dict[str, str]) -> dict[str, Any]:
        latest = {it["name"]: it for it in self.servers}
        word = query.get("search", "").casefold()
        found = [it for it in latest.values() if word in it["name"].casefold()]
        start = int(query.get("cursor", "0"))
        end = start + min(int(query.get("limit", "30")), self.page)
        metadata = {"count": len(found[start:end])}
        if end < len(found):
            metadata["nextCursor"] = str(end)  # type: ignore[assignment]
        return {"servers": [self._wrapped(it) for it in found[start:end]], "metadata": metadata}

    def _wrapped(self, server: dict[str, Any]) -> dict[str, Any]:
        versions = [it["version"] for it in self.servers if it["name"] == server["name"]]
        official = {
            "status": self.status.get((server["name"], server["version"]), "active"),
            "publishedAt": "2026-03-04T05:06:07Z",
            "isLatest": server["version"] == versions[-1],
        }
        return {"server": server, "_meta": {OFFICIAL: official}}

    @staticmethod
    def _sent(value: object) -> tuple[int, dict[str, str], bytes]:
        return 200, {"Content-Type": "application/json"}, json.dumps(value).encode()

    @staticmethod
    def _missing() -> tuple[int, dict[str, str], bytes]:
        problem = {"title": "Not Found", "status": 404, "detail": "Server not found"}
        return 404, {"Content-Type": "application/problem+json"}, json.dumps(problem).encode()


@contextmanager
def serving(registry: Registry) -> Generator[Registry]:
    """Serve a registry on a free port of this machine."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, headers, body = registry.respond(self.path)
            # The client may have stopped waiting.
            with suppress(ConnectionError):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    registry.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
