"""Workshop: the upstream of the journeys; what the conformance suite wants, and a little more."""

import json
from collections.abc import Mapping
from typing import Any

import anyio
import mcp_types as types
from mcp.server.subscriptions import ResourcesListChanged, ResourceUpdated

from tests.conformance import fixture_content as content
from tests.conformance.fixture_server import Fixture
from tests.conformance.fixture_tools import Context, Result, said

WATCHED = "test://watched-resource"
FUTURE = {"futureField": {"deep": [1, None, "ü"]}}
"""What no version of the protocol knows yet."""


class Workshop(Fixture):
    """A server whose every move can be waited for."""

    def __init__(self, *, page: int = 1000) -> None:
        super().__init__()
        self._page = page
        self.calls: list[str] = []
        self.waiting = anyio.Event()
        self.cancelled = anyio.Event()
        self.subscribed = anyio.Event()
        self.unsubscribed = anyio.Event()
        self._watcher: Context | None = None
        self.has_extra_resource = False
        self.tools |= {
            "test_add": self.add,
            "test_wait": self.wait,
            "test_meta": self.meta,
            "test_future": self.future,
        }
        numbers = {"a": {"type": "number"}, "b": {"type": "number"}}
        self.schemas["test_add"] = {
            "type": "object",
            "properties": numbers,
            "required": ["a", "b"],
        }
        server: Any = self.server
        server.middleware.append(self._from_the_future)

    def describe(self, name: str) -> dict[str, Any]:
        tool = super().describe(name)
        if name != "test_add":
            return tool
        total = {"type": "object", "properties": {"sum": {"type": "number"}}}
        return {
            **tool,
            "title": "Add",
            "outputSchema": {**total, "required": ["sum"]},
            "annotations": {"readOnlyHint": True},
            "icons": [{"src": "https://example.org/add.png"}],
            "_meta": {"example.org/kind": "sum"},
        }

    async def call_tool(self, ctx: Context, params: types.CallToolRequestParams) -> Result:
        self.calls.append(params.name)
        return await super().call_tool(ctx, params)

    async def add(self, ctx: Context, arguments: Mapping[str, Any]) -> Result:
        total = arguments["a"] + arguments["b"]
        return {**said(str(total)), "structuredContent": {"sum": total}}

    async def wait(self, ctx: Context, arguments: Mapping[str, Any]) -> Result:
        self.waiting.set()
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            self.cancelled.set()
            raise
        return said("never")

    async def meta(self, ctx: Context, arguments: Mapping[str, Any]) -> Result:
        sent = (ctx.params or {}).get("_meta") or {}
        return {**said(json.dumps(sent)), "_meta": {"example.org/answer": "yes"}}

    async def future(self, ctx: Context, arguments: Mapping[str, Any]) -> Result:
        return said("from the future")

    async def _from_the_future(self, ctx: Context, call_next: Any) -> Any:
        """Add what the SDK would take away: it is the last to touch a result."""
        result = await call_next(ctx)
        name = (ctx.params or {}).get("name")
        match ctx.method:
            case "tools/call" if name == "test_future":
                return {**result, **FUTURE, "content": [{**result["content"][0], **FUTURE}]}
            case "tools/list":
                tools = [
                    {**tool, **FUTURE} if tool["name"] == "test_future" else tool
                    for tool in result["tools"]
                ]
                return {**result, "tools": tools}
            case "prompts/get" | "resources/read":
                return {**result, **FUTURE}
            case _:
                return result

    async def list_tools(self, ctx: Context, params: types.PaginatedRequestParams) -> Result:
        return self._paged(await super().list_tools(ctx, params), "tools", params)

    async def list_prompts(self, ctx: Context, params: types.PaginatedRequestParams) -> Result:
        return self._paged(await super().list_prompts(ctx, params), "prompts", params)

    async def list_resources(self, ctx: Context, params: types.PaginatedRequestParams) -> Result:
        whole = await super().list_resources(ctx, params)
        if self.has_extra_resource:
            whole["resources"].append({"uri": "test://extra", "name": "extra"})
        return self._paged(whole, "resources", params)

    def _paged(self, whole: Result, key: str, params: types.PaginatedRequestParams) -> Result:
        start = int(params.cursor or 0)
        page = {**whole, key: whole[key][start : start + self._page]}
        more = start + self._page < len(whole[key])
        return {**page, "nextCursor": str(start + self._page)} if more else page

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> Result:
        self._watcher = ctx
        self.subscribed.set()
        return {}

    async def unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> Result:
        self.unsubscribed.set()
        return {}

    async def touch(self) -> None:
        """Notify the clients that watch the watched resource, in either era."""
        await self.bus.publish(ResourceUpdated(uri=WATCHED))
        if self._watcher is not None:
            await self._watcher.session.send_resource_updated(WATCHED)

    async def change_resources(self, ctx: Context, arguments: object) -> Result:
        self.has_extra_resource = True
        await self.bus.publish(ResourcesListChanged())
        await ctx.session.send_resource_list_changed()
        return said("The list of resources is another one now.")


PLAIN_TEXT = content.PLAIN_TOOLS["test_simple_text"][0]["text"]
