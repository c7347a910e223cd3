from pathlib import Path

import pytest

from pegboard.storage import open_store
from pegboard.testing import Memory
from pegboard.upstream.connection import Negotiated
from pegboard.upstream.memory import Remembered
from pegboard.upstream.store_memory import SERVERS, StoreMemory


def remembered(name: str = "echo") -> Remembered:
    return Remembered(
        negotiated=Negotiated(era="modern", version="2026-07-28"),
        tools=({"name": name, "inputSchema": {"type": "object"}},),
        names={name: ("mcp_a_echo", "mcp_a_echo_2")},
    )


@pytest.mark.parametrize("name", ["memory.json", "memory.db"])
def test_what_a_server_offered_is_known_in_the_next_run(tmp_path: Path, name: str) -> None:
    with open_store(tmp_path / name) as store:
        StoreMemory(lambda: store).save("key", remembered())
    with open_store(tmp_path / name) as store:
        assert StoreMemory(lambda: store).load(["key", "other"]) == {"key": remembered()}


def test_what_cannot_be_understood_counts_as_unknown() -> None:
    with Memory().open() as store:
        store.namespace(SERVERS).put("key", {"tools": 3})
        assert StoreMemory(lambda: store).load(["key"]) == {}
