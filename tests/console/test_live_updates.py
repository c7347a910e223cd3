"""Live updates: an open page is told of a call, and a session that has ended is told nothing."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import anyio.to_thread
import httpx2

from pegboard.console.live_updates import MOST_STREAMS
from tests.console.served_console import console, csrf_of, log_in
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


async def test_the_pages_of_one_key_leave_streams_for_others(tmp_path: Path) -> None:
    async with console(tmp_path) as site, site.visit() as owner, AsyncExitStack() as opened:
        unlimited = httpx2.Limits(max_connections=None)
        browser = await opened.enter_async_context(site.browser(limits=unlimited))
        await log_in(browser, await anyio.to_thread.run_sync(site.key, "read"))
        statuses: list[int] = []
        read: list[AsyncIterator[str]] = []
        with anyio.fail_after(20):
            while 429 not in statuses:
                stream = browser.stream("GET", "/console/updates")
                response = await opened.enter_async_context(stream)
                statuses.append(response.status_code)
                if response.status_code == 200:
                    read.append(response.aiter_lines())
                    await anext(read[-1])
            assert len(statuses) <= MOST_STREAMS // 2 + 1
            async with owner.stream("GET", "/console/updates") as stream:
                assert stream.status_code == 200
