import time
from pathlib import Path

import msgspec
import pytest

from pegboard.storage import open_store
from pegboard.testing import Memory
from pegboard.upstream.catalog.cache import USES, CachedCatalog, StoreCatalogCache
from pegboard.upstream.catalog.offline_catalog import DAY, SERVERS
from pegboard.upstream.connection import Negotiated


def remembered(name: str = "echo") -> CachedCatalog:
    return CachedCatalog(
        negotiated=Negotiated(era="modern", version="2026-07-28"),
        tools=({"name": name, "inputSchema": {"type": "object"}},),
        names={name: ("mcp_a_echo", "mcp_a_echo_2")},
    )


@pytest.mark.parametrize("name", ["memory.json", "memory.db"])
def test_what_a_server_offered_is_known_in_the_next_run(tmp_path: Path, name: str) -> None:
    with open_store(tmp_path / name) as store:
        StoreCatalogCache(lambda: store).save("key", remembered())
    with open_store(tmp_path / name) as store:
        assert StoreCatalogCache(lambda: store).load(["key", "other"]) == {"key": remembered()}


def test_what_cannot_be_understood_counts_as_unknown() -> None:
    with Memory().open() as store:
        store.namespace(SERVERS).put("key", {"tools": 3})
        assert StoreCatalogCache(lambda: store).load(["key"]) == {}


def test_what_no_process_has_used_for_long_is_forgotten() -> None:
    with Memory().open() as store:
        for key in ("old", "used"):
            StoreCatalogCache(lambda: store).save(key, remembered())
        long_ago = int(time.time() // DAY) - 100
        store.namespace(USES).put_many({"old": long_ago, "used": long_ago, "never saved": long_ago})
        assert StoreCatalogCache(lambda: store).load(["used"]) == {"used": remembered()}
        assert store.namespace(SERVERS).keys() == ["used"]
        assert store.namespace(USES).keys() == ["used"]


def test_what_other_processes_use_is_kept() -> None:
    with Memory().open() as store:
        StoreCatalogCache(lambda: store).save("theirs", remembered())
        store.namespace(USES).put("theirs", int(time.time() // DAY) - 80)
        StoreCatalogCache(lambda: store).save("ours", remembered())
        assert store.namespace(SERVERS).keys() == ["ours", "theirs"]


@pytest.mark.parametrize("noted", [None, "yesterday"])
def test_what_was_remembered_before_uses_were_noted_is_kept(noted: str | None) -> None:
    with Memory().open() as store:
        store.namespace(SERVERS).put(
            "before", msgspec.json.decode(msgspec.json.encode(remembered()))
        )
        if noted is not None:
            store.namespace(USES).put("before", noted)
        StoreCatalogCache(lambda: store).save("new", remembered())
        assert store.namespace(SERVERS).keys() == ["before", "new"]
        days = {key: it.value for key, it in store.namespace(USES).items().items()}
        assert days.keys() == {"before", "new"}
        assert days["before"] == days["new"]
