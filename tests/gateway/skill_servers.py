"""Servers in this process that publish skills, and can be broken, stuck and made to lie."""

import base64
import json
import warnings
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import anyio
import mcp_types as types
from anyio.abc import SocketStream
from mcp import MCPError
from mcp.server import Server
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from pegboard.config import ServerConfig
from pegboard.skills import digest_of
from pegboard.upstream import Era
from tests.upstream.http_servers import answer, serving_raw
from tests.upstream.scripted_server import PLAIN, Say, Scripted, saying

SKILLS = "io.modelcontextprotocol/skills"
Files = dict[str, bytes]


class _UriParams(types.PaginatedRequestParams):
    uri: str


def skill_md(name: str, description: str = "", **more: str) -> bytes:
    fields = {"name": name, "description": description or f"How to use {name}", **more}
    lines = "\n".join(f"{key}: {value}" for key, value in fields.items())
    return f"---\n{lines}\n---\n# {name}\n".encode()


def entry_of(root: str, files: Files, **more: str) -> dict[str, Any]:
    name = root.rpartition("/")[2]
    front = {"name": name, "description": f"How to use {name}", **more}
    resources = [
        {"uri": f"{root}/{path}", "digest": digest_of(content), "size": len(content)}
        for path, content in files.items()
    ]
    return {"uri": f"{root}/SKILL.md", "frontmatter": front, "resources": resources}


class Publisher:
    """A server with skills; its entries and its files can be changed apart from each other."""

    def __init__(
        self,
        *roots: str,
        directory_read: bool = False,
        page: int = 2,
        lists_resources: bool = False,
    ) -> None:
        self.lists_resources = lists_resources
        self.files: Files = {}
        self.entries: dict[str, dict[str, Any]] = {}
        self.unlisted: set[str] = set()
        self.page = page
        self.hints: dict[str, Any] = {"ttlMs": 60_000, "cacheScope": "public"}
        self.is_broken = self.is_stuck = False
        self.go_on = anyio.Event()
        self.asked: list[tuple[str, Any]] = []
        self.said: list[Any] = []
        """The capabilities of the client, with each request for skills."""
        for root in roots:
            self.add(root)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            server: Any = Server("publisher", version="1")
        server.extensions[SKILLS] = {"directoryRead": True} if directory_read else {}
        handlers: dict[str, tuple[type[Any], Any]] = {
            "tools/list": (types.PaginatedRequestParams, self._tools),
            "resources/list": (types.PaginatedRequestParams, self._resources),
            "resources/read": (types.ReadResourceRequestParams, self._read),
            "skills/list": (types.PaginatedRequestParams, self._list),
            "skills/get": (_UriParams, self._get),
        }
        if directory_read:
            handlers["resources/directory/read"] = (_UriParams, self._directory)
        self.handlers: dict[str, Any] = {method: it for method, (_, it) in handlers.items()}
        for method, (kind, handler) in handlers.items():
            server.add_request_handler(method, kind, self._answering(method, handler))
        self.server: Server[Any] = server

    def add(self, root: str, *, files: Mapping[str, bytes] | None = None) -> dict[str, Any]:
        """Publish a skill with a ``SKILL.md`` and a reference, or with these files."""
        name = root.rpartition("/")[2]
        found = {"SKILL.md": skill_md(name), "refs/A.md": b"More.\n", **(files or {})}
        self.files |= {f"{root}/{path}": content for path, content in found.items()}
        entry = self.entries[f"{root}/SKILL.md"] = entry_of(root, found)
        return entry

    def config(self, name: str, **fields: Any) -> ServerConfig:
        return ServerConfig(name=name, transport="memory", server=self.server, **fields)

    def count(self, method: str) -> int:
        return sum(it == method for it, _ in self.asked)

    def _answering(self, method: str, handler: Any) -> Any:
        async def respond(context: Any, params: Any) -> dict[str, Any]:
            self.asked.append((method, getattr(params, "uri", None)))
            result: Mapping[str, Any] = await handler(params)
            modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
            hints = {} if method == "resources/directory/read" else self.hints
            return {**({"resultType": "complete", **hints} if modern else {}), **result}

        return respond

    async def _tools(self, _: Any) -> dict[str, Any]:
        return {"tools": []}

    async def _resources(self, _: Any) -> dict[str, Any]:
        listed = self.entries.values() if self.lists_resources else ()
        return {
            "resources": [
                {"uri": it["uri"], "mimeType": "text/markdown", **_named(it)} for it in listed
            ]
        }

    async def _read(self, params: Any) -> dict[str, Any]:
        uri = str(params.uri)
        if uri not in self.files:
            raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
        content = self.files[uri]
        try:
            item = {"text": content.decode(), "mimeType": "text/markdown"}
        except UnicodeDecodeError:
            item = {"blob": base64.b64encode(content).decode()}
        return {"contents": [{"uri": uri, **item}]}

    async def _list(self, params: Any) -> dict[str, Any]:
        if self.is_broken:
            raise RuntimeError("broken")
        if self.is_stuck:
            await self.go_on.wait()
        listed = [it for uri, it in self.entries.items() if uri not in self.unlisted]
        start = int(params.cursor or 0)
        page: dict[str, Any] = {"skills": listed[start : start + self.page]}
        if start + self.page < len(listed):
            page["nextCursor"] = str(start + self.page)
        return page

    async def _get(self, params: Any) -> dict[str, Any]:
        if params.uri not in self.entries:
            raise MCPError(types.INVALID_PARAMS, f"No skill is served at {params.uri}")
        return {"skill": self.entries[params.uri]}

    async def _directory(self, params: Any) -> dict[str, Any]:
        start = f"{params.uri}/"
        inside = {it.removeprefix(start) for it in self.files if it.startswith(start)}
        if not inside:
            raise MCPError(types.INVALID_PARAMS, "not a directory")
        folders = {it.partition("/")[0] for it in inside if "/" in it}
        found = [
            {"uri": f"{start}{name}", "name": name, "mimeType": "text/markdown"}
            for name in sorted(inside - {it for it in inside if "/" in it})
        ]
        found += [
            {"uri": f"{start}{it}", "name": it, "mimeType": "inode/directory"}
            for it in sorted(folders)
        ]
        return {"resources": found}


def _named(entry: Mapping[str, Any]) -> dict[str, str]:
    return {key: entry["frontmatter"][key] for key in ("name", "description")}


@asynccontextmanager
async def published(
    publisher: Publisher, name: str, era: Era, **fields: Any
) -> AsyncGenerator[ServerConfig]:
    """Serve a publisher in one era.

    The SDK's server leaves extensions out in the handshake era, so there it is raw HTTP.
    """
    if era == "modern":
        yield publisher.config(name, protocol="2026-07-28", **fields)
        return
    server = Scripted(saying(lambda _: answer("500 Never")))
    server.capabilities = {
        "tools": {},
        "resources": {},
        "extensions": dict(publisher.server.extensions),
    }

    def handled(handler: Any) -> Say:
        async def say(stream: SocketStream, request: dict[str, Any]) -> None:
            params = SimpleNamespace(**{"cursor": None, "uri": None, **request.get("params", {})})
            said: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
            try:
                said["result"] = await handler(params)
            except MCPError as error:
                said["error"] = {"code": error.code, "message": error.message}
            await stream.send(answer("200 OK", json.dumps(said).encode(), **PLAIN))

        return say

    server.others = {method: handled(handler) for method, handler in publisher.handlers.items()}
    async with serving_raw(server.handle) as origin:
        config: dict[str, Any] = {"transport": "streamable_http", "url": f"{origin}/mcp", **fields}
        yield ServerConfig(name=name, protocol="legacy", **config)
