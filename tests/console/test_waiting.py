"""Questions of servers are answered on a page, by those whose calls they are, and by operators."""

from html import unescape
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2

from pegboard.model.principal import Principal
from tests.cli.handy import Home
from tests.console.served_console import Site, console, csrf_of, fields_in, log_in
from tests.gateway.clients import FULL, Caller, text_of

PAGE = "/console/waiting"
ASK = "mcp_handy_ask"
SOMEBODY = Principal(subject="pb_someone", scopes=frozenset({"call"}))


async def parked(site: Site, principal: Principal) -> tuple[Caller, dict[str, Any]]:
    """Call a tool that asks, as a client that can be asked by a result."""
    caller = Caller(site.serving.gateway, face=FULL, principal=principal, elicitation={})
    with anyio.fail_after(20):
        asked = await caller.call(ASK)
    assert asked["resultType"] == "input_required"
    return caller, asked


async def resumed(caller: Caller, asked: dict[str, Any]) -> str:
    with anyio.fail_after(20):
        state = {"requestState": asked["requestState"]}
        return text_of(await caller.send("tools/call", name=ASK, arguments={}, **state))


async def answer(browser: httpx2.AsyncClient, **fields: str) -> int:
    hidden = fields_in((await browser.get(PAGE)).text)
    sent = {"csrf": await csrf_of(browser), "action": "accept", **hidden, **fields}
    form = f"{sent['id']}.{sent['key']}"
    sent |= {f"{form}/{name}": it for name, it in fields.items()}
    return (await browser.post(PAGE, data=sent)).status_code


async def test_the_owner_answers_a_question_and_the_client_gets_the_result(tmp_path: Path) -> None:
    async with console(tmp_path, {"handy": Home(tmp_path).entry()}) as site:
        caller, asked = await parked(site, SOMEBODY)
        async with site.visit() as browser:
            shown = unescape((await browser.get(PAGE)).text)
            assert "Who?" in shown
            assert "default/pb_someone" in shown
            # What is required is said, and the question stays open.
            assert await answer(browser) == 200
            assert "`age` is required." in unescape(
                (await browser.post(PAGE, data=await form_of(browser))).text
            )
            given = {"city": "Oslo", "age": "44", "colour": '"blue"'}
            assert await answer(browser, **given) == 303
            assert "Who?" not in (await browser.get(PAGE)).text
        assert '"city": "Oslo"' in await resumed(caller, asked)


async def form_of(browser: httpx2.AsyncClient) -> dict[str, str]:
    return {**fields_in((await browser.get(PAGE)).text), "action": "accept"}


async def test_a_question_is_declined(tmp_path: Path) -> None:
    async with console(tmp_path, {"handy": Home(tmp_path).entry()}) as site:
        caller, asked = await parked(site, SOMEBODY)
        async with site.visit() as browser:
            assert await answer(browser, action="decline") == 303
        assert '"decline"' in await resumed(caller, asked)


async def test_another_key_sees_and_answers_no_question(tmp_path: Path) -> None:
    async with console(tmp_path, {"handy": Home(tmp_path).entry()}) as site:
        _, asked = await parked(site, SOMEBODY)
        [key] = asked["inputRequests"]
        async with site.visit() as owner:
            found = await form_of(owner)
        assert found["key"] == key
        async with site.visit("call") as other:
            assert "Who?" not in (await other.get(PAGE)).text
            assert await answer(other, id=found["id"], key=key) == 404
        async with site.visit("read") as reader:
            assert (await reader.get(PAGE)).status_code == 403
        assert len(site.serving.gateway.questions()) == 1


async def test_the_caller_itself_answers_and_sees_its_running_calls(tmp_path: Path) -> None:
    async with console(tmp_path, {"handy": Home(tmp_path).entry()}) as site:
        async with site.browser() as browser:
            secret = await anyio.to_thread.run_sync(site.key, "call")
            assert (await log_in(browser, secret)).status_code == 303
            assert site.keys is not None
            [key] = await anyio.to_thread.run_sync(site.keys.list)
            own = Principal(subject=f"pb_{key.id}", scopes=frozenset({"call"}))
            caller, asked = await parked(site, own)
            given = {"city": "Rome", "age": "1", "colour": '"red"'}
            assert await answer(browser, **given) == 303
        assert '"city": "Rome"' in await resumed(caller, asked)


async def test_calls_that_run_are_shown_to_operators_alone(tmp_path: Path) -> None:
    async with console(tmp_path, {"handy": Home(tmp_path).entry()}) as site:
        caller = Caller(site.serving.gateway, face=FULL, principal=SOMEBODY)
        async with (
            site.visit() as owner,
            site.visit("call") as other,
            anyio.create_task_group() as group,
        ):
            group.start_soon(caller.call, "mcp_handy_wait")
            with anyio.fail_after(20):
                while "mcp_handy_wait" not in (await owner.get(PAGE)).text:
                    pass
            assert "mcp_handy_wait" not in (await other.get(PAGE)).text
            group.cancel_scope.cancel()
        assert not site.serving.reporter.running
