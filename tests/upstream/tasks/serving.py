"""Servers that make tasks, over memory, HTTP and stdio, and the hub around one of them."""

import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as types
from anyio.abc import ByteStream
from mcp import MCPError
from mcp.server import Server
from mcp.server.models import InitializationOptions
from pydantic import ConfigDict

from pegboard import Hub, ServerConfig, Timeouts, ToolResult
from pegboard.model.task import ServerTask, TaskStatus
from pegboard.upstream import CallContext, context_of_call
from tests.upstream.board_servers import SERVERS, hub_of
from tests.upstream.hosted import HostedServer, listening
from tests.upstream.http_servers import answer, read_request
from tests.upstream.servers.task_server import TaskServer

PROTOCOLS: dict[str, Any] = {"modern": "2026-07-28", "handshake": "legacy"}
METHODS = ("tools/list", "tools/call", "tasks/get", "tasks/result", "tasks/update", "tasks/cancel")
WORKING = {"status": "working"}
DONE = {"status": "completed", "result": {"content": [{"type": "text", "text": "done"}]}}
"""A completed task of the modern era; the script of a core task has its result elsewhere."""


class HostedTasks(HostedServer):
    """The server over HTTP, message by message."""

    def __init__(self, tasks: TaskServer) -> None:
        super().__init__(lambda *_: anyio.lowlevel.checkpoint())
        self.tasks = tasks
        self.keeps_sessions = False
        self.sessions = 0
        """How many it has given, if it keeps any."""

    async def serve(self, stream: ByteStream) -> None:
        while True:
            head, body = await read_request(stream)
            self.heads.append(head.decode("latin-1"))
            request = json.loads(body) if body else {}
            if request.get("method") == "tasks/result":
                await self._send_events(stream, request)
                return
            response = self.tasks.respond(request) if request else None
            if response is not None and "method" not in request:
                # It ends a stream, and what came to the server was a response.
                self.tasks.send(response)
                await stream.send(answer("202 Accepted"))
            elif response is not None:
                body = json.dumps(response).encode()
                given: dict[str, str] = {}
                if self.keeps_sessions and request["method"] == "initialize":
                    self.sessions += 1
                    given = {"mcp_session_id": f"session-{self.sessions}"}
                await stream.send(answer("200 OK", body, content_type="application/json", **given))
            elif "id" in request and "method" in request:
                await anyio.sleep_forever()
            else:
                await stream.send(answer("202 Accepted" if request else "405 Not Allowed"))

    async def _send_events(self, stream: ByteStream, request: dict[str, Any]) -> None:
        """Respond with a stream of events, which may have questions before the response."""
        send, events = anyio.create_memory_object_stream[dict[str, Any]](10)
        self.tasks.send = send.send_nowait
        kind = "Content-Type: text/event-stream\r\nConnection: close"
        await stream.send(f"HTTP/1.1 200 OK\r\n{kind}\r\n\r\n".encode())
        response = self.tasks.respond(request)
        if response is not None:
            self.tasks.send(response)
        with send, events:
            async for message in events:
                data = json.dumps({"jsonrpc": "2.0", **message})
                await stream.send(f"data: {data}\n\n".encode())
                if "result" in message or "error" in message:
                    return


class AnyParams(types.RequestParams):
    model_config = ConfigDict(extra="allow")


class SdkServer(Server[Any]):
    """The server of the SDK, with the methods of tasks."""

    def __init__(self, tasks: TaskServer) -> None:
        super().__init__("tasks", version="1")
        self._tasks = tasks
        for method in METHODS:
            self.add_request_handler(method, AnyParams, self._handler(method))

    def create_initialization_options(self, *args: Any, **kwargs: Any) -> InitializationOptions:
        options = super().create_initialization_options(*args, **kwargs)
        can = options.capabilities.model_dump(exclude_none=True)
        offered = types.ServerCapabilities.model_validate({**can, **self._tasks.capabilities})
        return options.model_copy(update={"capabilities": offered})

    def _handler(self, method: str) -> Any:
        async def handle(_: Any, params: AnyParams) -> dict[str, Any]:
            said = params.model_dump(by_alias=True, mode="json", exclude_none=True)
            response = self._tasks.respond({"id": 1, "method": method, "params": said})
            if response is None:
                await anyio.sleep_forever()
                raise AssertionError
            if "error" in response:
                raise MCPError(response["error"]["code"], response["error"]["message"])
            return response["result"]

        return handle


def stdio(era: str, file: Path | None = None, **fields: Any) -> ServerConfig:
    """The server as a program; with a file, its tasks survive its end."""
    script = ("-S", "-E", str(SERVERS / "task_server.py"), era)
    return ServerConfig(
        name="it",
        transport="stdio",
        command=sys.executable,
        args=(*script, str(file)) if file is not None else script,
        protocol=PROTOCOLS[era],
        **fields,
    )


@asynccontextmanager
async def serving(
    wire: str, era: str, *, relays_questions: bool = False, **fields: Any
) -> AsyncGenerator[tuple[Hub, TaskServer]]:
    """Run the server, and a hub that is connected to it; over stdio, the server is elsewhere."""
    relays = relays_questions
    tasks = TaskServer(era)
    fields.setdefault("timeouts", Timeouts(connect=10, list=10, call=10))
    with anyio.fail_after(30):
        match wire:
            case "memory":
                config = ServerConfig(
                    name="it",
                    transport="memory",
                    server=SdkServer(tasks),
                    protocol=PROTOCOLS[era],
                    **fields,
                )
                async with hub_of(config, relays_questions=relays) as hub:
                    yield hub, tasks
            case "stdio":
                async with hub_of(stdio(era, **fields), relays_questions=relays) as hub:
                    yield hub, tasks
            case _:
                async with hosted(era, tasks, relays_questions=relays, **fields) as (hub, _):
                    yield hub, tasks


@asynccontextmanager
async def hosted(
    era: str,
    tasks: TaskServer | None = None,
    *,
    relays_questions: bool = False,
    keeps_sessions: bool = False,
    **fields: Any,
) -> AsyncGenerator[tuple[Hub, HostedTasks]]:
    """Run the server over HTTP, and a hub that is connected to it."""
    fields.setdefault("timeouts", Timeouts(connect=10, list=10, call=10))
    async with listening(HostedTasks(tasks or TaskServer(era))) as server:
        assert isinstance(server, HostedTasks)
        server.keeps_sessions = keeps_sessions
        config = ServerConfig(
            name="it",
            transport="streamable_http",
            url=server.url,
            protocol=PROTOCOLS[era],
            **fields,
        )
        with anyio.fail_after(30):
            async with hub_of(config, relays_questions=relays_questions) as hub:
                yield hub, server


async def call(
    hub: Hub,
    *states: dict[str, Any],
    tool: str = "go",
    context: CallContext | None = None,
    **script: Any,
) -> ToolResult:
    """Call a tool whose task goes through these states."""
    token = context_of_call.set(context)
    try:
        arguments = {**script, **({"states": list(states)} if states else {})}
        return await hub.call(f"mcp_it_{tool}", arguments)
    finally:
        context_of_call.reset(token)


class Watcher:
    """Keeps what it is told of a task."""

    resumes_later = False

    def __init__(self) -> None:
        self.tasks: list[ServerTask] = []
        self.changes: list[tuple[TaskStatus, str | None]] = []
        self.has_started = anyio.Event()

    async def started(self, task: ServerTask) -> None:
        self.tasks.append(task)
        self.has_started.set()

    def changed(self, status: TaskStatus, message: str | None) -> None:
        self.changes.append((status, message))
