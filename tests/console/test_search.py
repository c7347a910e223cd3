"""The search playground: what is found, and why a tool is not."""

from html import unescape
from pathlib import Path
from typing import Any

import msgspec

from tests.cli.handy import Home
from tests.console.served_console import console


async def test_the_place_of_a_tool_and_its_reasons_are_said(tmp_path: Path) -> None:
    async with (
        console(tmp_path, {"handy": Home(tmp_path).entry()}) as site,
        site.visit() as browser,
    ):

        async def said(**query: Any) -> str:
            return unescape((await browser.get("/console/search", params=query)).text)

        every = ["bm25", "hybrid"]
        found = await said(q="echo a text", method=every, tool="mcp_handy_echo")
        assert "mcp_handy_echo is at place 1." in found
        assert all(f"<h2>{it}</h2>" in found for it in every)
        # A method that is named often is not tried often.
        assert (await said(q="echo a text", method=["bm25"] * 9)).count("<h2>bm25</h2>") == 1
        nonsense = await said(q="qwrtz plmk", method="bm25", tool="mcp_handy_echo")
        assert "mcp_handy_echo shares no word or meaning with the query." in nonsense
        assert "No tool does that." in nonsense
        assert "There is no tool of this name" in await said(q="echo", tool="absent")
        case = found[found.index('{"id":') :].split("</pre>")[0]
        assert msgspec.json.decode(case)["relevant"] == ["mcp_handy_echo"]
        tools = (await browser.get("/console/tools.jsonl")).content
        assert "mcp_handy_echo" in {it["name"] for it in msgspec.json.Decoder().decode_lines(tools)}
