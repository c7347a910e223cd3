"""A server of both eras that asks, logs, is cancelled and tells of changes.

Run it as a script for stdio; what it notes of cancelled calls goes to the file in ``NOTES``.
"""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any, cast

import anyio
import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.subscriptions import (
    InMemorySubscriptionBus,
    ListenHandler,
    ResourcesListChanged,
    ResourceUpdated,
)
from mcp.shared.message import ServerMessageMetadata

MODERN = "2026-07-28"
OPEN: dict[str, Any] = {"type": "object"}
TOOLS = ("ask", "model", "where", "log", "told", "wait", "steps", "pid")
CITY = types.ElicitRequestFormParams(
    message="Which city?",
    requested_schema={"type": "object", "properties": {"city": {"type": "string"}}},
)
PROMPT = types.CreateMessageRequestParams(
    messages=[types.SamplingMessage(role="user", content=types.TextContent(text="Well?"))],
    max_tokens=10,
)


class Talkative:
    """The server and what it noticed."""

    def __init__(self) -> None:
        self.waiting = 0
        self.came = anyio.Event()
        self.go_on = anyio.Event()
        self.cancelled = anyio.Event()
        self.level: str | None = None
        self.subscribed: Counter[str] = Counter()
        self.contexts: list[ServerRequestContext[Any]] = []
        self.bus = InMemorySubscriptionBus()
        self.server: Server[Any] = Server(
            "talkative",
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_read_resource=self._read,
            on_list_resources=self._resources,
            on_subscribe_resource=self._subscribe,
            on_unsubscribe_resource=self._unsubscribe,
            on_subscriptions_listen=ListenHandler(self.bus),
            get_tool_input_schema=lambda _: OPEN,
        )
        # Not an option of the server, which warns of it as deprecated.
        self.server.add_request_handler(
            "logging/setLevel", types.SetLevelRequestParams, self._set_level
        )

    async def until_waiting(self, number: int) -> None:
        with anyio.fail_after(5):
            while self.waiting < number:
                await self.came.wait()

    async def update(self, uri: str) -> None:
        """Notify all subscribed clients that a resource changed."""
        await self.bus.publish(ResourceUpdated(uri))
        for context in self.contexts:
            await context.session.send_resource_updated(uri)

    async def change_resources(self) -> None:
        await self.bus.publish(ResourcesListChanged())
        for context in self.contexts:
            await context.session.send_resource_list_changed()

    async def _list(self, *_: object) -> types.ListToolsResult:
        return types.ListToolsResult(
            tools=[types.Tool(name=name, input_schema=OPEN) for name in TOOLS]
        )

    async def _resources(self, *_: object) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[types.Resource(name="a", uri="note://a")])

    async def _read(
        self, context: ServerRequestContext[Any], params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult | types.InputRequiredResult:
        answer = await self._asked(context, params, types.ElicitRequest(params=CITY))
        if isinstance(answer, types.InputRequiredResult):
            return answer
        contents = types.TextResourceContents(uri=params.uri, text=answer)
        return types.ReadResourceResult(contents=[contents])

    async def _subscribe(
        self, context: ServerRequestContext[Any], params: types.SubscribeRequestParams
    ) -> types.EmptyResult:
        if str(params.uri) == "note://none":
            raise ValueError("There is no such note.")
        self.subscribed[str(params.uri)] += 1
        self.contexts.append(context)
        if str(params.uri) == "note://slow":
            await self.go_on.wait()
        return types.EmptyResult()

    async def _unsubscribe(
        self, context: ServerRequestContext[Any], params: types.UnsubscribeRequestParams
    ) -> types.EmptyResult:
        self.subscribed[str(params.uri)] -= 1
        return types.EmptyResult()

    async def _set_level(
        self, context: ServerRequestContext[Any], params: types.SetLevelRequestParams
    ) -> types.EmptyResult:
        self.level = params.level
        return types.EmptyResult()

    async def _call(
        self, context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        arguments = params.arguments or {}
        match params.name:
            case "ask":
                words = await self._asked(context, params, types.ElicitRequest(params=CITY))
            case "model":
                words = await self._asked(
                    context, params, types.CreateMessageRequest(params=PROMPT)
                )
            case "where":
                words = await self._asked(context, params, types.ListRootsRequest())
            case "told":
                words = json.dumps(dict(context.meta or {}))
            case "pid":
                words = str(os.getpid())
            case _:
                words = await self._noise(context, params.name, arguments)
        if isinstance(words, types.InputRequiredResult):
            return words
        return types.CallToolResult(content=[types.TextContent(text=words)])

    async def _noise(
        self, context: ServerRequestContext[Any], name: str, arguments: dict[str, Any]
    ) -> str:
        match name:
            case "log":
                for number, level in enumerate(arguments["levels"]):
                    await context.session.send_notification(
                        types.LoggingMessageNotification(
                            params=types.LoggingMessageNotificationParams(level=level, data=number)
                        ),
                        related_request_id=context.request_id,
                    )
            case "steps":
                for number in range(arguments["n"]):
                    await context.session.report_progress(number + 1, arguments["n"])
            case _:
                await self._wait()
        return name

    async def _wait(self) -> None:
        self.waiting += 1
        came, self.came = self.came, anyio.Event()
        came.set()
        try:
            await self.go_on.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled.set()
            if "NOTES" in os.environ:
                _note("cancelled")
            raise
        finally:
            self.waiting -= 1

    async def _asked(
        self, context: ServerRequestContext[Any], params: Any, question: Any
    ) -> str | types.InputRequiredResult:
        if context.protocol_version == MODERN:
            if not params.input_responses:
                return types.InputRequiredResult(
                    input_requests={"it": question}, request_state="half-way"
                )
            assert params.request_state == "half-way"
            return _shown(params.input_responses["it"])
        kinds = {
            "elicitation/create": types.ElicitResult,
            "sampling/createMessage": types.CreateMessageResult,
            "roots/list": types.ListRootsResult,
        }
        answer = await context.session.send_request(
            question,
            cast("Any", kinds[question.method]),
            metadata=ServerMessageMetadata(related_request_id=context.request_id),
        )
        return _shown(answer)


def _shown(answer: Any) -> str:
    return json.dumps(answer.model_dump(mode="json", by_alias=True, exclude_none=True))


def _note(words: str) -> None:
    Path(os.environ["NOTES"]).write_text(words, "utf-8")


async def main() -> None:
    server = Talkative().server
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
