"""Servers in this process whose resources and prompts can be broken, stuck and changed."""

import warnings
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from pegboard.config import ServerConfig
from pegboard.hub import Hub
from tests.upstream.board_servers import Bench, hub_of, memory

Handler = Callable[[Any, Any], Awaitable[dict[str, Any]]]


class Stall:
    """A server with resources, prompts and a tool that asks."""

    def __init__(self) -> None:
        self.resources = {"note://one": "first", "note://two": "second"}
        self.templates = ["note://{name}"]
        self.prompts = ["greet"]
        self.is_broken = False
        self.is_stuck = False
        self.go_on = anyio.Event()
        self.lists = 0
        self.asks = 1
        self.tools: dict[str, Handler] = {"ask": self._ask}
        self.subscribed: list[str] = []
        self.bus = InMemorySubscriptionBus()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            server: Any = Server(
                "stall", version="1", on_subscriptions_listen=ListenHandler(self.bus)
            )
        for method, (kind, handler) in {
            "tools/list": (types.PaginatedRequestParams, self._list_tools),
            "tools/call": (types.CallToolRequestParams, self._call),
            "resources/list": (types.PaginatedRequestParams, self._list_resources),
            "resources/templates/list": (types.PaginatedRequestParams, self._list_templates),
            "resources/read": (types.ReadResourceRequestParams, self._read),
            "resources/subscribe": (types.SubscribeRequestParams, self._subscribe),
            "resources/unsubscribe": (types.UnsubscribeRequestParams, self._unsubscribe),
            "prompts/list": (types.PaginatedRequestParams, self._list_prompts),
            "prompts/get": (types.GetPromptRequestParams, self._get_prompt),
            "completion/complete": (types.CompleteRequestParams, self._complete),
        }.items():
            server.add_request_handler(method, kind, _completed(handler))
        self.server: Server[Any] = server

    def config(self, name: str, **fields: Any) -> ServerConfig:
        return ServerConfig(name=name, transport="memory", server=self.server, **fields)

    async def change(self) -> None:
        await self.bus.publish(ResourcesListChanged())
        await self.bus.publish(PromptsListChanged())

    async def update(self, uri: str) -> None:
        await self.bus.publish(ResourceUpdated(uri))

    async def _listing(self) -> None:
        self.lists += 1
        if self.is_broken:
            raise RuntimeError("broken")
        if self.is_stuck:
            await self.go_on.wait()

    async def _list_tools(self, _: Any, __: Any) -> dict[str, Any]:
        schema = {"type": "object"}
        return {"tools": [{"name": name, "inputSchema": schema} for name in self.tools]}

    async def _call(self, context: Any, params: Any) -> dict[str, Any]:
        return await self.tools[params.name](context, params)

    async def _ask(self, context: ServerRequestContext[Any, Any], _: Any) -> dict[str, Any]:
        """Ask the person as often as set; over the handshake era only."""
        said: list[str] = []
        for number in range(self.asks):
            schema = {"type": "object", "properties": {"word": {"type": "string"}}}
            response = await context.session.elicit_form(f"Word {number}?", schema)
            said.append(f"{response.action}:{(response.content or {}).get('word')}")
        return {"content": [{"type": "text", "text": " ".join(said)}]}

    async def _list_resources(self, _: Any, __: Any) -> dict[str, Any]:
        await self._listing()
        return {"resources": [{"uri": uri, "name": uri} for uri in self.resources]}

    async def _list_templates(self, _: Any, __: Any) -> dict[str, Any]:
        return {"resourceTemplates": [{"uriTemplate": it, "name": it} for it in self.templates]}

    async def _read(self, _: Any, params: types.ReadResourceRequestParams) -> dict[str, Any]:
        uri = str(params.uri)
        if uri not in self.resources:
            raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})
        return {"contents": [{"uri": uri, "text": self.resources[uri]}]}

    async def _subscribe(self, _: Any, params: types.SubscribeRequestParams) -> dict[str, Any]:
        self.subscribed.append(str(params.uri))
        return {}

    async def _unsubscribe(self, _: Any, params: types.UnsubscribeRequestParams) -> dict[str, Any]:
        self.subscribed.remove(str(params.uri))
        return {}

    async def _list_prompts(self, _: Any, __: Any) -> dict[str, Any]:
        await self._listing()
        return {"prompts": [{"name": name, "title": "Greets"} for name in self.prompts]}

    async def _get_prompt(self, _: Any, params: types.GetPromptRequestParams) -> dict[str, Any]:
        link = {"type": "resource_link", "uri": "note://one", "name": "one"}
        said = {"type": "text", "text": f"{params.name} {(params.arguments or {}).get('who')}"}
        return {"messages": [{"role": "user", "content": said}, {"role": "user", "content": link}]}

    async def _complete(self, _: Any, params: types.CompleteRequestParams) -> dict[str, Any]:
        named = getattr(params.ref, "name", None) or getattr(params.ref, "uri", None)
        return {"completion": {"values": [f"{named}:{params.argument.value}"]}}


def hub(*configs: ServerConfig, **options: Any) -> Hub:
    """A hub as a gateway wants it: servers know that they may ask."""
    return hub_of(*configs, relays_questions=True, **options)


def bench(name: str, **tools: Any) -> ServerConfig:
    """A server with the given tools."""
    return memory(name, Bench(**tools))


def _completed(handler: Handler) -> Handler:
    async def respond(context: Any, params: Any) -> dict[str, Any]:
        result = await handler(context, params)
        modern = context.protocol_version in MODERN_PROTOCOL_VERSIONS
        hints = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        return {**hints, **result} if modern else result

    return respond
