"""Several clients at one upstream: each gets its own answers, questions, progress and logs."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client

from pegboard import Hub, ServerConfig
from pegboard.gateway import Gateway
from pegboard.upstream import Era, NoCatalogCache
from tests.journeys.faces import client_of
from tests.journeys.journey import text_of
from tests.journeys.workshop import Workshop
from tests.upstream.http_servers import serving

pytestmark = pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")

CLIENTS = 6


class Guest:
    """A client that answers with its own name, and keeps what it was asked."""

    def __init__(self, number: int, era: Era) -> None:
        self.name = f"guest-{number}"
        self.era: Era = era
        self.asked: list[str] = []
        self.progress: list[float] = []

    async def elicit(self, _: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(params.message)
        content: Any = {"username": self.name, "email": f"{self.name}@example.org"}
        return types.ElicitResult(action="accept", content=content)


@asynccontextmanager
async def party(
    place: str, upstream: Era
) -> AsyncGenerator[tuple[Workshop, list[tuple[Guest, Client]]]]:
    """Clients of both eras at one gateway, before one upstream in memory or behind HTTP."""
    eras: tuple[Era, ...] = ("legacy", "modern")
    guests = [Guest(number, eras[number % 2]) for number in range(CLIENTS)]
    workshop = Workshop()
    fields: dict[str, Any] = {"protocol": "legacy" if upstream == "legacy" else "auto"}
    async with AsyncExitStack() as stack:
        if place == "memory":
            fields |= {"transport": "memory", "server": workshop.server}
        else:
            app = workshop.server.streamable_http_app()
            origin = await stack.enter_async_context(serving(app))
            fields |= {"transport": "streamable_http", "url": f"{origin}/mcp"}
        config = ServerConfig(name="workshop", prefix="", **fields)
        hub = Hub([config], catalog_cache=NoCatalogCache(), relays_questions=True)
        gateway = await stack.enter_async_context(Gateway(await stack.enter_async_context(hub)))
        yield (
            workshop,
            [
                (
                    guest,
                    await stack.enter_async_context(
                        client_of(gateway, "http", guest.era, elicitation_callback=guest.elicit)
                    ),
                )
                for guest in guests
            ],
        )


PLACES = [(place, upstream) for place in ("memory", "http") for upstream in ("legacy", "modern")]


@pytest.mark.parametrize(("place", "upstream"), PLACES)
async def test_each_is_asked_only_what_its_own_call_asks(place: str, upstream: Era) -> None:
    async with party(place, upstream) as (_, guests), anyio.create_task_group() as tasks:

        async def visit(guest: Guest, client: Client) -> None:
            for turn in range(3):
                message = f"{guest.name} in turn {turn}"
                result = await client.call_tool("test_elicitation", {"message": message})
                assert f"'username': '{guest.name}'" in text_of(result)

        for guest, client in guests:
            tasks.start_soon(visit, guest, client)
    for guest, _ in guests:
        assert guest.asked == [f"{guest.name} in turn {turn}" for turn in range(3)]


@pytest.mark.parametrize(("place", "upstream"), PLACES)
async def test_each_hears_the_progress_of_its_own_call(place: str, upstream: Era) -> None:
    async with party(place, upstream) as (_, guests), anyio.create_task_group() as tasks:

        async def visit(guest: Guest, client: Client) -> None:
            async def note(progress: float, total: float | None, message: str | None) -> None:
                guest.progress.append(progress)

            await client.call_tool("test_tool_with_progress", progress_callback=note)

        for guest, client in guests:
            tasks.start_soon(visit, guest, client)
    assert [guest.progress for guest, _ in guests] == [[0, 50, 100]] * CLIENTS


@pytest.mark.parametrize(("place", "upstream"), PLACES)
async def test_a_client_that_gives_up_takes_no_other_along(place: str, upstream: Era) -> None:
    async with party(place, upstream) as (workshop, guests):
        (_, first), *others = guests
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(first.call_tool, "test_wait")
            with anyio.fail_after(5):
                await workshop.waiting.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(5):
            await workshop.cancelled.wait()
        for _, client in others:
            assert not (await client.call_tool("test_simple_text")).is_error
