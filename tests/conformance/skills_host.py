"""A model at the gateway, in front of the server of a scenario about clients: `[--load] URL`."""

import sys

import anyio

from pegboard.config import ServerConfig
from pegboard.gateway import Gateway
from pegboard.hub import Hub
from tests.gateway.clients import Caller


async def main(url: str, *, loads: bool) -> None:
    """List and search; then load the skill, and its further file if the skill was accepted."""
    config = ServerConfig(name="remote", transport="streamable_http", url=url)
    async with Hub.open([config], relays_questions=True) as hub, Gateway(hub) as gateway:
        caller = Caller(gateway)
        await caller.send("skills/list")
        await caller.send("prompts/list")
        await caller.send("resources/list")
        await caller.call("search_tools", query="PDF documents")
        if not loads:
            return
        loaded = await caller.call("get_skill", name="pdf-processing")
        if not loaded.get("isError"):
            await caller.call("get_skill", name="pdf-processing", path="references/FORMS.md")


if __name__ == "__main__":
    anyio.run(lambda: main(sys.argv[-1], loads="--load" in sys.argv))
