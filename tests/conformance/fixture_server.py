"""The upstream that the conformance suite is run against: `stdio`, or `http PORT`; both eras."""

import json
import socket
import sys
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import anyio
import mcp_types as types
import uvicorn
from mcp import MCPError
from mcp.server import NotificationOptions, Server
from mcp.server.caching import CacheHint
from mcp.server.models import InitializationOptions
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    PromptsListChanged,
    ToolsListChanged,
)

from tests.conformance import fixture_content as content
from tests.conformance.fixture_tools import (
    TOOLS,
    Context,
    InputNeeded,
    Result,
    Tool,
    answers,
    is_modern,
    said,
)

Handler: TypeAlias = Callable[[Context, Any], Awaitable[Result]]
OPEN_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
SCHEMAS: dict[str, dict[str, Any]] = {
    "json_schema_2020_12_tool": content.SCHEMA_2020_12,
    "test_sampling": {**OPEN_SCHEMA, "properties": {"prompt": content.STRING}},
    "test_x_mcp_header": {
        **OPEN_SCHEMA,
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
    },
    "test_elicitation": {**OPEN_SCHEMA, "properties": {"message": content.STRING}},
}
CHANGED_LISTS = NotificationOptions(
    prompts_changed=True, resources_changed=True, tools_changed=True
)


class _ListsChange(Server[Any]):
    """A server that says in the handshake era, too, that its lists change."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *more: Any, **others: Any
    ) -> InitializationOptions:
        options = notification_options or CHANGED_LISTS
        return super().create_initialization_options(options, *more, **others)


class Fixture:
    """One server with everything the suite asks for, and lists that change when a tool says so."""

    def __init__(self) -> None:
        self.bus = InMemorySubscriptionBus()
        self.has_extra_tool = False
        self.has_extra_prompt = False
        self.schemas = dict(SCHEMAS)
        self.tools: dict[str, Tool] = {
            **TOOLS,
            "json_schema_2020_12_tool": _arguments_back,
            "test_x_mcp_header": _arguments_back,
            "test_trigger_tool_change": self.change_tools,
            "test_trigger_prompt_change": self.change_prompts,
        }
        hint = CacheHint(ttl_ms=0, scope="private")
        with warnings.catch_warnings():
            # Logging is on its way out, and asked for all the same.
            warnings.simplefilter("ignore")
            server: Any = _ListsChange(
                "conformance fixture",
                version="1.0",
                cache_hints=dict.fromkeys(
                    (
                        "tools/list",
                        "prompts/list",
                        "resources/list",
                        "resources/templates/list",
                        "resources/read",
                    ),
                    hint,
                ),
                get_tool_input_schema=self.schema_of,
                on_subscriptions_listen=ListenHandler(self.bus),
            )
        handlers: dict[str, tuple[type[Any], Any]] = {
            "tools/list": (types.PaginatedRequestParams, self.list_tools),
            "tools/call": (types.CallToolRequestParams, self.call_tool),
            "resources/list": (types.PaginatedRequestParams, self.list_resources),
            "resources/templates/list": (types.PaginatedRequestParams, self.list_templates),
            "resources/read": (types.ReadResourceRequestParams, self.read_resource),
            "resources/subscribe": (types.SubscribeRequestParams, self.subscribe),
            "resources/unsubscribe": (types.UnsubscribeRequestParams, self.unsubscribe),
            "prompts/list": (types.PaginatedRequestParams, self.list_prompts),
            "prompts/get": (types.GetPromptRequestParams, self.get_prompt),
            "completion/complete": (types.CompleteRequestParams, self.complete),
            "logging/setLevel": (types.SetLevelRequestParams, self.nothing),
        }
        for method, (params_type, handler) in handlers.items():
            server.add_request_handler(method, params_type, _completed(handler))
        self.server: Server[Any] = server

    async def nothing(self, ctx: Context, params: Any) -> Result:
        return {}

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> Result:
        return {}

    async def unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> Result:
        return {}

    def schema_of(self, name: str) -> dict[str, Any]:
        return self.schemas.get(name, OPEN_SCHEMA)

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams) -> Result:
        names = [*content.PLAIN_TOOLS, *self.tools]
        if self.has_extra_tool:
            names.append("test_extra_tool")
        return {"tools": [self.describe(name) for name in names]}

    def describe(self, name: str) -> dict[str, Any]:
        words = f"{name} of the suite"
        return {"name": name, "description": words, "inputSchema": self.schema_of(name)}

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Result:
        name = params.name
        if name in content.PLAIN_TOOLS:
            return {"content": content.PLAIN_TOOLS[name]}
        found = _arguments_back if name == "test_extra_tool" else self.tools.get(name)
        if found is None:
            raise MCPError(types.INVALID_PARAMS, f"There is no tool {name!r}.")
        try:
            return await found(ctx, params.arguments or {})
        except InputNeeded as needed:
            return needed.result

    async def change_tools(self, ctx: Context, arguments: object) -> Result:
        self.has_extra_tool = not self.has_extra_tool
        await self.bus.publish(ToolsListChanged())
        await ctx.session.send_tool_list_changed()
        return said("The list of tools is another one now.")

    async def change_prompts(self, ctx: Context, arguments: object) -> Result:
        self.has_extra_prompt = not self.has_extra_prompt
        await self.bus.publish(PromptsListChanged())
        await ctx.session.send_prompt_list_changed()
        return said("The list of prompts is another one now.")

    async def list_resources(self, ctx: Context, params: types.PaginatedRequestParams) -> Result:
        found = [
            {
                "uri": uri,
                "name": uri,
                "description": f"{uri} of the suite",
                "mimeType": it["mimeType"],
            }
            for uri, it in content.RESOURCES.items()
        ]
        return {"resources": found}

    async def list_templates(self, ctx: Context, params: object) -> Result:
        template = {"uriTemplate": content.TEMPLATE, "name": "data", "description": "By its id"}
        return {"resourceTemplates": [{**template, "mimeType": "application/json"}]}

    async def read_resource(self, ctx: Context, params: types.ReadResourceRequestParams) -> Result:
        uri = str(params.uri)
        if uri in content.RESOURCES:
            return {"contents": [{"uri": uri, **content.RESOURCES[uri]}]}
        before, _, after = content.TEMPLATE.partition("{id}")
        if uri.startswith(before) and uri.endswith(after):
            number = uri[len(before) : -len(after)]
            data = {"id": number, "templateTest": True, "data": f"Data for ID: {number}"}
            found = {"uri": uri, "mimeType": "application/json", "text": json.dumps(data)}
            return {"contents": [found]}
        raise MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})

    async def list_prompts(self, ctx: Context, params: types.PaginatedRequestParams) -> Result:
        prompts = dict(content.PROMPTS)
        if self.has_extra_prompt:
            prompts["test_extra_prompt"] = []
        found = [
            {
                "name": name,
                "description": f"{name} of the suite",
                "arguments": [
                    {"name": it, "description": f"The {it}", "required": True} for it in arguments
                ],
            }
            for name, arguments in prompts.items()
        ]
        return {"prompts": found}

    async def get_prompt(self, ctx: Context, params: types.GetPromptRequestParams) -> Result:
        given = params.arguments or {}
        match params.name:
            case "test_simple_prompt" | "test_extra_prompt":
                parts = [content.text("This is a simple prompt for testing.")]
            case "test_prompt_with_arguments":
                words = f"arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'"
                parts = [content.text(f"Prompt with arguments: {words}")]
            case "test_prompt_with_embedded_resource":
                uri, words = str(given.get("resourceUri")), "Embedded resource content for testing."
                ending = content.text("Please process the embedded resource above.")
                parts = [content.embedded(uri, "text/plain", words), ending]
            case "test_prompt_with_image":
                parts = [content.IMAGE, content.text("Please analyze the image above.")]
            case "test_input_required_result_prompt":
                question = content.form(
                    "What context should the prompt use?", context=content.STRING
                )
                try:
                    found = await answers(ctx, {"user_context": question})
                except InputNeeded as needed:
                    return needed.result
                parts = [content.text(f"Context: {found['user_context'].get('content')}")]
            case other:
                raise MCPError(types.INVALID_PARAMS, f"There is no prompt {other!r}.")
        return {"messages": [{"role": "user", "content": part} for part in parts]}

    async def complete(self, ctx: Context, params: types.CompleteRequestParams) -> Result:
        known = ["paris", "park", "party", "pasta"]
        values = [it for it in known if it.startswith(params.argument.value)]
        return {"completion": {"values": values, "total": len(values), "hasMore": False}}


async def _arguments_back(ctx: Context, arguments: Mapping[str, Any]) -> Result:
    return said(json.dumps(dict(arguments)))


def _completed(handler: Handler) -> Handler:
    """In the modern era every result says of which kind it is."""

    async def answer(ctx: Context, params: Any) -> Result:
        result = await handler(ctx, params)
        return {"resultType": "complete", **result} if is_modern(ctx) else result

    return answer


async def serve_stdio() -> None:
    server = Fixture().server
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def serve_http(certificate: str | None = None) -> None:
    app: Any = Fixture().server.streamable_http_app()
    lifespan = app.router.lifespan_context

    @asynccontextmanager
    async def telling(it: Any) -> AsyncGenerator[Any]:
        async with lifespan(it) as state:
            print("serving at port", port, file=sys.stderr, flush=True)  # noqa: T201 - the test listens
            yield state

    app.router.lifespan_context = telling
    # The socket listens before the test is told.
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    config = uvicorn.Config(app, log_level="critical", ssl_certfile=certificate)
    uvicorn.Server(config).run([listener])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["stdio"]:
            anyio.run(serve_stdio)
        case ["http"]:
            serve_http()
        case ["https", certificate]:
            serve_http(certificate)
        case other:
            raise SystemExit(f"What is {other}?")
