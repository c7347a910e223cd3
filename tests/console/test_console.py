"""The console as an application: its headers, its refusals, and who may see which page."""

import json
import sys
from pathlib import Path

import httpx2
import pytest

from pegboard.server.http.host_check import HostCheck
from tests.console.served_console import OWNER, console, csrf_of
from tests.upstream.late_servers import light

POLICY = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
TOOL = "/console/tools/mcp_light_echo"
PAGES = (
    *("/console", "/console/servers/light", "/console/tools", TOOL, "/console/search?q=echo"),
    *("/console/calls", "/console/calls.json", "/console/cost", "/console/health"),
    "/console/find?q=echo",
)
PEOPLE = ("none", "register", "read", "call", "admin", OWNER)


async def test_every_response_has_the_headers_also_errors_and_files(tmp_path: Path) -> None:
    async with console(tmp_path, {"light": light()}) as site, site.visit() as browser:
        large = {f"field.{name}": name * 900_000 for name in "abcde"}
        responses = [
            *[await browser.get(it) for it in PAGES],
            await browser.get("/console/absent"),
            await browser.get("/console/static/absent.js"),
            await browser.get("/console/static/console.css"),
            await browser.get("/console/login"),
            await browser.put("/console/tools"),
            await browser.post(TOOL, data=large),
            await browser.post("/console/logout", data={"csrf": "x"}),
            await browser.post("/console/logout", headers={"origin": "https://evil.example"}),
        ]
        for it in responses:
            policy = it.headers["content-security-policy"]
            for part in ("default-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"):
                assert part in policy, it.url
            assert "unsafe" not in policy
            assert {name: it.headers[name] for name in POLICY} == POLICY
            is_file = "/static/" in str(it.url)
            assert it.headers["cache-control"] == ("no-cache" if is_file else "no-store")
        assert [it.status_code for it in responses[-8:]] == [
            *(404, 404, 200, 200, 405, 413, 400, 403)
        ]


async def test_a_change_needs_the_origin_of_the_page_and_the_token_of_the_session(
    tmp_path: Path,
) -> None:
    async with console(tmp_path, {"light": light()}) as site, site.visit() as browser:
        good = {"csrf": await csrf_of(browser), "f/text": "hi"}

        async def sent(data: dict[str, str], **headers: str) -> int:
            return (await browser.post(TOOL, data=data, headers=headers)).status_code

        own = {"origin": site.url}
        assert await sent(good, **own) == 200
        for foreign in ("https://evil.example", "null", "", site.url + ".evil.example"):
            assert await sent(good, origin=foreign) == 403, foreign
        for kind in ("cross-site", "same-site"):
            assert await sent(good, **{"sec-fetch-site": kind}) == 403, kind
        del browser.headers["origin"]
        assert await sent(good) == 200
        del browser.headers["sec-fetch-site"]
        assert await sent(good) == 403
        assert await sent(good, **own) == 200
        async with site.visit() as other:
            csrf = await csrf_of(other)
        browser.headers["sec-fetch-site"] = "same-origin"
        for wrong in ("", csrf, good["csrf"][:-1], "\N{SNOWMAN}"):
            assert await sent({**good, "csrf": wrong}, **own) == 403, wrong
        calls = site.serving.pipeline.metrics.calls()
        assert calls["light"] == {"ok": 3}


async def test_a_host_that_is_not_ours_sees_no_page(tmp_path: Path) -> None:
    async with console(tmp_path, hosts=HostCheck()) as site, site.visit() as browser:
        for path in ("/console", "/console/login", "/console/static/console.css"):
            refused = await browser.get(path, headers={"host": "evil.example"})
            assert refused.status_code == 421
        assert (await browser.get("/console")).status_code == 200


def shown_to(who: str) -> int:
    """Return the status of a page for a person with one scope."""
    if who == "none":
        return 303
    return 403 if who == "register" else 200


@pytest.mark.parametrize("who", PEOPLE)
async def test_who_may_see_which_page(who: str, tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {"light": light()}}), "utf-8")
    async with console(tmp_path, file=file) as site, site.visit(who) as browser:
        for path in PAGES:
            assert (await browser.get(path)).status_code == shown_to(who), path
        async with browser.stream("GET", "/console/updates") as stream:
            assert stream.status_code == shown_to(who)
        may_call = who in ("call", "admin", OWNER)
        for path in ("/console/keys", "/console/configuration"):
            wanted = {"admin": 200, OWNER: 200, "none": 303}.get(who, 403)
            assert (await browser.get(path)).status_code == wanted, path
        waiting = await browser.get("/console/waiting")
        assert waiting.status_code == (200 if may_call else 303 if who == "none" else 403)
        if who == "none":
            return
        # Every session has a token; a person without pages has it nowhere.
        csrf = "" if who == "register" else await csrf_of(browser)
        tried = await browser.post(TOOL, data={"csrf": csrf, "f/text": "hi"})
        assert tried.status_code == (200 if may_call else 403)
        page = (await browser.get("/console/servers/light")).text
        # Its log, its command and the calls of others are for operators.
        assert (sys.executable in page) == (who in ("admin", OWNER))
        assert ("<h2>Log" in page) == (who in ("admin", OWNER))


async def test_a_key_sees_its_own_servers_and_calls_only(tmp_path: Path) -> None:
    async with console(tmp_path, {"light": light(), "dark": light()}) as site:
        async with site.visit() as owner:
            await call(owner, TOOL)
            ours = (await owner.get("/console/calls.json")).json()[0]["id"]
        async with site.visit("call", servers=("dark",)) as browser:
            await call(browser, "/console/tools/mcp_dark_echo")
            [seen] = (await browser.get("/console/calls.json")).json()
            assert seen["server"] == "dark"
            assert await sees(browser, "light", ours) == set()
            assert await sees(browser, "dark", seen["id"]) == {*VIEWS}


async def test_a_tenant_sees_nothing_of_another(tmp_path: Path) -> None:
    blue = tmp_path / "blue.json"
    blue.write_text('{"mcpServers": {}}', "utf-8")
    async with console(tmp_path, {"light": light()}, tenants={"blue": str(blue)}) as site:
        async with site.visit() as owner:
            await call(owner, TOOL)
            ours = (await owner.get("/console/calls.json")).json()[0]["id"]
        for scope in ("read", "call", "admin"):
            async with site.visit(scope, tenant="blue") as browser:
                assert await sees(browser, "light", ours) == set()
                assert (await browser.get("/console/calls.json?server=light")).json() == []
                assert "<h2>Limits" not in (await browser.get("/console/health")).text


VIEWS = ("board", "server", "tool", "tools", "find", "search", "call", "calls", "cost")


async def sees(browser: httpx2.AsyncClient, server: str, call_id: str) -> set[str]:
    """Return on which pages a person sees something of a server and of one of its calls."""
    tool = f"mcp_{server}_echo"
    paths = {
        "board": "/console",
        "server": f"/console/servers/{server}",
        "tool": f"/console/tools/{tool}",
        "tools": f"/console/tools?name={server}&server={server}",
        "find": f"/console/find?q={server}",
        "search": f"/console/search?q={server}+echo",
        "call": f"/console/calls/{call_id}",
        "calls": f"/console/calls?server={server}",
        "cost": "/console/cost",
    }
    found: set[str] = set()
    for view, path in paths.items():
        response = await browser.get(path)
        # What the person asked for is repeated in the form and in the address.
        shown = response.text.replace(f'value="{server}"', "").replace(f"server={server}", "")
        if response.status_code == 200 and (tool in shown or f">{server}</a>" in shown):
            found.add(view)
    return found


async def call(browser: httpx2.AsyncClient, path: str) -> None:
    """Try a tool at its page."""
    sent = {"csrf": await csrf_of(browser), "f/text": "hi"}
    response = await browser.post(path, data=sent)
    assert response.status_code == 200
    assert 'id="result"' in response.text
