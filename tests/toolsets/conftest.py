import asyncio  # noqa: TID251 - the agent frameworks run on it alone
from collections.abc import Iterator

import pytest


@pytest.fixture
def main_loop() -> Iterator[None]:
    """Give the main thread a loop: the `run_sync` of agent frameworks leaves its own loop open."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()
