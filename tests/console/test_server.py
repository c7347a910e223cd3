"""The page of a server: what operators do there, and what the doctor says about one that failed."""

import json
import sys
from html import unescape
from pathlib import Path

import httpx2
import pytest

from pegboard.doctor import diagnose
from tests.console.served_console import Site, console, csrf_of
from tests.upstream.late_servers import light

PAGE = "/console/servers/light"
BAD = {
    "command": sys.executable,
    "args": ["-c", "import absent_module"],
    "env": {"KEY": "s3cret-of-env"},
}


def written(folder: Path) -> Path:
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"light": light(), "bad": BAD}}), "utf-8")
    return path


async def act(browser: httpx2.AsyncClient, action: str, page: str = PAGE) -> httpx2.Response:
    data = {"csrf": await csrf_of(browser), "action": action}
    return await browser.post(page, data=data, follow_redirects=True)


def state_of(site: Site) -> str:
    return str(site.serving.hub.servers["light"].state)


async def test_an_operator_stops_starts_and_restarts_a_server(tmp_path: Path) -> None:
    async with console(tmp_path, file=written(tmp_path)) as site, site.visit("admin") as browser:
        assert (await act(browser, "stop")).status_code == 200
        assert state_of(site) == "closed"
        for action in ("start", "restart"):
            page = await act(browser, action)
            assert (page.status_code, state_of(site)) == (200, "ready")
        assert "<dt>Starts</dt><dd>3" in page.text
        assert (await act(browser, "explode")).status_code == 400


async def test_a_server_is_disabled_and_enabled_in_the_file(tmp_path: Path) -> None:
    file = written(tmp_path)
    async with console(tmp_path, file=file) as site, site.visit("admin") as browser:
        assert (await act(browser, "disable")).status_code == 200
        assert json.loads(file.read_text("utf-8"))["mcpServers"]["light"]["enabled"] is False
        assert state_of(site) == "disabled"
        # It is a program on this machine: only the local owner lets it run again.
        assert (await act(browser, "enable")).status_code == 400
        async with site.visit() as owner:
            assert (await act(owner, "enable")).status_code == 200
        assert json.loads(file.read_text("utf-8"))["mcpServers"]["light"] == light()
        assert state_of(site) != "disabled"


@pytest.mark.parametrize("who", ["read", "call", "admin"])
async def test_others_do_nothing_to_a_server(who: str, tmp_path: Path) -> None:
    file = written(tmp_path)
    before = file.read_text("utf-8")
    async with (
        console(tmp_path, file=file) as site,
        # The last one is no operator: it sees one server only.
        site.visit(who, servers=("light",)) as browser,
    ):
        page = (await browser.get(PAGE)).text
        assert 'value="stop"' not in page
        assert "without secrets" not in page
        for action in ("stop", "start", "restart", "disable", "enable", "diagnose"):
            assert (await act(browser, action)).status_code == 403
        assert (state_of(site), file.read_text("utf-8")) == ("ready", before)


async def test_the_doctor_says_what_the_command_says(tmp_path: Path) -> None:
    file = written(tmp_path)
    async with console(tmp_path, file=file) as site, site.visit() as browser:
        page = unescape((await act(browser, "diagnose", "/console/servers/bad")).text)
        said = [it for it in (await diagnose(str(file), names=["bad"])).findings if it.server]
        assert [it.code for it in said][:1] == ["missing_module"]
        for finding in said:
            assert finding.what in page
            assert finding.remedy in page
        assert "s3cret-of-env" not in page
        assert "s3cret-of-env" not in (await browser.get("/console")).text
        # About another error it would be stale.
        assert site.serving.hub.servers["bad"].last_error is not None


async def test_what_was_negotiated_is_on_the_page(tmp_path: Path) -> None:
    async with console(tmp_path, file=written(tmp_path)) as site, site.visit("read") as browser:
        page = (await browser.get(PAGE)).text
        said = site.serving.hub.server("light").connection.negotiated
        assert said is not None
        assert said.version in page
        for capability in said.capabilities:
            assert f"<div>{capability}" in page


async def test_a_diagnosis_of_an_entry_that_cannot_be_used_is_shown(tmp_path: Path) -> None:
    unset = {"command": "x", "args": ["${PEGBOARD_NONESUCH}"]}
    async with console(tmp_path, {"unset": unset}) as site, site.visit() as browser:
        page = "/console/servers/unset"
        sent = {"csrf": await csrf_of(browser), "action": "diagnose"}
        assert (await browser.post(page, data=sent)).status_code == 303
        assert "unset_variable" in (await browser.get(page)).text
