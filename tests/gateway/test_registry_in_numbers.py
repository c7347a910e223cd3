"""`registry://stats` and `registry://categories` are counted beside the event loop."""

import threading
from pathlib import Path
from typing import Any

import msgspec

from pegboard.gateway import Gateway
from pegboard.model import Tool
from tests.gateway.clients import Caller
from tests.gateway.servers import bench, hub


async def test_the_numbers_are_counted_in_a_thread(tmp_path: Path, monkeypatch: Any) -> None:
    configs = bench("disk", read=str, write=str)
    async with hub(configs, storage=tmp_path / "t.json") as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        await caller.call("call_tool", name="mcp_disk_read")
        threads: set[int] = set()

        def category_of(tool: Tool) -> str:
            threads.add(threading.get_ident())
            return tool.server or ""

        monkeypatch.setattr("pegboard.model.tool.category_of", category_of)
        read = await caller.send("resources/read", uri="registry://stats")
        assert msgspec.json.decode(read["contents"][0]["text"]) == {
            "tools": 2,
            "categories": 1,
            "servers": 1,
            "most_used": [{"name": "mcp_disk_read", "uses": 1}],
        }
        await caller.send("resources/read", uri="registry://categories")
        assert threads
        assert threading.get_ident() not in threads
