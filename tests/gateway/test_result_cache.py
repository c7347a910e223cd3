import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard import Registry
from pegboard.errors import HandleNotFoundError
from pegboard.gateway import Face, Gateway, GatewayOptions
from pegboard.gateway.calls.json_path import select
from pegboard.gateway.calls.result_cache import ResultCache
from pegboard.gateway.tools.read_result import _lines  # pyright: ignore[reportPrivateUsage]
from pegboard.model import Image, Text, Tool, ToolResult
from pegboard.model.principal import Principal
from pegboard.upstream import Era
from tests.gateway.clients import FULL, Caller, text_of
from tests.gateway.servers import bench, hub
from tests.upstream.board_servers import Bench, memory

TOOL = Tool(name="t")
LONG = "\n".join(f"line {number}: äöü 漢字" for number in range(2000))
ROWS = {"rows": [{"id": number, "name": f"row {number}"} for number in range(500)]}


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def result_cache_of(
    clock: Clock | None = None, *, each: int = 5, most: int = 10_000
) -> ResultCache:
    return ResultCache(seconds=60, each=each, most=most, now=clock or Clock())


def said(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def handle_in(result: dict[str, Any]) -> str:
    return text_of(result).rpartition('handle="')[2].partition('"')[0]


async def pages_of(caller: Caller, handle: str, **selection: Any) -> str:
    """Read everything there is, page by page."""
    whole = ""
    while True:
        result = await caller.call("read_result", handle=handle, offset=len(whole), **selection)
        page, note = (block["text"] for block in result["content"])
        whole += page
        if "this is the end" in note or not page:
            return whole


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_result_that_is_too_large_is_cut_and_can_be_read_to_its_end(era: Era) -> None:
    async with hub(bench("calc", big=lambda _: LONG)) as it, Gateway(it) as gateway:
        caller = Caller(gateway, era)
        result = await caller.call("call_tool", name="mcp_calc_big")
        preview, note = (block["text"] for block in result["content"])
        assert preview == LONG[:5000]
        assert note.startswith(f"[Cut: 5000 of {len(LONG)} characters are shown.")
        assert await pages_of(caller, handle_in(result)) == LONG


async def test_the_limit_is_that_of_the_server() -> None:
    made = Bench(big=lambda _: "x" * 100)
    async with hub(memory("calc", made, max_result_chars=10)) as it, Gateway(it) as gateway:
        result = await Caller(gateway).call("call_tool", name="mcp_calc_big")
        assert result["content"][0]["text"] == "x" * 10


async def test_on_the_full_surface_results_are_whole_unless_the_operator_says_otherwise() -> None:
    async with hub(bench("calc", big=lambda _: LONG)) as it:
        async with Gateway(it) as gateway:
            result = await Caller(gateway, face=FULL).call("mcp_calc_big")
            assert text_of(result) == LONG
        async with Gateway(it, GatewayOptions(result_cache_on_full=True)) as gateway:
            caller = Caller(gateway, face=FULL)
            assert await caller.names() == ["read_result", "mcp_calc_big"]
            result = await caller.call("mcp_calc_big")
            assert await pages_of(caller, handle_in(result)) == LONG


async def test_json_is_read_by_path_and_lines_by_words() -> None:
    registry = Registry()

    @registry.register
    async def rows() -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return ROWS

    async with hub(registry=registry) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        result = await caller.call("call_tool", name="rows")
        assert "structuredContent" not in result
        handle = handle_in(result)

        async def read(**selection: Any) -> str:
            return (await caller.call("read_result", handle=handle, **selection))["content"][0][
                "text"
            ]

        assert await read(path="rows[3].name") == "row 3"
        assert json.loads(await read(path="$.rows[-2:]")) == ROWS["rows"][-2:]
        assert json.loads(await pages_of(caller, handle, path="$")) == ROWS
        found = await read(path="rows[0:20]", grep="row 1[0-9]")
        assert len(found.splitlines()) == 10
        for wrong in ("rows[900]", "rows.name", "nothing", "rows[", "rows[0].id.x"):
            refused = await caller.call("read_result", handle=handle, path=wrong)
            assert refused["isError"]
        refused = await caller.call("read_result", handle=handle, path="rows[0][3]")
        assert "no '[3]' at $.rows[0], which is an object with: id, name." in text_of(refused)
        assert (await caller.call("read_result", handle=handle, grep="("))["isError"]
        beyond = await caller.call("read_result", handle=handle, offset=10**9)
        assert "nothing at" in text_of(beyond)


@pytest.mark.parametrize("text", ["", "see the rows"])
async def test_words_are_found_in_structured_content_that_the_text_does_not_say(text: str) -> None:
    registry = Registry()

    @registry.register
    async def rows() -> ToolResult:  # pyright: ignore[reportUnusedFunction]
        return ToolResult(content=(Text(text=text),), structured_content=ROWS)

    async with hub(registry=registry) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        handle = handle_in(await caller.call("call_tool", name="rows"))
        found = (await pages_of(caller, handle, grep="row 19\\b|see")).splitlines()
        assert found[-1].endswith('"name": "row 19"')
        assert len(found) == 1 + bool(text)


async def test_text_that_is_no_json_has_no_paths() -> None:
    async with hub(bench("calc", big=lambda _: LONG)) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        handle = handle_in(await caller.call("call_tool", name="mcp_calc_big"))
        refused = await caller.call("read_result", handle=handle, path="a")
        assert refused["isError"]
        assert "not JSON" in text_of(refused)
        found = await caller.call("read_result", handle=handle, grep="line 19{2}9:")
        assert found["content"][0]["text"] == "2000: line 1999: äöü 漢字"
        none = await caller.call("read_result", handle=handle, grep="zebra")
        assert (
            none["content"][1]["text"]
            == f"[No line matches; the result has {len(LONG)} characters.]"
        )


async def test_images_pass_and_failures_stay_failures() -> None:
    registry = Registry()

    @registry.register
    async def mixed() -> ToolResult:  # pyright: ignore[reportUnusedFunction]
        picture = Image(data="A" * 100_000, mime_type="image/png")
        return ToolResult(content=(Text(text=LONG), picture), is_error=True)

    async with hub(registry=registry) as it, Gateway(it) as gateway:
        result = await Caller(gateway).call("call_tool", name="mixed")
        assert result["isError"]
        assert [block["type"] for block in result["content"]] == ["text", "text", "image"]


@pytest.mark.covers("R-REG-39")
async def test_a_handle_is_good_for_its_caller_only() -> None:
    async with hub(bench("calc", big=lambda _: LONG)) as it, Gateway(it) as gateway:
        handle = handle_in(await Caller(gateway).call("call_tool", name="mcp_calc_big"))
        other = Principal(subject="other", scopes=frozenset({"call"}))
        refused = await Caller(gateway, principal=other).call("read_result", handle=handle)
        made_up = await Caller(gateway).call("read_result", handle="r_nothing")
        assert refused["isError"]
        assert text_of(refused).partition(":")[2] == text_of(made_up).partition(":")[2]


def test_structured_content_that_says_more_than_the_text_is_kept_beside_it() -> None:
    result_cache = result_cache_of(most=100_000)
    result = {**said("done"), "structuredContent": ROWS}
    short = result_cache.shortened(result, owner=("o",), tool=TOOL, limit=100)
    assert "structuredContent" not in short
    assert short["content"][0]["text"] == "done"
    kept = result_cache.find(handle_in(short), owner=("o",))
    assert (kept.text(), kept.data()) == ("done", ROWS)


def test_the_same_said_twice_counts_once() -> None:
    data = {"a": "x" * 60}
    result = {**said(json.dumps(data)), "structuredContent": data}
    assert result_cache_of().shortened(result, owner=("o",), tool=TOOL, limit=100) is result


def test_results_expire_and_the_oldest_make_room() -> None:
    clock = Clock()
    result_cache = result_cache_of(clock, each=2, most=1000)

    def keep(owner: str, size: int = 300) -> str:
        return handle_in(
            result_cache.shortened(said("x" * size), owner=(owner,), tool=TOOL, limit=10)
        )

    first, second, third = keep("a"), keep("a"), keep("a")
    with pytest.raises(HandleNotFoundError):
        result_cache.find(first, owner=("a",))
    fourth = keep("b", 500)
    with pytest.raises(HandleNotFoundError):
        result_cache.find(second, owner=("a",))
    assert result_cache.find(third, owner=("a",)).size == 300
    assert result_cache.find(fourth, owner=("b",)).size == 500
    clock.now = 61
    for handle, owner in ((third, "a"), (fourth, "b")):
        with pytest.raises(HandleNotFoundError):
            result_cache.find(handle, owner=(owner,))
    assert len(result_cache) == 0
    result = result_cache.shortened(said("x" * 5000), owner=("a",), tool=TOOL, limit=10)
    assert "too large to be kept" in text_of(result)


@given(
    texts=st.lists(st.text(max_size=50), max_size=5),
    limit=st.integers(1, 60),
    page=st.integers(1, 40),
)
def test_pages_put_together_are_the_whole(texts: list[str], limit: int, page: int) -> None:
    result_cache = result_cache_of(most=100_000)
    blocks = [{"type": "text", "text": text} for text in texts]
    result = result_cache.shortened({"content": blocks}, owner=("o",), tool=TOOL, limit=limit)
    whole = "\n".join(texts)
    if len(whole) <= limit:
        assert result == {"content": blocks}
        return
    kept = result_cache.find(handle_in(result), owner=("o",)).text()
    assert "".join(kept[start : start + page] for start in range(0, len(kept), page)) == whole
    assert result["content"][0]["text"] == whole[:limit]


KEYS = st.text(st.characters(exclude_characters="\"'.[]$", exclude_categories=["Cs"]), min_size=1)


@given(st.recursive(st.integers(), lambda it: st.dictionaries(KEYS, it) | st.lists(it)))
def test_every_part_of_a_value_has_a_path(value: Any) -> None:
    def walk(part: Any, path: str) -> None:
        assert select(value, path) == part
        if isinstance(part, dict):
            for key, inner in part.items():  # pyright: ignore[reportUnknownVariableType]
                walk(inner, f'{path}["{key}"]')
        elif isinstance(part, list):
            for index, inner in enumerate(part):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
                walk(inner, f"{path}[{index}]")

    walk(value, "$")


def test_a_caller_with_few_results_keeps_them_whatever_others_do() -> None:
    result_cache = result_cache_of(each=50, most=10_000)

    def keep(owner: str, size: int) -> str:
        return handle_in(
            result_cache.shortened(said("x" * size), owner=(owner,), tool=TOOL, limit=10)
        )

    few = keep("b", 100)
    for _ in range(10):
        keep("a", 5000)
        keep("c", 5000)
    assert result_cache.find(few, owner=("b",)).size == 100
    assert len(result_cache) == 2


def test_no_caller_has_more_than_half_of_the_result_cache() -> None:
    result = result_cache_of(most=10_000).shortened(
        said("x" * 5001), owner=("a",), tool=TOOL, limit=10
    )
    assert "too large to be kept" in text_of(result)


def test_what_is_kept_counts_in_bytes() -> None:
    result_cache = result_cache_of(most=10_000)
    kept = handle_in(result_cache.shortened(said("漢" * 100), owner=("a",), tool=TOOL, limit=10))
    assert result_cache.find(kept, owner=("a",)).size == 300
    result = {"content": [], "structuredContent": {"rows": [{}] * 1000}}
    kept = handle_in(result_cache.shortened(result, owner=("a",), tool=TOOL, limit=10))
    assert result_cache.find(kept, owner=("a",)).size == len('{"rows":[') + 1000 * 3 - 1 + len("]}")
    assert json.loads(result_cache.find(kept, owner=("a",)).text()) == {"rows": [{}] * 1000}


async def test_a_search_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pegboard.gateway.tools.read_result._SECONDS", 0.05)
    async with hub(bench("calc", big=lambda _: "a" * 1_000_000)) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        handle = handle_in(await caller.call("call_tool", name="mcp_calc_big"))
        refused = await caller.call("read_result", handle=handle, grep="(.?){500}a{500}b")
        assert refused["isError"]
        assert "make it simpler" in text_of(refused)


async def test_in_long_lines_nothing_is_missed_between_two_pieces() -> None:
    line = "." * 2040 + "needle" * 2 + "." * 8180 + "thread"
    async with hub(bench("calc", big=lambda _: line)) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        handle = handle_in(await caller.call("call_tool", name="mcp_calc_big"))
        for words in ("needleneedle", r"\.thread$", "^[.]+needle"):
            found = await pages_of(caller, handle, grep=words)
            assert found == f"1: {line}"
        assert await pages_of(caller, handle, grep="needlethread") == ""


async def test_whole_numbers_may_be_written_with_a_point() -> None:
    async with hub(bench("calc", big=lambda _: LONG)) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        handle = handle_in(await caller.call("call_tool", name="mcp_calc_big"))
        page = await caller.call("read_result", handle=handle, offset=5000.0)
        assert page["content"][0]["text"] == LONG[5000:10_000]
        assert "offset=10000 goes on" in text_of(page)
        found = await caller.call("search_tools", query="big", limit=3.0)
        assert "mcp_calc_big" in text_of(found)
        listed = await caller.call("list_tools_by_category", category="calc", limit=1.0)
        assert "mcp_calc_big" in text_of(listed)
        assert (await caller.call("read_result", handle=handle, offset=0.5))["isError"]


async def test_json_of_too_many_values_is_read_by_place_or_by_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pegboard.gateway.tools.read_result._MOST_VALUES", 1000)
    registry = Registry()

    @registry.register
    async def rows() -> ToolResult:  # pyright: ignore[reportUnusedFunction]
        return ToolResult(content=(Text(text="done"),), structured_content=ROWS)

    calc = bench("calc", text=lambda _: json.dumps(ROWS))
    async with hub(calc, registry=registry) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        handle = handle_in(await caller.call("call_tool", name="rows"))
        refused = text_of(await caller.call("read_result", handle=handle, path="rows[0]"))
        assert 'more than 1000 values; read it with path="$" by offset or grep' in refused
        assert json.loads(await pages_of(caller, handle, path="$")) == ROWS
        handle = handle_in(await caller.call("call_tool", name="mcp_calc_text"))
        refused = text_of(await caller.call("read_result", handle=handle, path="$"))
        assert "more than 1000 values; read it by offset or grep" in refused
        assert json.loads(await pages_of(caller, handle)) == ROWS


async def test_json_with_numbers_that_take_long_to_decode_is_read_by_place_or_by_words() -> None:
    slow = "[" + "1e300," * 5_000 + "1]"
    async with hub(bench("calc", text=lambda _: slow)) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        handle = handle_in(await caller.call("call_tool", name="mcp_calc_text"))
        refused = text_of(await caller.call("read_result", handle=handle, path="[0]"))
        assert "numbers that take long to read; read it by offset or grep" in refused
        assert await pages_of(caller, handle) == slow


async def test_a_search_looks_no_further_than_its_page() -> None:
    async with hub(bench("calc", big=lambda _: LONG)) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        handle = handle_in(await caller.call("call_tool", name="mcp_calc_big"))
        page = await caller.call("read_result", handle=handle, grep="line")
        assert page["content"][1]["text"] == "[Characters 0 to 5000; offset=5000 goes on.]"
        hits = [f"{number}: {line}" for number, line in enumerate(LONG.splitlines(), 1)]
        assert await pages_of(caller, handle, grep="line") == "\n".join(hits)


@given(text=st.text(st.sampled_from("ab\n\r\x0b\u2028 "), max_size=30))
def test_lines_are_given_one_by_one_and_are_those_of_the_text(text: str) -> None:
    assert list(_lines(text)) == text.splitlines()


def test_of_embedded_resources_it_stays_known_which_they_are() -> None:
    result_cache = result_cache_of(most=100_000)
    resource = {"uri": "file:///a.md", "mimeType": "text/markdown", "text": "a" * 100}
    blocks = [{"type": "resource", "resource": resource}, {"type": "text", "text": "b" * 100}]
    result = result_cache.shortened({"content": blocks}, owner=("o",), tool=TOOL, limit=50)
    assert text_of(result).startswith("[Resource file:///a.md text/markdown]\naaa")
    kept = result_cache.find(handle_in(result), owner=("o",)).text().splitlines()
    assert kept == ["[Resource file:///a.md text/markdown]", "a" * 100, "b" * 100]


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_where_results_may_be_cut_no_tool_promises_structured_content(era: Era) -> None:
    """Clients refuse a result without it of a tool that was listed with an output schema."""
    registry = Registry()

    @registry.register
    async def rows() -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return ROWS

    pinned, result_caches = (
        GatewayOptions(pinned=("rows",)),
        GatewayOptions(result_cache_on_full=True),
    )
    async with hub(registry=registry) as it:
        for options, face, promises in (
            (GatewayOptions(), FULL, True),
            (pinned, Face(), False),
            (result_caches, FULL, False),
        ):
            async with Gateway(it, options) as gateway:
                caller = Caller(gateway, era, face=face)
                listed = (await caller.send("tools/list"))["tools"]
                assert ("outputSchema" in listed[-1], listed[-1]["name"]) == (promises, "rows")
                assert ("structuredContent" in await caller.call("rows")) is promises
        async with Gateway(it, pinned) as gateway:
            shown = await Caller(gateway, era).call("get_tool_definition", tool_name="rows")
            assert "outputSchema" in json.loads(text_of(shown))


def test_of_structured_content_that_is_not_shown_the_model_is_told() -> None:
    result_cache = result_cache_of(most=100_000)
    data = {"rows": [1, 2, 3] * 100}
    other = {**said("summary " * 100), "structuredContent": data}
    note = result_cache.shortened(other, owner=("o",), tool=TOOL, limit=100)["content"][-1]["text"]
    assert note.startswith(
        "[Cut: 100 of 800 characters are shown. Structured content of 610 characters is not shown; "
        'path="$" shows it. Everything is kept'
    )
    same = {**said(json.dumps(data)), "structuredContent": data}
    note = result_cache.shortened(same, owner=("o",), tool=TOOL, limit=100)["content"][-1]["text"]
    assert "Structured content" not in note
    wrapped = {**said("ä" * 800), "structuredContent": {"result": "ä" * 800}}
    note = result_cache.shortened(wrapped, owner=("o",), tool=TOOL, limit=100)["content"][-1][
        "text"
    ]
    assert "Structured content" not in note
    large = {**said("x" * 100_000), "structuredContent": data}
    note = result_cache.shortened(large, owner=("o",), tool=TOOL, limit=100)["content"][-1]["text"]
    assert "is not shown. The rest is too large to be kept" in note


def test_json_that_came_as_a_resource_is_read_by_path() -> None:
    result_cache = result_cache_of(most=100_000)
    resource = {"uri": "a://ü", "mimeType": "application/json", "text": json.dumps(ROWS)}
    blocks = [{"type": "resource", "resource": resource}]
    result = result_cache.shortened({"content": blocks}, owner=("o",), tool=TOOL, limit=100)
    kept = result_cache.find(handle_in(result), owner=("o",))
    assert kept.data() == ROWS
    assert kept.text() == f"[Resource a://ü application/json]\n{json.dumps(ROWS)}"
