"""Tools that end when a test says so, and clients that ask for tasks."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
from mcp import MCPError

from pegboard.gateway import Gateway, GatewayOptions
from pegboard.storage import Store
from tests.gateway.clients import FULL, Caller
from tests.gateway.servers import hub
from tests.upstream.board_servers import Bench, memory

SLOW, QUICK, BROKEN, SICK, LONG = (
    f"mcp_desk_{it}" for it in ("slow", "quick", "broken", "sick", "long")
)
AT_ONCE: dict[str, Any] = {"task_after_for": {SLOW: 0, BROKEN: 0, SICK: 0, LONG: 0}}
"""Every tool but one becomes a task before its call ends."""


class SlowDesk:
    """A server whose tools wait until the test lets them go on."""

    def __init__(self) -> None:
        self.go_on = anyio.Event()
        self.begun = 0
        self.bench = Bench(
            slow=self._slow,
            quick=lambda _: "at once",
            broken=self._broken,
            sick=self._sick,
            long=self._long,
        )

    @property
    def cancelled(self) -> anyio.Event:
        return self.bench.cancelled

    async def _slow(self, arguments: Mapping[str, Any]) -> str:
        self.begun += 1
        await self.go_on.wait()
        return f"done {arguments.get('what', '')}".strip()

    async def _broken(self, _: Mapping[str, Any]) -> str:
        await self.go_on.wait()
        raise MCPError(-32050, "The drill is broken", {"part": "bit"})

    async def _sick(self, _: Mapping[str, Any]) -> types.CallToolResult:
        await self.go_on.wait()
        return types.CallToolResult(content=[types.TextContent(text="no paint")], is_error=True)

    async def _long(self, _: Mapping[str, Any]) -> str:
        await self.go_on.wait()
        return "x" * 10_000


@asynccontextmanager
async def gateway_with(
    desk: SlowDesk, *, store: Store | None = None, **options: Any
) -> AsyncGenerator[Gateway]:
    """Serve the tools of a desk; what runs at the end is cut off."""
    settings = GatewayOptions(**{**AT_ONCE, **options})
    async with (
        hub(memory("desk", desk.bench)) as it,
        Gateway(it, settings, store=store) as gateway,
    ):
        try:
            yield gateway
        finally:
            await gateway.drain(0)


def modern(gateway: Gateway, **more: Any) -> Caller:
    """Return a client that declares the extension."""
    return Caller(gateway, face=FULL, tasks=True, **more)


def handshake(gateway: Gateway, **more: Any) -> Caller:
    """Return a client of 2025-11-25."""
    return Caller(gateway, "legacy", face=FULL, **more)


async def ended(caller: Caller, task: str) -> dict[str, Any]:
    """Return a task once it has ended."""
    return await became(caller, task, "completed", "failed", "cancelled")


async def became(caller: Caller, task: str, *statuses: str) -> dict[str, Any]:
    """Return a task once it has one of these statuses."""
    with anyio.fail_after(20):
        while True:
            found = await caller.send("tasks/get", taskId=task)
            if found["status"] in statuses:
                return found
            await anyio.lowlevel.checkpoint()
