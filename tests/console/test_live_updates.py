"""Live updates: an open page is told of a call, and a session that has ended is told nothing."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio

from tests.console.served_console import console, csrf_of
from tests.console.test_console import TOOL, call
from tests.upstream.late_servers import light


async def changes(lines: AsyncIterator[str]) -> bool:
    """Wait until a page is told of a change; return false if its stream ends before."""
    async for line in lines:
        if line == "event: changed":
            return True
    return False


async def test_a_page_is_told_of_a_call_until_its_session_ends(tmp_path: Path) -> None:
    async with (
        console(tmp_path, {"light": light()}) as site,
        site.visit() as browser,
        site.visit() as other,
    ):
        csrf = await csrf_of(browser)
        with anyio.fail_after(20):
            for is_in in (True, False):
                async with browser.stream("GET", "/console/updates") as stream:
                    lines = stream.aiter_lines()
                    assert await anext(lines) == "retry: 3000"
                    if not is_in:
                        await browser.post("/console/logout", data={"csrf": csrf})
                    await call(other, TOOL)
                    assert await changes(lines) == is_in
