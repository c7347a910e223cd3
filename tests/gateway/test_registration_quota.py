"""How many definitions one tenant and one key may register."""

from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from pegboard.gateway import Gateway, GatewayOptions
from pegboard.gateway.tools.registration_quota import NAMESPACE
from pegboard.model import Tool
from pegboard.model.principal import Principal
from pegboard.storage import open_store
from tests.gateway.clients import Caller, text_of
from tests.gateway.servers import hub
from tests.upstream.board_servers import Bench, memory

FEW = GatewayOptions(registered_tools=6)


def owner(gateway: Gateway, subject: str) -> Caller:
    principal = Principal(subject=subject, scopes=frozenset({"read", "register"}))
    return Caller(gateway, principal=principal)


async def registered(caller: Caller, name: str, **more: Any) -> dict[str, Any]:
    return await caller.call("register_tool", name=name, description="Does it.", **more)


async def how_many(caller: Caller, names: range, prefix: str) -> int:
    said = [await registered(caller, f"{prefix}_{number}") for number in names]
    return sum("isError" not in it or not it["isError"] for it in said)


def owners_in(path: str) -> list[str]:
    with open_store(path) as store:
        return [it.value["by"] for it in store.namespace(NAMESPACE).items().values()]


def fill(path: str) -> None:
    with open_store(path) as store:
        store.save_many([Tool(name=f"old_{number}", description="Old.") for number in range(9)])


@pytest.mark.parametrize("file", ["pegboard.json", "pegboard.db", ""])
async def test_one_key_gets_two_thirds_and_leaves_room_for_another(
    file: str, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"storage": str(tmp_path / file)} if file else {}
    async with hub(**options) as it, Gateway(it, FEW) as gateway:
        ann, bob = owner(gateway, "ann"), owner(gateway, "bob")
        assert await how_many(ann, range(10), "ann") == 4
        refused = await registered(ann, "one_more")
        assert refused["isError"]
        setting = {"code": "limit_reached", "setting": "gateway.registered_tools"}
        assert refused["structuredContent"] == setting
        assert await how_many(bob, range(10), "bob") == 2
        await ann.call("unregister_tool", tool_name="ann_0")
        # The place is for a key that has less.
        assert await how_many(ann, range(20, 22), "ann") == 0
        assert await how_many(owner(gateway, "eve"), range(2), "eve") == 1
        [used] = [it for it in gateway.limits() if it.name == "registered tools (default)"]
        assert (used.used, used.limit, used.largest) == (6, 6, ("ann",))


async def test_their_bytes_count_too_and_a_small_one_still_fits() -> None:
    options = GatewayOptions(registered_bytes=10_000)
    async with hub() as it, Gateway(it, options) as gateway:
        ann = owner(gateway, "ann")
        large = {"type": "object", "description": "x" * 9000}
        refused = await registered(ann, "large", input_schema=large)
        assert "isError" not in refused
        refused = await registered(ann, "larger", input_schema=large)
        assert refused["structuredContent"]["setting"] == "gateway.registered_bytes"
        assert "isError" not in await registered(owner(gateway, "bob"), "small")


async def test_who_registered_what_is_known_after_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "pegboard.db")
    for already in (0, 4):
        async with hub(storage=path) as it, Gateway(it, FEW) as gateway:
            ann = owner(gateway, "ann")
            assert await how_many(ann, range(already, already + 5), "ann") == 4 - already
    assert len(await anyio.to_thread.run_sync(owners_in, path)) == 4


async def test_a_store_beyond_the_limit_is_read_and_takes_nothing_new(tmp_path: Path) -> None:
    path = str(tmp_path / "pegboard.db")
    await anyio.to_thread.run_sync(fill, path)
    async with hub(storage=path) as it, Gateway(it, FEW) as gateway:
        ann = owner(gateway, "ann")
        assert len([name for name in it.registry if name.startswith("old_")]) == 9
        assert (await registered(ann, "new"))["isError"]
        for number in range(5):
            await ann.call("unregister_tool", tool_name=f"old_{number}")
        assert "isError" not in await registered(ann, "new")


async def test_a_registration_that_fails_counts_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "pegboard.db")
    async with hub(storage=path) as it, Gateway(it, FEW) as gateway:
        ann, bob = owner(gateway, "ann"), owner(gateway, "bob")
        assert await how_many(ann, range(1), "mine") == 1
        for _ in range(10):
            assert (await registered(bob, "mine_0"))["isError"]
        assert await anyio.to_thread.run_sync(owners_in, path) == ["ann"]
        assert await how_many(ann, range(1, 10), "mine") == 3


async def test_what_another_process_registers_is_counted(tmp_path: Path) -> None:
    path = str(tmp_path / "pegboard.db")
    async with (
        hub(storage=path) as one,
        hub(storage=path) as two,
        Gateway(one, FEW) as first,
        Gateway(two, FEW) as second,
    ):
        assert await how_many(owner(first, "bob"), range(1), "bob") == 1
        assert await how_many(owner(second, "ann"), range(3), "ann") == 3
        with anyio.fail_after(10):
            while "ann_2" not in one.registry:  # noqa: ASYNC110 - told by a thread of the store
                await anyio.sleep(0.01)
        assert await how_many(owner(first, "ann"), range(10, 20), "ann") == 1


async def test_a_definition_behind_a_hidden_tool_is_removed_without_a_search_for_similar_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = Principal(subject="w", scopes=frozenset({"register", "read"}), servers=("alpha",))
    looked: list[object] = []

    def nearest(name: object, *_rest: object, **_named: object) -> list[str]:
        looked.append(name)
        return []

    monkeypatch.setattr("pegboard.gateway.catalog.tool_list.nearest_names", nearest)
    secret = memory("secret", Bench(echo=str))
    async with hub(secret, storage=tmp_path / "t.json") as it, Gateway(it) as gateway:
        caller, name = Caller(gateway, principal=limited), "mcp_secret_echo"
        await caller.call("register_tool", name=name, description="d", mcp_server="alpha")
        said = text_of(await caller.call("unregister_tool", tool_name=name))
        assert (said, looked) == (f"Unregistered {name!r}.", [])
        await caller.call("unregister_tool", tool_name=name)
        assert looked == [name]
