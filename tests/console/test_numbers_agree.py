"""The board, the command line and the metrics have the same numbers; the unknown has none."""

from collections import Counter
from pathlib import Path
from typing import Any

from tests.console.served_console import Site, console, rows_in
from tests.console.test_console import TOOL, call
from tests.upstream.late_servers import light

BAD = {"comand": "typo"}


async def test_the_board_the_command_line_and_the_metrics_agree(tmp_path: Path) -> None:
    servers = {"light": light(), "bad": BAD}
    async with console(tmp_path, servers) as site, site.visit() as browser:
        for _ in range(3):
            await call(browser, TOOL)
        await browser.post(TOOL, data={"csrf": "wrong"})
        rows = rows_in((await browser.get("/console")).text)[1:]
        shown = {row[0]: row for row in rows if len(row) > 1}
        status = {it["server"]: it for it in await owned(site, "status")}
        assert {*shown} == {*status} == {*servers}
        for name, it in status.items():
            assert shown[name][1] == it["state"]
            told = [it["tools"], it["tokens"], it["calls"], it["failed_calls"]]
            assert shown[name][3:7] == ["\N{EN DASH}" if n is None else f"{n:,}" for n in told]
        assert status["light"]["calls"] == in_metrics(await site.serving.pipeline.metrics.page())
        # What is not known is not zero.
        assert shown["bad"][2:] == ["\N{EN DASH}"] * 8
        kept = (await browser.get("/console/calls.json?server=light")).json()
        assert Counter(it["outcome"] for it in kept) == {"ok": 3}


async def owned(site: Site, what: str) -> Any:
    """Return what the gateway tells a command of its user."""
    async with site.browser() as command:
        headers = {"authorization": f"Bearer {site.local_token.token}"}
        del command.headers["origin"]
        return (await command.get(f"/owner/{what}", headers=headers)).json()


def in_metrics(page: bytes) -> int:
    """Return how many calls of the light server the metrics have."""
    lines = page.decode().splitlines()
    counted = [it for it in lines if it.startswith("pegboard_calls_total{") and "light" in it]
    return sum(int(float(it.split()[-1])) for it in counted)
