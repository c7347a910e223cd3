"""Who is let in: one-time links, logins with a key, cookies, logging out."""

from pathlib import Path
from urllib.parse import urlencode

import anyio.lowlevel
import anyio.to_thread

from pegboard.console.console_sessions import MOST_SESSIONS, ConsoleSessions
from pegboard.model.principal import Principal
from pegboard.server.http.host_check import HostCheck
from tests.console.served_console import Site, console, csrf_of, log_in

FORM = {"content-type": "application/x-www-form-urlencoded"}
DEEP = "/console/calls?tool=echo&outcome=failed"


async def enter(site: Site, link: str) -> int:
    """Follow a link in a new browser; return what the board says then."""
    async with site.browser() as browser:
        await browser.get(link)
        return (await browser.get("/console")).status_code


async def test_a_link_lets_one_browser_in_once_and_for_five_minutes(tmp_path: Path) -> None:
    async with console(tmp_path) as site:
        link, late = site.link(), site.link()
        async with site.browser() as browser:
            response = await browser.get(link)
            assert response.headers["location"] == "/console"
            cookie = response.headers["set-cookie"].lower()
            for flag in ("httponly", "samesite=strict", "path=/console"):
                assert flag in cookie
            assert (await browser.get("/console")).status_code == 200
        assert await enter(site, link) == 303
        site.clock.now += 301
        assert await enter(site, late) == 303
        assert await enter(site, "/console/enter") == 303


async def test_a_deep_link_survives_the_login(tmp_path: Path) -> None:
    async with console(tmp_path) as site, site.browser() as browser:
        refused = await browser.get(DEEP)
        assert refused.status_code == 303
        form = await browser.get(refused.headers["location"])
        assert DEEP.replace("&", "&amp;") in form.text
        key = await anyio.to_thread.run_sync(site.key, "read")
        response = await log_in(browser, key, DEEP)
        assert response.headers["location"] == DEEP
        assert (await browser.get(DEEP)).status_code == 200


async def test_a_session_ends_with_its_key_its_time_and_the_log_out(tmp_path: Path) -> None:
    async with console(tmp_path) as site, site.browser() as browser:
        assert site.keys is not None
        issued = await anyio.to_thread.run_sync(site.key, "read")
        for end in ("revoked", "out of time", "logged out"):
            if end == "revoked":
                await log_in(browser, issued)
                assert (await browser.get("/console")).status_code == 200
                await anyio.to_thread.run_sync(site.keys.revoke, issued.split("_")[1])
                with anyio.fail_after(5):
                    while (await browser.get("/console")).status_code == 200:
                        await anyio.lowlevel.checkpoint()
            else:
                await browser.get(site.link())
                assert (await browser.get("/console")).status_code == 200
                if end == "logged out":
                    kept = dict(browser.cookies)
                    sent = {"csrf": await csrf_of(browser)}
                    out = await browser.post("/console/logout", data=sent)
                    assert out.headers["location"].endswith("/console/login")
                    # Also for a browser that has kept the cookie.
                    browser.cookies.update(kept)
                else:
                    site.clock.now += 12 * 3600 + 1
            assert (await browser.get("/console")).status_code == 303, end


async def test_a_wrong_key_is_refused_and_not_repeated_on_the_page(tmp_path: Path) -> None:
    async with console(tmp_path) as site, site.browser() as browser:
        for wrong in ("", "pb_0011_wrong", "x" * 60_000, "pb_\N{SNOWMAN}_é"):
            response = await log_in(browser, wrong)
            assert response.status_code == 401
            assert not browser.cookies
            assert not wrong or wrong not in response.text


async def test_without_keys_only_a_link_lets_in(tmp_path: Path) -> None:
    async with console(tmp_path, keys=False) as site, site.browser() as browser:
        form = await browser.get("/console/login")
        assert "pegboard console" in form.text
        assert 'name="credential"' not in form.text
        assert (await log_in(browser, "anything")).status_code == 401
        assert await enter(site, site.link()) == 200


ELSEWHERE = (
    *("https://evil.example", "//evil.example", "///evil.example/console", "/\\evil.example"),
    *("/console\\..\\..\\x", "/console/\r\nset-cookie: a=b", "javascript:alert(1)", "//["),
    *("/consoles", "/mcp", "console", "http:/console", "/console/../mcp", "/console/%2e%2e/x"),
)


async def test_every_way_in_leads_to_pages_of_the_console_only(tmp_path: Path) -> None:
    async with console(tmp_path) as site, site.browser() as browser:
        key = await anyio.to_thread.run_sync(site.key, "read")
        for following in ELSEWHERE:
            entered = await browser.get(f"{site.link()}&{urlencode({'next': following})}")
            chosen = {"language": "zh", "next": following}
            for response in (
                await log_in(browser, key, following),
                await browser.post("/console/language", data=chosen),
                entered,
            ):
                led = response.status_code, response.headers["location"]
                assert led == (303, "/console"), following


async def test_a_link_on_another_site_leads_a_signed_in_browser_to_its_page(tmp_path: Path) -> None:
    async with console(tmp_path) as site, site.browser() as browser:
        # A browser sends no strict cookie with it, nor with what it is redirected to.
        browser.headers["sec-fetch-site"] = "cross-site"
        to_login = await browser.get(DEEP)
        led_on = await browser.get(to_login.headers["location"])
        assert (led_on.status_code, led_on.headers["refresh"]) == (200, f"0; url={DEEP}")
        odd = await browser.get("/console/login", params={"next": "/console/\u4e2d"})
        assert odd.headers["refresh"] == "0; url=/console/%E4%B8%AD"


async def test_behind_a_proxy_with_tls_people_log_in_and_cookies_are_secure(tmp_path: Path) -> None:
    hosts = HostCheck(names=["tools.example"])
    async with console(tmp_path, hosts=hosts) as site, site.browser() as browser:
        browser.headers.update({"host": "tools.example", "origin": "https://tools.example"})
        key = await anyio.to_thread.run_sync(site.key, "read")
        response = await log_in(browser, key)
        assert "secure" in response.headers["set-cookie"].lower()
        assert response.headers["location"] == "/console"


async def test_a_person_who_logs_in_often_logs_out_no_other() -> None:
    async def authenticate(credential: str) -> Principal:
        return Principal(tenant="blue", subject=credential, scopes=frozenset({"read"}))

    sessions = ConsoleSessions(authenticate)
    owner = sessions.follow_link(sessions.make_link())
    other = await sessions.log_in("other")
    first, *_, last = [await sessions.log_in("loud") for _ in range(MOST_SESSIONS)]
    assert owner is not None
    assert [await sessions.find(it) is not None for it in (owner, other, last)] == [True] * 3
    assert await sessions.find(first) is None


async def test_a_browser_that_is_not_let_in_sends_only_small_forms(tmp_path: Path) -> None:
    async with console(tmp_path) as site, site.browser() as browser:
        for path in ("/console/login", "/console/language", "/console/logout"):
            # Form parsers look at each byte of it.
            assert (await browser.post(path, content="&" * 65_537, headers=FORM)).status_code == 413


async def test_a_login_that_is_refused_is_reported_with_its_source(tmp_path: Path) -> None:
    async with console(tmp_path) as site, site.browser() as browser:
        assert (await log_in(browser, "pb_absent_secret")).status_code == 401
        assert [source for _, source in site.refusals] == ["127.0.0.1"]
