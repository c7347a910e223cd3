"""Faces of a gateway that one test body is run on: a stream in this process, and HTTP."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Literal

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import Client
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from pegboard.gateway import Face, Gateway
from pegboard.server.http.app import App
from pegboard.server.request_pipeline import RequestPipeline
from pegboard.server.stdio import StdioWire, Take, serve_stdio
from pegboard.upstream import Era
from tests.server.serving import served

FaceName = Literal["stream", "http"]
MODES = {"legacy": "legacy", "modern": "auto"}


@asynccontextmanager
async def client_of(
    gateway: Gateway, face: FaceName, era: Era, **callbacks: Any
) -> AsyncGenerator[Client]:
    """Connect the SDK's client of an era to the full surface of a gateway."""
    async with _connected(gateway, face, mode=MODES[era], **callbacks) as client:
        is_modern = client.protocol_version == "2026-07-28"
        assert is_modern == (era == "modern")
        yield client


@asynccontextmanager
async def _connected(gateway: Gateway, face: FaceName, **options: Any) -> AsyncGenerator[Client]:
    desk = RequestPipeline(gateway)
    if face == "stream":
        async with Client(_stream_to(desk), **options) as client:
            yield client
    else:
        async with (
            served(App(desk)) as origin,
            Client(f"{origin}/mcp-full", **options) as client,
        ):
            yield client


class _MemoryWire(StdioWire):
    """Lines as over stdio, without the process."""

    def __init__(
        self,
        lines: MemoryObjectReceiveStream[bytes],
        answers: MemoryObjectSendStream[SessionMessage],
    ) -> None:
        self._lines = lines
        self._answers = answers

    async def read(self, take: Take) -> None:
        async for line in self._lines:
            if (work := take(line)) is not None:
                await work()

    async def write(self, line: bytes) -> None:
        message = jsonrpc_message_adapter.validate_python(json.loads(line), by_name=False)
        await self._answers.send(SessionMessage(message))


@asynccontextmanager
async def _stream_to(desk: RequestPipeline) -> AsyncGenerator[Any]:
    to_gateway, lines = anyio.create_memory_object_stream[bytes](16)
    answers, to_client = anyio.create_memory_object_stream[Any](16)
    outgoing, messages = anyio.create_memory_object_stream[SessionMessage](16)

    async def send_lines() -> None:
        async with messages, to_gateway:
            async for it in messages:
                body = it.message.model_dump_json(by_alias=True, exclude_unset=True)
                await to_gateway.send(body.encode())

    async with anyio.create_task_group() as tasks, answers, to_client, outgoing, lines:
        tasks.start_soon(send_lines)
        wire = _MemoryWire(lines, answers)
        tasks.start_soon(lambda: serve_stdio(desk, wire, face=Face(surface="full")))
        yield to_client, outgoing
        tasks.cancel_scope.cancel()
