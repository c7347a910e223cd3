"""A hub with a storage: what it knows is there the next time, in this process or another."""

from pathlib import Path

import pytest
from anyio.to_thread import run_sync

from pegboard import Hub, Registry, StorageError, Tool
from pegboard.storage import open_store
from pegboard.upstream.catalog.offline_catalog import SERVERS
from tests.upstream.board_servers import script


@pytest.fixture(params=["hub.json", "hub.db"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / request.param


def stored(path: Path) -> tuple[list[str], dict[str, int], int]:
    """The names of the tools, how often each was used, and how many servers are remembered."""
    with open_store(path) as store:
        usage = {name: it.use_frequency for name, it in store.usage().items()}
        tools = sorted(it.tool.name for it in store.load_all())
        return tools, usage, len(store.namespace(SERVERS).items())


async def test_definitions_usage_and_what_servers_offered_survive(path: Path) -> None:
    server = script("a", lazy=True)
    async with Hub.open([server], storage=path) as hub:
        await run_sync(hub.registry.register, Tool(name="idea", description="Not built yet."))
        await hub.call("mcp_a_echo", {"text": "x"})
    assert hub.registry.storage is None
    assert await run_sync(stored, path) == (["idea"], {"mcp_a_echo": 1}, 1)
    async with Hub.open([server], storage=path) as hub:
        assert "idea" in hub.registry
        assert "mcp_a_echo" in hub.registry
        assert hub.servers["a"].starts == 0


async def test_a_hub_can_be_opened_again_and_goes_on_keeping(path: Path) -> None:
    hub = Hub([], storage=path)
    for number in range(3):
        async with hub:
            await run_sync(hub.registry.register, Tool(name=f"idea_{number}"))
    assert await run_sync(stored, path) == (["idea_0", "idea_1", "idea_2"], {}, 0)


async def test_a_store_that_is_open_stays_open(path: Path) -> None:
    store = await run_sync(open_store, path)
    async with Hub.open([], storage=store) as hub:
        await run_sync(hub.registry.register, Tool(name="idea"))
    assert list(await run_sync(store.load, ["idea"])) == ["idea"]
    await run_sync(store.close)


async def test_a_storage_that_cannot_be_opened_keeps_the_hub_closed(tmp_path: Path) -> None:
    damaged = tmp_path / "tools.json"
    await run_sync(damaged.write_bytes, b"{")
    hub = Hub([], storage=damaged)
    with pytest.raises(StorageError):
        await hub.start()
    assert hub.registry.storage is None
    assert await run_sync(damaged.read_bytes) == b"{"
    await hub.close()


def test_constructing_a_hub_opens_nothing(tmp_path: Path) -> None:
    Hub([], storage=tmp_path / "tools.json")
    assert list(tmp_path.iterdir()) == []


async def test_a_registry_of_ones_own_gets_the_storage(path: Path) -> None:
    registry = Registry()
    async with Hub.open([], storage=path, registry=registry):
        await run_sync(registry.register, Tool(name="idea"))
    assert await run_sync(stored, path) == (["idea"], {}, 0)


def test_a_synchronous_hub_keeps_too(path: Path) -> None:
    with Hub.open_sync([script("a")], storage=path) as hub:
        hub.call("mcp_a_echo", {"text": "x"})
    assert stored(path) == ([], {"mcp_a_echo": 1}, 1)


async def test_no_storage_is_what_it_says() -> None:
    async with Hub.open([script("a")], storage=None) as hub:
        assert hub.registry.storage is None
        assert hub.servers["a"].tool_count > 0


def test_a_hub_takes_no_second_storage(tmp_path: Path) -> None:
    with Registry(storage=tmp_path / "a.db") as registry:
        with pytest.raises(TypeError, match="storage already"):
            Hub([], registry=registry, storage=tmp_path / "b.db")
        assert registry.storage is not None


async def test_the_storage_of_a_registry_outlives_the_hub(tmp_path: Path) -> None:
    registry = await run_sync(lambda: Registry(storage=tmp_path / "a.db"))
    async with Hub.open([], registry=registry):
        pass
    assert registry.storage is not None
    await run_sync(registry.close)


async def test_what_was_deleted_meanwhile_is_not_there_when_a_hub_is_opened_again(
    path: Path,
) -> None:
    hub = Hub([], storage=path)
    async with hub:
        await run_sync(hub.registry.register_many, [Tool(name="gone"), Tool(name="stays")])

    def delete() -> None:
        with open_store(path) as store:
            store.delete("gone")

    await run_sync(delete)
    async with hub:
        assert list(hub.registry) == ["stays"]
