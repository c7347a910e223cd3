"""A gateway with two tools that needs no hub: what the wires are tested with."""

from collections.abc import Mapping
from typing import Any

import anyio
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND

from pegboard.gateway.eras import for_client
from pegboard.gateway.options import GatewayOptions
from pegboard.gateway.request import Channel, Client, ClientRequest, Face, RpcError
from pegboard.gateway.scopes import MissingScopeError, missing_scope, own_tool_in
from pegboard.model import Tool
from pegboard.model.principal import Scope


class FakeGateway:
    """Answers as a gateway does; notes what it heard."""

    info: Mapping[str, Any] = {"name": "fake", "version": "1"}

    def __init__(self) -> None:
        self.is_ready = True
        self.heard: list[ClientRequest] = []
        self.sessions: dict[str, tuple[Client, Channel]] = {}
        self.gone: list[str] = []
        self.waiting = anyio.Event()
        self.cancelled = anyio.Event()
        self.release = anyio.Event()
        self.left = anyio.Event()
        self.schemas: dict[str, dict[str, Any]] = {}

    def instructions_for(self, face: Face) -> str:
        return f"Call echo on the {face.surface} surface."

    def capabilities(self, client_version: str, client: Any = None) -> dict[str, Any]:
        return {"tools": {"listChanged": True}, "logging": {}}

    def own_tool(self, request: ClientRequest) -> str:
        return own_tool_in(request, GatewayOptions())

    def missing_scope(self, request: ClientRequest) -> Scope | None:
        return missing_scope(request, GatewayOptions())

    async def respond(self, request: ClientRequest) -> dict[str, Any]:
        scope = self.missing_scope(request)
        if scope is not None:
            raise MissingScopeError(scope, request.client.principal)
        name = request.params.get("name")
        if request.on_tool is not None and isinstance(name, str) and name in self.schemas:
            request.on_tool(Tool(name=name, input_schema=self.schemas[name]))
        self.heard.append(request)
        result = await self._result(request)
        return for_client(result, request.client, method=request.method, info=self.info)

    async def _result(self, request: ClientRequest) -> dict[str, Any]:
        match request.method:
            case "ping" if request.client.era == "legacy":
                return {}
            case "server/discover":
                return {
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": self.capabilities(""),
                }
            case "tools/list":
                tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("echo",)]
                return {"tools": tools}
            case "tools/call":
                return await self._call(request)
            case "subscriptions/listen":
                await request.channel.notify("notifications/subscriptions/acknowledged", {})
                await self._hang()
            case _:
                pass
        raise RpcError(METHOD_NOT_FOUND, "Method not found", request.method)

    async def _call(self, request: ClientRequest) -> dict[str, Any]:
        arguments = request.params.get("arguments") or {}
        match request.params.get("name"):
            case "echo":
                return _text(arguments.get("text", ""))
            case "count":
                token = request.params["_meta"]["progressToken"]
                for done in range(3):
                    params = {"progressToken": token, "progress": done}
                    await request.channel.notify("notifications/progress", params)
                return _text("counted")
            case "ask":
                response = await request.channel.ask(
                    "elicitation/create",
                    {"message": "Sure?", "requestedSchema": {"type": "object", "properties": {}}},
                )
                return _text(response["action"])
            case "flood":
                try:
                    while True:
                        await request.channel.notify("notifications/x", {"text": "x" * 100_000})
                finally:
                    self.cancelled.set()
            case "hang":
                await self._hang()
                return _text("released")
            case "break":
                raise RuntimeError("a mistake of ours")
            case "late":
                await self.release.wait()
                return _text("late")
            case _:
                raise RpcError(INVALID_PARAMS, "Unknown tool")

    async def _hang(self) -> None:
        self.waiting.set()
        try:
            await self.release.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled.set()
            raise

    async def admit(self, client: Client) -> None:
        if client.face.group == "nowhere":
            raise RpcError(INVALID_PARAMS, "Nothing is called 'nowhere' here.")

    def parked(self, request: ClientRequest) -> int:
        return 0

    async def notified(self, request: ClientRequest) -> None:
        self.heard.append(request)

    def connected(self, client: Client, channel: Channel) -> None:
        self.sessions[client.session] = client, channel

    def disconnected(self, session: str) -> None:
        self.gone.append(session)
        self.left.set()

    async def drain(self, seconds: float) -> None:
        self.is_ready = False


def _text(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}
