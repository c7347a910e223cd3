"""The page of clients and keys: made, shown once, rotated, revoked, and dead with their maker."""

import re
from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx2
import pytest

from pegboard.auth import ApiKey
from tests.console.served_console import Site, console, csrf_of, log_in

PAGE = "/console/keys"
SECRET = re.compile(r"pb_[a-z0-9]+_[0-9a-f]{64}")


async def send(browser: httpx2.AsyncClient, action: str, **form: Any) -> httpx2.Response:
    """Send a form of the page, and follow where it leads."""
    data = {"csrf": await csrf_of(browser), "action": action, **form}
    return await browser.post(PAGE, data=data, follow_redirects=True)


async def made(browser: httpx2.AsyncClient, **form: Any) -> str:
    """Create a key, and return its secret."""
    [secret] = SECRET.findall((await send(browser, "create", **{"scope": "call", **form})).text)
    return secret


async def listed(site: Site) -> dict[str, ApiKey]:
    assert site.keys is not None
    return {it.name: it for it in await anyio.to_thread.run_sync(site.keys.list)}


async def is_let_in(site: Site, secret: str) -> bool:
    async with site.browser() as browser:
        return (await log_in(browser, secret)).status_code == 303


@pytest.mark.parametrize("who", ["none", "read", "call", "register"])
async def test_only_admin_sees_and_changes_keys(who: str, tmp_path: Path) -> None:
    async with console(tmp_path) as site, site.visit(who) as browser:
        refused = 303 if who == "none" else 403
        assert (await browser.get(PAGE)).status_code == refused
        csrf = await csrf_of(browser) if who in ("read", "call") else ""
        data = {"csrf": csrf, "action": "create", "name": "stolen", "scope": "admin"}
        assert (await browser.post(PAGE, data=data)).status_code == refused
        assert "stolen" not in await listed(site)
        if who in ("read", "call"):
            assert PAGE not in (await browser.get("/console")).text


async def test_a_secret_is_shown_once_and_to_its_maker_only(tmp_path: Path) -> None:
    async with console(tmp_path) as site, site.visit() as owner, site.visit("admin") as other:
        data = {"csrf": await csrf_of(owner), "action": "create", "name": "build", "scope": "call"}
        led = (await owner.post(PAGE, data=data)).headers["location"]
        assert SECRET.search((await other.get(led)).text) is None
        [secret] = SECRET.findall((await owner.get(led)).text)
        assert await is_let_in(site, secret)
        for path in (led, PAGE):
            page = await owner.get(path)
            assert secret not in page.text
            assert "build" in page.text
        key = (await listed(site))["build"]
        [fresh] = SECRET.findall((await send(owner, "rotate", key=key.id)).text)
        assert (await is_let_in(site, secret), await is_let_in(site, fresh)) == (False, True)
        await send(owner, "revoke", key=key.id)
        assert not await is_let_in(site, fresh)


async def test_a_key_made_at_the_console_dies_with_its_maker(tmp_path: Path) -> None:
    async with console(tmp_path) as site, site.visit() as owner:
        first = await made(owner, name="first", scope="admin", days="30")
        async with site.browser() as browser:
            await log_in(browser, first)
            second = await made(browser, name="second", days="90")
            keys = await listed(site)
            assert keys["second"].maker == f"pb_{keys['first'].id}"
            assert keys["second"].expires == keys["first"].expires
            assert await is_let_in(site, second)
            await send(owner, "revoke", key=keys["first"].id)
            assert not await is_let_in(site, second)
            # So is the session of the maker.
            assert (await browser.get(PAGE)).status_code == 303
        assert (await listed(site))["second"].revoked is not None


async def test_an_admin_gets_no_more_than_it_has(tmp_path: Path) -> None:
    async with console(tmp_path) as site, site.visit() as owner:
        await made(owner, name="wide")
        await made(owner, name="blue", tenant="blue")
        keys = await listed(site)
        async with site.visit("admin", servers=("git*",), name="own") as browser:
            page = (await browser.get(PAGE)).text
            assert ("wide" in page, "blue" in page) == (True, False)
            tried = [
                await send(browser, "create", name="more", scope="call"),
                await send(
                    browser, "create", name="more", scope="call", tenant="blue", servers="git*"
                ),
                await send(browser, "rotate", key=keys["wide"].id),
                await send(browser, "revoke", key=keys["blue"].id),
                await send(browser, "create", name="odd", scope="everything", servers="git*"),
                await send(browser, "create", name="none", servers="git*", scope=[]),
                await send(browser, "nothing", key=keys["wide"].id),
            ]
            assert [it.status_code for it in tried] == [400, 400, 403, 404, 400, 400, 400]
            assert not any(SECRET.search(it.text) for it in tried)
            assert await made(browser, name="fits", servers="git*")
        assert {*await listed(site)} >= {"wide", "blue", "own", "fits"}
        assert not {"more", "odd", "none"} & {*await listed(site)}


async def test_the_page_tells_who_calls(tmp_path: Path) -> None:
    async with console(tmp_path) as site, site.visit() as owner:
        page = (await owner.get(PAGE)).text
        assert "No client has a session" in page
        assert "There are no keys yet." in page
