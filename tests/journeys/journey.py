"""A journey: a client of one era, the gateway, and an upstream of one era, in one process."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
import msgspec
from mcp import Client

from pegboard import Hub, ServerConfig
from pegboard.gateway import Gateway, GatewayOptions
from pegboard.upstream import Era, NoCatalogCache
from tests.journeys.faces import FaceName, client_of
from tests.journeys.workshop import Workshop


class Journey(msgspec.Struct, kw_only=True):
    """Both ends of the way, and what is between them."""

    client: Client
    workshop: Workshop
    gateway: Gateway
    hub: Hub
    heard: "Heard"
    era: Era
    """Of the client."""

    async def set_logging_level(self, level: types.LoggingLevel) -> None:
        await self.client.set_logging_level(level)  # pyright: ignore[reportDeprecated]

    async def subscribe(self, uri: str) -> None:
        await self.client.subscribe_resource(uri)  # pyright: ignore[reportDeprecated]

    async def unsubscribe(self, uri: str) -> None:
        await self.client.unsubscribe_resource(uri)  # pyright: ignore[reportDeprecated]

    @asynccontextmanager
    async def changes(self, kind: type[Any], **wanted: Any) -> AsyncGenerator["Heard"]:
        """Hear of changes as a client of its era does: pushed to it, or in a stream it opens."""
        if self.era == "legacy":
            yield self.heard
            return
        heard = Heard()
        async with AsyncExitStack() as stack:
            subscription = await stack.enter_async_context(self.client.listen(**wanted))
            tasks = await stack.enter_async_context(anyio.create_task_group())

            async def follow() -> None:
                async for event in subscription:
                    await heard(event)

            tasks.start_soon(follow)
            yield heard
            tasks.cancel_scope.cancel()


class Heard:
    """Keeps what a client is told, and lets a test wait for it."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self._arrived = anyio.Event()

    async def __call__(self, message: Any) -> None:
        self.all.append(message)
        self._arrived.set()

    async def first(self, *kinds: type[Any]) -> Any:
        """Wait for something of one of these kinds."""
        with anyio.fail_after(5):
            while True:
                for it in self.all:
                    if isinstance(it, kinds):
                        return it
                self._arrived = anyio.Event()
                await self._arrived.wait()


class Cell(msgspec.Struct, frozen=True):
    """Where in the matrix a test runs."""

    face: FaceName
    client: Era
    upstream: Era

    def __str__(self) -> str:
        return f"{self.client}-client-{self.face}-{self.upstream}-upstream"

    @asynccontextmanager
    async def open(
        self, *, page: int = 1000, options: GatewayOptions | None = None, **callbacks: Any
    ) -> AsyncGenerator[Journey]:
        """Set everything up; ``page`` is for the upstream's lists, callbacks are the client's."""
        workshop = Workshop(page=page)
        config = ServerConfig(
            name="workshop",
            transport="memory",
            server=workshop.server,
            prefix="",
            protocol="legacy" if self.upstream == "legacy" else "auto",
        )
        heard = Heard()
        callbacks.setdefault("message_handler", heard)
        async with (
            Hub([config], catalog_cache=NoCatalogCache(), relays_questions=True) as hub,
            Gateway(hub, options) as gateway,
            client_of(gateway, self.face, self.client, **callbacks) as client,
        ):
            assert hub.servers["workshop"].era == self.upstream
            yield Journey(
                client=client,
                workshop=workshop,
                gateway=gateway,
                hub=hub,
                heard=heard,
                era=self.client,
            )


def text_of(result: types.CallToolResult | types.GetPromptResult) -> str:
    """Return the first text of an answer."""
    if isinstance(result, types.CallToolResult):
        first = result.content[0]
    else:
        first = result.messages[0].content
    assert isinstance(first, types.TextContent)
    return first.text


_ERAS: tuple[Era, ...] = ("legacy", "modern")
_FACES: tuple[FaceName, ...] = ("stream", "http")
CELLS = [Cell(face, client, upstream) for client in _ERAS for upstream in _ERAS for face in _FACES]
