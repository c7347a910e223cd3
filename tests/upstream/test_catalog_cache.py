import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from anyio.to_thread import run_sync
from hypothesis import given
from hypothesis import strategies as st

from pegboard import InvalidArgumentsError, ServerConfig, ServerState, Tool
from pegboard.upstream import CachedCatalog, FileCatalogCache, Negotiated, NoCatalogCache
from pegboard.upstream.catalog.offline_catalog import catalog_key
from tests.upstream.board_servers import Bench, hub_of, memory, until

STORED_SCHEMA = Tool.__dict__["input_schema"].__get__
CONFIG = ServerConfig(name="a", transport="stdio", command="run", env={"TOKEN": "hunter2-hunter2"})
LEGACY = Negotiated(era="legacy", version="2025-11-25", capabilities={"tools": {}})
SOME = CachedCatalog(
    negotiated=LEGACY,
    tools=({"name": "t", "inputSchema": {}},),
    names={"t": ("mcp_a_t", "mcp_a_t_1234")},
)


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    FileCatalogCache(tmp_path / "new folder").save("key", SOME)
    assert FileCatalogCache(tmp_path / "new folder").load(["key", "other"]) == {"key": SOME}
    assert [path.name for path in (tmp_path / "new folder").iterdir()] == ["key.json"]


def test_every_new_folder_of_the_cache_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        FileCatalogCache(tmp_path / "a" / "b").save("key", SOME)
    finally:
        os.umask(before)
    made = (tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "key.json")
    assert [it.stat().st_mode & 0o777 for it in made] == [0o700, 0o700, 0o600]


def test_what_nobody_has_used_for_long_is_removed(tmp_path: Path) -> None:
    unused, used, new = (
        catalog_key(msgspec.structs.replace(CONFIG, bearer_token=token)) for token in "abc"
    )
    for key in (unused, used):
        FileCatalogCache(tmp_path).save(key, SOME)
    (tmp_path / ".writing-abcdefgh").touch()
    (tmp_path / ".writing-ijklmnop").touch()
    (tmp_path / "notes.json").touch()
    long_ago = time.time() - 100 * 86_400
    for name in (f"{unused}.json", f"{used}.json", ".writing-abcdefgh", "notes.json"):
        os.utime(tmp_path / name, (long_ago, long_ago))
    assert FileCatalogCache(tmp_path).load([used]) == {used: SOME}
    FileCatalogCache(tmp_path).save(new, SOME)
    assert {it.name for it in tmp_path.iterdir()} == {
        f"{used}.json",
        f"{new}.json",
        ".writing-ijklmnop",
        "notes.json",
    }


@pytest.mark.parametrize(
    "damage", [b"", b"{", b"[]", b'{"tools": 3}', b"\xff\xfe", b'{"negotiated": {"era": "\xff"}}']
)
def test_a_damaged_file_counts_as_unknown(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "key.json").write_bytes(damage)
    assert FileCatalogCache(tmp_path).load(["key"]) == {}


def test_nothing_is_remembered_without_a_memory() -> None:
    NoCatalogCache().save("key", SOME)
    assert NoCatalogCache().load(["key"]) == {}


def test_the_key_changes_with_the_server_and_shows_no_secret() -> None:
    key = catalog_key(CONFIG)
    assert key == catalog_key(msgspec.structs.replace(CONFIG, lazy=True))
    assert key != catalog_key(msgspec.structs.replace(CONFIG, args=("--all",)))
    assert key != catalog_key(msgspec.structs.replace(CONFIG, env={"TOKEN": "another-secret"}))
    assert key != catalog_key(msgspec.structs.replace(CONFIG, bearer_token="another-person"))
    assert "hunter2" not in key


@given(st.text(min_size=1).filter(str.isprintable))
def test_any_name_makes_a_key_that_can_be_a_file_name(name: str) -> None:
    key = catalog_key(ServerConfig(name=name, transport="stdio", command="run"))
    assert key.isalnum()


async def test_a_memory_that_fails_costs_a_start_and_nothing_else() -> None:
    class Broken:
        def load(self, keys: Any) -> Any:
            raise OSError("no disk")

        def save(self, key: str, cached: CachedCatalog) -> None:
            raise OSError("no disk")

    async with hub_of(memory("calc", Bench(one=lambda _: "1")), catalog_cache=Broken()) as hub:
        assert (await hub.call("mcp_calc_one")).text() == "1"


async def test_exposed_names_stay_what_they_were_in_the_last_run(tmp_path: Path) -> None:
    remembered = FileCatalogCache(tmp_path)
    first = memory("a-b", Bench(c=lambda _: "1"), lazy=True)
    second = memory("a", Bench(b_c=lambda _: "2"), lazy=True)
    async with (
        hub_of(first, catalog_cache=remembered),
        hub_of(first, second, catalog_cache=remembered) as hub,
    ):
        names = {hub.origin(name): name for name in hub.registry}
    async with hub_of(second, first, catalog_cache=remembered) as hub:
        assert {hub.origin(name): name for name in hub.registry} == names


async def test_a_legacy_server_is_not_probed_again(tmp_path: Path) -> None:
    remembered = FileCatalogCache(tmp_path)
    bench = Bench(one=lambda _: "1")
    legacy = memory("calc", bench, protocol="legacy", lazy=True)
    async with hub_of(legacy, catalog_cache=remembered):
        pass
    auto = msgspec.structs.replace(legacy, protocol="auto")
    async with hub_of(auto, catalog_cache=remembered) as hub:
        assert (hub.servers["calc"].state, hub.servers["calc"].era) == (ServerState.COLD, "legacy")
        await hub.call("mcp_calc_one")
        await until(lambda: hub.servers["calc"].state == ServerState.READY)
        assert hub.servers["calc"].era == "legacy"


async def test_a_new_naming_policy_or_prefix_takes_effect_at_once(tmp_path: Path) -> None:
    remembered = FileCatalogCache(tmp_path)
    config = memory("calc", Bench(one=lambda _: "1"), lazy=True)
    async with hub_of(config, catalog_cache=remembered):
        pass
    async with hub_of(config, catalog_cache=remembered, naming="plain") as hub:
        assert set(hub.registry) == {"one"}
    prefixed = msgspec.structs.replace(config, prefix="my_")
    async with hub_of(prefixed, catalog_cache=remembered) as hub:
        assert set(hub.registry) == {"my_one"}


async def test_a_broken_definition_does_not_come_back_from_memory(tmp_path: Path) -> None:
    bench = Bench(good=lambda _: "1", bad=lambda _: "2")
    bench.schemas["bad"] = {"type": "object", "properties": {"a": {"type": "no such type"}}}
    config = memory("calc", bench, lazy=True)
    for _ in range(2):
        async with hub_of(config, catalog_cache=FileCatalogCache(tmp_path)) as hub:
            assert set(hub.registry) == {"mcp_calc_good"}


async def test_schemas_from_memory_are_read_by_the_first_call_that_needs_them(
    tmp_path: Path,
) -> None:
    bench = Bench(one=lambda _: "1")
    bench.schemas["one"] = {"type": "object", "properties": {"n": {"type": "integer"}}}
    config = memory("calc", bench, lazy=True)
    async with hub_of(config, catalog_cache=FileCatalogCache(tmp_path)) as hub:
        plain = hub.registry.get("mcp_calc_one")
    async with hub_of(config, catalog_cache=FileCatalogCache(tmp_path)) as hub:
        tool = hub.registry.get("mcp_calc_one")
        assert isinstance(STORED_SCHEMA(tool), msgspec.Raw)
        with pytest.raises(InvalidArgumentsError, match="expected integer"):
            await hub.call("mcp_calc_one", {"n": "two"})
        assert tool == plain
        assert (await hub.call("mcp_calc_one", {"n": 2})).text() == "1"


@pytest.mark.parametrize(
    "edited", [{"description": 7}, {"inputSchema": [1]}, {"outputSchema": "none"}]
)
async def test_a_definition_that_was_spoilt_in_memory_is_left_out(
    tmp_path: Path, edited: dict[str, Any]
) -> None:
    config = memory("calc", Bench(one=lambda _: "1", two=lambda _: "2"), lazy=True)
    kept = FileCatalogCache(tmp_path)
    async with hub_of(config, catalog_cache=kept):
        pass
    key = catalog_key(config)
    known = (await run_sync(kept.load, [key]))[key]
    one, two = known.tools
    spoilt = msgspec.structs.replace(known, tools=({**one, **edited}, two))
    await run_sync(kept.save, key, spoilt)
    async with hub_of(config, catalog_cache=kept) as hub:
        assert set(hub.registry) == {"mcp_calc_two"}


async def test_a_value_that_is_no_unicode_stops_no_hub() -> None:
    odd = ServerConfig(name="odd", transport="stdio", command="false", env={"A": "abc\udcff"})
    async with hub_of(odd, memory("calc", Bench(one=lambda _: "1"))) as hub:
        assert (await hub.call("mcp_calc_one")).text() == "1"


async def test_a_lazy_server_that_had_no_tools_is_asked_again_in_the_next_run(
    tmp_path: Path,
) -> None:
    bench = Bench()
    config = memory("calc", bench, lazy=True)
    async with hub_of(config, catalog_cache=FileCatalogCache(tmp_path)) as hub:
        assert len(hub.registry) == 0
    bench.tools["one"] = lambda _: "1"
    async with hub_of(config, catalog_cache=FileCatalogCache(tmp_path)) as hub:
        assert (await hub.call("mcp_calc_one")).text() == "1"


async def test_one_file_that_is_too_deep_to_read_costs_no_other(tmp_path: Path) -> None:
    remembered = FileCatalogCache(tmp_path)
    good, bad = (memory(name, Bench(one=lambda _: "1"), lazy=True) for name in ("good", "bad"))
    async with hub_of(good, bad, catalog_cache=remembered):
        pass
    deep = b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    (tmp_path / f"{catalog_key(bad)}.json").write_bytes(deep)
    async with hub_of(good, bad, catalog_cache=remembered) as hub:
        assert hub.servers["good"].state == ServerState.COLD
        assert set(hub.registry) == {"mcp_good_one", "mcp_bad_one"}
