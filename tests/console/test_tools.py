"""The page of a tool: its call by a form, questions, progress, results; and what is hostile."""

import json
from typing import Any

import anyio
import mcp_types as types
from mcp.server import Server, ServerRequestContext

from pegboard.config import ServerConfig
from pegboard.model import Tool
from tests.console.served_tools import PageRead, ToolSite, address, site
from tests.gateway.servers import Stall
from tests.upstream.board_servers import Bench, memory

PIXEL = "R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="
SCRIPT = "</pre></textarea><script>alert(1)</script><img src=x onerror=alert(1)>"
HIDDEN = "\u202egnp\u202c\u200b"
ODD = 'a/b "c" <script>\'?#%2F'


def result(*content: Any, **fields: Any) -> types.CallToolResult:
    return types.CallToolResult.model_validate({"content": list(content), **fields})


def bench(name: str = "s", schemas: dict[str, Any] | None = None, **tools: Any) -> ServerConfig:
    made = Bench(**tools)
    made.schemas |= schemas or {}
    return memory(name, made)


async def only_tool(seen: ToolSite) -> str:
    return next(it.name for it in seen.hub.registry.tools())


def is_harmless(page: PageRead) -> bool:
    """Tell whether a page has no element, handler or address of a definition or a result."""
    scripts = page.values("script", "src")
    handlers = [name for _, it in page.elements for name in it if name.startswith("on")]
    styles = [it for _, it in page.elements if "style" in it]
    sources = [it for it in page.values("img", "src") if not it.startswith("/console/")]
    return (
        len(scripts) == sum(tag == "script" for tag, _ in page.elements)
        and all(it.startswith("/console/static/") for it in scripts)
        and not (handlers or styles or sources)
        and "\u202e" not in page.html
        and "\u200b" not in page.html
    )


async def test_a_form_calls_a_tool_with_nested_arguments() -> None:
    schema = {
        "type": "object",
        "properties": {
            "who": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
            },
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
        },
    }
    config = bench(schemas={"echo": schema}, echo=json.dumps)
    async with site(config) as seen:
        tool = await only_tool(seen)
        more = await seen.send(tool, do="add f/tags")
        assert "f/tags/0" in more.controls
        assert "result" not in more.values("section", "id")
        fields = {"f/who/name": "Ann", "f/who/age": "7", "f/tags/0": '"b"'}
        page = await seen.send(tool, **fields)
        given = {"who": {"name": "Ann", "age": 7}, "tags": ["b"]}
        assert json.dumps(given) in page.text
        assert f"pegboard call {tool} --args '{json.dumps(given)}'" in page.text
        program = page.text[page.text.index("import asyncio") :]
        compile(program[: program.index("asyncio.run(main())")], "copied", "exec")
        raw = await seen.send(tool, raw='{"who": {"age": 1}}')
        assert '{"who": {"age": 1}}' in raw.text
        wrong = await seen.send(tool, **{"f/who/age": "seven"})
        assert "f/who/age" in [it["name"] for _, it in wrong.elements if "aria-invalid" in it]
        as_json = await seen.send(tool, do="json", **fields)
        assert json.loads(as_json.controls["raw"]) == given
        back = await seen.send(tool, do="form", raw=as_json.controls["raw"])
        assert (back.controls["f/who/name"], back.controls["raw"]) == ("Ann", "")


async def test_a_form_of_another_session_calls_nothing() -> None:
    made = Bench(echo=lambda _: "done")
    async with site(memory("s", made)) as seen:
        sent = {"csrf": "other", "f": "1", "do": "call"}
        response = await seen.browser.post(address(await only_tool(seen)), data=sent)
        assert (response.status_code, made.calls) == (403, [])


async def test_questions_of_a_server_are_answered_on_the_page() -> None:
    stall = Stall()
    stall.asks = 2
    async with site(stall.config("s", protocol="legacy")) as seen:
        page = await seen.send("mcp_s_ask")
        assert "Word 0?" in page.text
        answer = {"state": page.controls["state"], "do": "accept", "q0/word": "one"}
        page = await seen.send("mcp_s_ask", **answer)
        assert "Word 1?" in page.text
        page = await seen.send("mcp_s_ask", state=page.controls["state"], do="decline")
        assert "accept:one decline:None" in page.text


async def test_a_question_of_a_modern_server_is_answered_on_the_page() -> None:
    async def call(context: ServerRequestContext[Any], params: Any) -> dict[str, Any]:
        if params.input_responses is None:
            schema = {"type": "object", "properties": {"n": {"type": "integer", "default": 4}}}
            asked = {"message": SCRIPT, "mode": "form", "requestedSchema": schema}
            question = {"method": "elicitation/create", "params": asked}
            kept = {"inputRequests": {"k": question}, "requestState": "line\r\nline\n\u200b"}
            return {"resultType": "input_required", **kept}
        response = params.input_responses["k"]
        said = f"{params.request_state!r} {response.content}"
        return {"resultType": "complete", "content": [{"type": "text", "text": said}]}

    async def listed(_: Any, __: Any) -> dict[str, Any]:
        tools = [{"name": "ask", "inputSchema": {"type": "object"}}]
        hints = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
        return {"tools": tools, **hints}

    server: Any = Server("modern", version="1")
    server.add_request_handler("tools/list", types.PaginatedRequestParams, listed)
    server.add_request_handler("tools/call", types.CallToolRequestParams, call)
    config = ServerConfig(name="s", transport="memory", server=server, protocol="2026-07-28")
    async with site(config) as seen:
        page = await seen.send("mcp_s_ask")
        assert is_harmless(page)
        assert page.controls["q0/n"] == "4"
        answer = {"state": page.controls["state"], "do": "accept", "q0/n": "9"}
        page = await seen.send("mcp_s_ask", **answer)
        assert "'line\\r\\nline\\n\\u200b' {'n': 9}" in page.text


async def test_progress_and_the_result_come_as_a_stream() -> None:
    going_on = anyio.Event()
    made = Bench()

    async def work(_: Any) -> str:
        assert made.context is not None
        await made.context.session.report_progress(1, 2, "half")
        await going_on.wait()
        return "done"

    made.tools["work"] = work
    async with site(memory("s", made)) as seen:
        tool = await only_tool(seen)
        page = await seen.open(tool)
        sent = {"csrf": page.controls["csrf"], "f": "1", "do": "call"}
        head = {"accept": "text/event-stream"}
        with anyio.fail_after(5):
            async with seen.browser.stream("POST", address(tool), data=sent, headers=head) as told:
                text = ""
                async for part in told.aiter_text():
                    text += part
                    if "event: progress" in text:
                        going_on.set()
        assert '{"progress":1.0,"total":2.0,"message":"half"}' in text or '"half"' in text
        shown = json.loads(text.partition("event: result\ndata: ")[2])
        assert "done" in PageRead.of(shown).text


async def test_a_call_is_cancelled_when_its_page_leaves() -> None:
    started = anyio.Event()
    made = Bench()

    async def wait(_: Any) -> str:
        started.set()
        await anyio.sleep_forever()
        return ""

    made.tools["wait"] = wait
    async with site(memory("s", made)) as seen:
        tool = await only_tool(seen)
        sent = {"csrf": (await seen.open(tool)).controls["csrf"], "f": "1", "do": "call"}
        head = {"accept": "text/event-stream"}
        with anyio.fail_after(5):
            async with seen.browser.stream("POST", address(tool), data=sent, headers=head):
                await started.wait()
            await made.cancelled.wait()


async def test_results_are_tables_trees_and_images_apart_from_the_page() -> None:
    rows = [{"name": "a", "n": 1}, {"name": "b", "more": [1]}]

    async def report(_: Any) -> types.CallToolResult:
        image = {"type": "image", "data": PIXEL, "mimeType": "image/gif"}
        drawing = {"type": "image", "data": PIXEL, "mimeType": "image/svg+xml"}
        return result(image, drawing, structuredContent={"rows": rows})

    async with site(bench(report=report)) as seen:
        page = await seen.send(await only_tool(seen))
        assert [it.strip() for it in ("name", "n", "more")] == [
            it for it in ("name", "n", "more") if f'<th scope="col">{it}</th>' in page.html
        ]
        (source,) = [it for it in page.values("img", "src") if "/results/" in it]
        # Without the cookie.
        seen.browser.cookies.clear()
        image = await seen.browser.get(source)
        assert (image.status_code, image.headers["content-type"]) == (200, "image/gif")
        policies = image.headers.get_list("content-security-policy")
        assert "sandbox; default-src 'none'" in policies
        assert image.headers["x-content-type-options"] == "nosniff"
        assert (await seen.browser.get(f"{source}x")).status_code == 404


async def test_a_long_result_is_read_by_its_handle() -> None:
    text = "".join(f"line {at}\n" for at in range(10_000))
    async with site(bench(long=lambda _: text)) as seen:
        tool = await only_tool(seen)
        page = await seen.send(tool)
        assert "line 9999" not in page.text
        handle, offset = page.controls["handle"], page.controls["offset"]
        assert int(offset) > 0
        page = await seen.send(tool, do="read", handle=handle, grep="line 999.$")
        assert "line 9999" in page.text
        page = await seen.send(tool, do="read", handle=handle, offset=offset)
        assert int(page.controls["offset"]) > int(offset)
        page = await seen.send(tool, whole="1")
        assert "line 9999" in page.text


async def test_hostile_definitions_and_results_show_harmlessly() -> None:
    async def hostile(_: Any) -> types.CallToolResult:
        deep: Any = SCRIPT
        for _ in range(60):
            deep = {SCRIPT: [deep, HIDDEN]}
        link = {"type": "resource_link", "uri": "javascript:alert(1)", "name": SCRIPT}
        image = {"type": "image", "data": "%%%", "mimeType": f"image/png{SCRIPT}"}
        page = {"type": "image", "data": PIXEL, "mimeType": "text/html"}
        texts = [{"type": "text", "text": it} for it in (SCRIPT, HIDDEN, "x" * 300_000)]
        rows = [{SCRIPT: SCRIPT, HIDDEN: HIDDEN, **{str(it): it for it in range(99)}}] * 999
        wide = {"rows": rows, "deep": deep, "list": list(range(50_000))}
        return result(*texts, link, image, page, structuredContent=wide)

    properties = {
        SCRIPT: {"type": "string", "description": SCRIPT, "default": SCRIPT},
        HIDDEN: {"enum": [SCRIPT, HIDDEN]},
        "many": {"properties": {str(it): {} for it in range(5_000)}},
    }
    schema = {"type": "object", "properties": properties, "description": SCRIPT}
    async with site(bench(schemas={"hostile": schema}, hostile=hostile)) as seen:
        tool = await only_tool(seen)
        odd = Tool(name=ODD, description=SCRIPT + HIDDEN, input_schema=schema, server="s")
        seen.hub.registry.register(odd)
        for name in (tool, ODD):
            assert is_harmless(await seen.open(name))
        page = await seen.send(tool, whole="1", raw=json.dumps({SCRIPT: SCRIPT, HIDDEN: HIDDEN}))
        assert is_harmless(page)
        assert "alert(1)" in page.text
        assert len(page.html) < 3_000_000
        listed = PageRead.of((await seen.browser.get("/console/tools")).text)
        assert is_harmless(listed)
        assert address(ODD) in listed.values("a", "href")


async def test_a_tool_is_shown_as_each_model_sees_it() -> None:
    async with site(bench(look=lambda _: "")) as seen:
        page = await seen.open(await only_tool(seen))
        for name in ("/mcp-search", "/mcp-full", "openai()", "anthropic()", "gemini()"):
            assert name in page.text
        assert '"input_schema"' in page.text
