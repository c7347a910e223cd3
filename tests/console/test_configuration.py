"""The page of the configuration: what is planned, applied and undone, and by whom."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from tests.console.served_console import console, csrf_of
from tests.upstream.late_servers import light

PAGE = "/console/configuration"
KEPT = "https://kept.example/mcp"
SECRETS = ("value-of-env-77", "sk-value-of-header-88", "pa55-in-url", "ghp_" + "a1B2c3D4e5" * 4)


def written(folder: Path) -> Path:
    """Write a file with comments and secrets, and return its path."""
    env, header, password, token = SECRETS
    entry = json.dumps({**light(), "env": {"API_KEY": env}, "enabled": False})
    path = folder / "mcp.json"
    path.write_text(
        f"""{{
  // the servers of the team
  "mcpServers": {{
    "light": {entry}, // a program
    "far": {{
      "url": "https://ann:{password}@far.example/mcp", // far away
      "headers": {{"Authorization": "Bearer {header}"}},
      "enabled": false
    }}
    ,"kept": {{"url": "{KEPT}", "headers": {{"A": "${{HOME}}"}}, "enabled": false}}
    // "old": {{"token": "{token}"}}
  }}
}}
""",
        "utf-8",
    )
    return path


async def planned(browser: httpx2.AsyncClient, action: str, **form: Any) -> httpx2.Response:
    """Send a form of the page, and return the plan or the refusal."""
    data = {"csrf": await csrf_of(browser), "action": action, **form}
    return await browser.post(PAGE, data=data, follow_redirects=True)


async def applied(browser: httpx2.AsyncClient, action: str, **form: Any) -> str:
    """Plan a change, apply it, and return the page that follows."""
    plan = await planned(browser, action, **form)
    assert plan.status_code == 200, plan.text
    data = {"csrf": await csrf_of(browser)}
    response = await browser.post(str(plan.url), data=data, follow_redirects=True)
    assert response.status_code == 200, response.text
    return response.text


def change_in(page: str) -> str:
    """Return the id of the newest change that can be undone."""
    return page.split('name="change" value="', 1)[1].split('"', 1)[0]


def of_file(path: Path) -> dict[str, Any]:
    lines = (it.partition(" //")[0] for it in path.read_text("utf-8").splitlines())
    return json.loads("\n".join(lines))["mcpServers"]


@pytest.mark.parametrize("who", ["none", "read", "call", "register"])
async def test_only_admin_sees_and_changes_the_configuration(who: str, tmp_path: Path) -> None:
    file = written(tmp_path)
    before = file.read_text("utf-8")
    async with console(tmp_path, file=file) as site, site.visit(who) as browser:
        refused = 303 if who == "none" else 403
        csrf = await csrf_of(browser) if who in ("read", "call") else ""
        for path in (PAGE, f"{PAGE}?edit=far", f"{PAGE}/plans/x"):
            assert (await browser.get(path)).status_code == refused
            data = {"csrf": csrf, "action": "remove", "name": "far"}
            posted = (await browser.post(path, data=data)).status_code
            assert posted == refused
        if who in ("read", "call"):
            data = {"csrf": csrf, "action": "enable"}
            assert (await browser.post("/console/servers/light", data=data)).status_code == 403
            assert PAGE not in (await browser.get("/console")).text
    assert file.read_text("utf-8") == before


async def test_a_limited_admin_changes_no_file(tmp_path: Path) -> None:
    file = written(tmp_path)
    async with (
        console(tmp_path, file=file) as site,
        site.visit("admin", servers=("far",)) as browser,
    ):
        assert (await browser.get(PAGE)).status_code == 403
        assert PAGE not in (await browser.get("/console")).text


async def test_the_owner_adds_edits_and_undoes_and_comments_stay(tmp_path: Path) -> None:
    file = written(tmp_path)
    before = file.read_text("utf-8")
    async with console(tmp_path, file=file) as site, site.visit() as browser:
        command = f"{sys.executable} {light()['args'][0]}"
        plan = await planned(browser, "add", name="near", target=command, pairs="A=b")
        assert "+ " in plan.text
        assert file.read_text("utf-8") == before
        page = await applied(browser, "add", name="near", target=command, pairs="A=b")
        assert of_file(file)["near"]["args"] == [light()["args"][0]]
        assert "// a program" in file.read_text("utf-8")
        assert "near" in site.serving.hub.servers
        await applied(browser, "undo", change=change_in(page))
        assert file.read_text("utf-8") == before
        assert "near" not in site.serving.hub.servers
        await applied(browser, "undo", change=change_in((await browser.get(PAGE)).text))
        assert "near" in of_file(file)
        await applied(browser, "remove", name="near")
        await anyio.Path(file).write_text(before + "\n", "utf-8")
        # What cannot be undone is not offered.
        assert 'name="change"' not in (await browser.get(PAGE)).text
        shown = (await browser.get(f"{PAGE}?edit=far")).text
        assert "https://***:***@far.example/mcp" in shown or "***@far.example/mcp" in shown
        entry = {"url": masked_url(shown), "headers": {"Authorization": "***"}, "lazy": True}
        await applied(browser, "edit", name="far", entry=json.dumps(entry))
        assert "// far away" in file.read_text("utf-8")
        far = of_file(file)["far"]
        assert far == {
            "url": f"https://ann:{SECRETS[2]}@far.example/mcp",
            "headers": {"Authorization": f"Bearer {SECRETS[1]}"},
            "lazy": True,
        }


def masked_url(page: str) -> str:
    return page.split("&#34;url&#34;: &#34;", 1)[1].split("&#34;", 1)[0]


async def test_no_secret_is_on_any_page(tmp_path: Path) -> None:
    file = written(tmp_path)
    async with console(tmp_path, file=file) as site:
        for who in ("owner", "admin"):
            async with site.visit(who) as browser:
                pages = [
                    await browser.get(it)
                    for it in (
                        *("/console", PAGE, f"{PAGE}?edit=far", f"{PAGE}?edit=light"),
                        *("/console/servers/far", "/console/servers/light"),
                    )
                ]
                typed = "sk-typed-secret-99"
                changed = {"url": "https://other.example/", "headers": {"Authorization": typed}}
                pages += [
                    await planned(browser, "remove", name="far"),
                    await planned(browser, "disable", name="far"),
                    await planned(browser, "edit", name="far", entry=json.dumps(changed)),
                ]
                assert [it.status_code for it in pages] == [200] * len(pages)
                pages.append(await planned(browser, "enable", name="light"))
                assert pages[-1].status_code == (200 if who == "owner" else 400)
                for it in pages:
                    assert not [secret for secret in (*SECRETS, typed) if secret in it.text], it.url


async def test_an_admin_from_elsewhere_writes_only_addresses(tmp_path: Path) -> None:
    file = written(tmp_path)
    before = file.read_text("utf-8")
    url = "https://new.example/mcp"
    moved = {"url": "https://evil.example/", "headers": {"Authorization": "***"}}
    away = {"url": "https://evil.example/", "headers": {"A": "${HOME}"}}
    told = {"url": KEPT, "prefix": "${HOME}"}
    async with console(tmp_path, file=file) as site, site.visit("admin") as browser:
        refused = [
            await planned(browser, "add", name="sh", target="sh -c id"),
            await planned(browser, "add", name="var", target="https://x.example/${HOME}"),
            await planned(browser, "add", name="var", target=url, pairs="A=${file:/etc/passwd}"),
            await planned(browser, "edit", name="light", entry='{"command": "sh"}'),
            await planned(browser, "edit", name="light", entry=json.dumps({"url": url})),
            await planned(browser, "edit", name="far", entry=json.dumps(moved)),
            await planned(browser, "edit", name="kept", entry=json.dumps(away)),
            await planned(browser, "edit", name="kept", entry=json.dumps(told)),
            await planned(browser, "remove", name="light"),
            *[
                await planned(browser, "edit", name="new", entry=json.dumps({"url": url, **more}))
                for more in (
                    {"command": "sh"},
                    {"type": "stdio", "args": ["x"]},
                    {"env": {"A": "b"}},
                    {"tls": {"ca": "/etc/passwd"}},
                    {"proxy": "http://evil.example"},
                    {"serverUrl": "https://evil.example"},
                )
            ],
        ]
        assert [it.status_code for it in refused] == [400] * len(refused)
        assert file.read_text("utf-8") == before
        page = await applied(browser, "add", name="new", target=url, lazy="1")
        assert of_file(file)["new"] == {"url": url, "lazy": True}
        async with site.visit("admin") as another:
            undone = await planned(another, "undo", change=change_in(page))
            assert undone.status_code == 400
        await applied(browser, "undo", change=change_in(page))
        assert file.read_text("utf-8") == before


async def test_a_plan_is_of_one_session_and_of_one_state_of_the_file(tmp_path: Path) -> None:
    file = written(tmp_path)
    async with console(tmp_path, file=file) as site, site.visit() as browser:
        plan = await planned(browser, "remove", name="far")
        async with site.visit() as other:
            data = {"csrf": await csrf_of(other)}
            assert (await other.post(str(plan.url), data=data)).status_code == 400
        await anyio.Path(file).write_text('{"mcpServers": {}}\n', "utf-8")
        data = {"csrf": await csrf_of(browser)}
        assert (await browser.post(str(plan.url), data=data)).status_code == 400
        assert file.read_text("utf-8") == '{"mcpServers": {}}\n'


async def test_typed_secrets_are_moved_out_of_the_file(tmp_path: Path) -> None:
    file = written(tmp_path)
    async with console(tmp_path, file=file) as site, site.visit() as browser:
        secret = "ghp_" + "Z9y8X7w6V5" * 4
        url = "https://new.example/mcp"
        pairs = f"Authorization=Bearer {secret}"
        page = await applied(browser, "add", name="new", target=url, pairs=pairs)
        assert secret not in file.read_text("utf-8")
        assert "was moved to" in page
        assert secret not in page
        assert "${" in of_file(file)["new"]["headers"]["Authorization"]


async def test_an_admin_of_a_tenant_edits_the_file_of_this_tenant_only(tmp_path: Path) -> None:
    blue, url = tmp_path / "blue.json", "https://new.example/mcp"
    blue.write_text('{"mcpServers": {}}', "utf-8")
    async with console(tmp_path, {"light": light()}, tenants={"blue": str(blue)}) as site:
        async with site.visit("admin", tenant="blue") as browser:
            page = await applied(browser, "add", name="new", target=url, lazy="1")
            assert (str(blue) in page, "servers/light" in page) == (True, False)
            assert of_file(blue)["new"] == {"url": url, "lazy": True}
        async with site.visit("admin") as browser:
            # The servers of this one were given without a file.
            assert (await browser.get(PAGE)).status_code == 404
            assert "new" not in site.serving.hub.servers
