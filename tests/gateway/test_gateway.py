from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegboard.errors import ConfigError
from pegboard.gateway import Face, Gateway, GatewayOptions, RpcError
from pegboard.gateway.eras import for_client
from pegboard.upstream import Era
from tests.gateway.clients import FULL, Caller, text_of
from tests.gateway.servers import Stall, bench, hub
from tests.upstream.board_servers import Bench, memory

METHODS = {
    "server/discover": "modern",
    "subscriptions/listen": "modern",
    "ping": "legacy",
    "logging/setLevel": "legacy",
    "resources/subscribe": "legacy",
    "resources/unsubscribe": "legacy",
    "tools/list": "both",
    "tools/call": "both",
    "resources/list": "both",
    "resources/templates/list": "both",
    "resources/read": "both",
    "prompts/list": "both",
    "prompts/get": "both",
    "completion/complete": "both",
}


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_each_era_has_its_methods_and_not_those_of_the_other(era: Era) -> None:
    async with hub() as it, Gateway(it) as gateway:
        caller = Caller(gateway, era)
        for method, belongs in METHODS.items():
            if belongs not in (era, "both"):
                with pytest.raises(RpcError) as caught:
                    await caller.send(method)
                assert caught.value.code == -32601
        for nonsense in ("", "tools", "tools/List", "__class__", "initialize", "x" * 100_000):
            with pytest.raises(RpcError) as caught:
                await caller.send(nonsense)
            assert caught.value.code == -32601


async def test_a_modern_client_discovers_what_the_gateway_can_do() -> None:
    async with hub() as it, Gateway(it) as gateway:
        found = await Caller(gateway).send("server/discover")
        assert found["supportedVersions"] == ["2026-07-28"]
        assert found["capabilities"]["resources"] == {"listChanged": True, "subscribe": True}
        assert found["instructions"] == gateway.instructions
        assert found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "pegboard"
        assert (found["resultType"], found["cacheScope"]) == ("complete", "private")
        assert "instructions" not in await Caller(gateway, face=FULL).send("server/discover")
        assert gateway.instructions_for(Face(surface="full")) == ""
        assert "completions" not in gateway.capabilities("2024-11-05")
        assert await Caller(gateway, "legacy").send("ping") == {}


async def test_draining_waits_for_what_is_under_way_and_refuses_the_rest() -> None:
    started, go_on = anyio.Event(), anyio.Event()

    async def wait() -> str:
        started.set()
        await go_on.wait()
        return "done"

    results: list[dict[str, Any]] = []
    async with hub(bench("calc", wait=lambda _: wait())) as it, Gateway(it) as gateway:
        caller = Caller(gateway, face=FULL)

        async def call() -> None:
            results.append(await caller.call("mcp_calc_wait"))

        assert gateway.is_ready
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(call)
                await started.wait()
                group.start_soon(gateway.drain, 5)
                await anyio.wait_all_tasks_blocked()
                assert not gateway.is_ready
                with pytest.raises(RpcError):
                    await caller.names()
                go_on.set()
        assert text_of(results[0]) == "done"


async def test_draining_does_not_wait_for_ever_and_cuts_off_what_runs_on() -> None:
    started, told = anyio.Event(), list[str]()

    async def wait() -> str:
        started.set()
        await anyio.sleep_forever()
        return "never"

    async with hub(bench("calc", wait=lambda _: wait())) as it, Gateway(it) as gateway:

        async def call() -> None:
            with pytest.raises(RpcError) as caught:
                await Caller(gateway, face=FULL).call("mcp_calc_wait")
            told.append(caught.value.message)

        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(call)
                await started.wait()
                await gateway.drain(0.01)
        assert gateway.busy == 0
    assert "it may have run all the same" in told[0]


async def test_a_gateway_that_is_not_open_answers_nothing() -> None:
    async with hub() as it:
        gateway = Gateway(it)
        caller = Caller(gateway)
        assert not gateway.is_ready
        with pytest.raises(RpcError):
            await caller.names()
        gateway.connected(caller.client, caller.wire)
        gateway.disconnected("")
        async with gateway:
            assert await caller.names()
        with pytest.raises(RpcError):
            await caller.names()


async def test_what_is_raised_inside_comes_out_as_it_is() -> None:
    async with hub() as it:
        with pytest.raises(LookupError):
            async with Gateway(it):
                raise LookupError


async def test_a_gateway_serves_before_its_hub_is_up() -> None:
    it = hub(bench("calc", echo=str))
    async with Gateway(it) as gateway:
        caller = Caller(gateway, face=FULL)
        assert await caller.names() == []
        async with it:
            assert await caller.names() == ["mcp_calc_echo"]


@pytest.mark.parametrize("protocol", ["auto", "legacy"])
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_progress_goes_to_those_who_asked_for_it(era: Era, protocol: str) -> None:
    made = Bench()

    async def work() -> str:
        context: Any = made.context
        await context.session.report_progress(1, total=2, message="half")
        return "done"

    made.tools["work"] = lambda _: work()
    async with hub(memory("calc", made, protocol=protocol)) as it, Gateway(it) as gateway:
        caller = Caller(gateway, era, face=FULL)
        await caller.call("mcp_calc_work")
        assert caller.wire.sent == []
        meta = {"progressToken": "t-1"}
        await caller.send("tools/call", name="mcp_calc_work", arguments={}, _meta=meta)
        sent = {"progressToken": "t-1", "progress": 1, "total": 2, "message": "half"}
        assert await caller.wire.next("notifications/progress") == sent


async def test_levels_are_those_of_the_protocol_and_of_one_session() -> None:
    async with hub() as it, Gateway(it) as gateway:
        caller = Caller(gateway, "legacy")
        gateway.connected(caller.client, caller.wire)
        assert await caller.send("logging/setLevel", level="error") == {}
        for nonsense in ("loud", None, 3, ["error"]):
            with pytest.raises(RpcError) as caught:
                await caller.send("logging/setLevel", level=nonsense)
            assert caught.value.code == -32602


async def test_changed_roots_are_told_to_servers_that_a_client_has_for_itself() -> None:
    config = Stall().config("a", protocol="legacy", sharing="per_client")
    async with hub(config) as it, Gateway(it) as gateway:
        caller = Caller(gateway, "legacy", roots={"listChanged": True})
        await gateway.notified(caller.exchange("notifications/roots/list_changed"))
        await gateway.notified(caller.exchange("notifications/initialized"))


async def test_arguments_that_are_nested_too_deeply_harm_no_other_request() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100_000):
        deep = {"a": deep}
    async with hub(bench("calc", echo=lambda _: "fine")) as it, Gateway(it) as gateway:
        for era in ("modern", "legacy"):
            caller = Caller(gateway, era, face=FULL, elicitation={})
            try:
                result = await caller.send("tools/call", name="mcp_calc_echo", arguments=deep)
            except RpcError as error:
                assert error.code == -32602  # noqa: PT017 - either form is a refusal
            else:
                assert result["isError"]
            assert text_of(await caller.call("mcp_calc_echo")) == "fine"
    while deep:
        deep = deep["a"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        *("name", "arguments", "cursor", "uri", "ref", "argument", "level", "_meta"),
        *("inputResponses", "requestState", "task", "query"),
    ]
)
SENT = st.dictionaries(
    FIELDS, JSON | st.sampled_from(["search_tools", "mcp_calc_echo", "call_tool"])
)


@given(
    requests=st.lists(
        st.tuples(
            st.sampled_from([it for it in METHODS if it != "subscriptions/listen"]),
            SENT,
            st.sampled_from(["modern", "legacy"]),
            st.booleans(),
        ),
        max_size=20,
    )
)
@settings(max_examples=25)
@pytest.mark.covers("R-REG-35", "R-REG-36")
def test_nothing_that_can_be_sent_is_answered_with_anything_but_a_result_or_an_error(
    requests: list[tuple[str, dict[str, Any], Era, bool]],
) -> None:
    async def send_all() -> None:
        configs = (bench("calc", echo=lambda _: "fine"), Stall().config("a"))
        async with hub(*configs) as it, Gateway(it) as gateway:
            for method, params, era, is_full in requests:
                caller = Caller(gateway, era, face=FULL if is_full else None, elicitation={})
                try:
                    result = await caller.send(method, **params)
                except RpcError as error:
                    assert error.code < 0  # noqa: PT017 - the other outcome is a result
                else:
                    assert ("resultType" in result) == (era == "modern")

    anyio.run(send_all)


def test_older_versions_get_no_blocks_that_they_do_not_know() -> None:
    result = {
        "content": [
            {"type": "resource_link", "uri": "x://y", "name": "y"},
            {"type": "audio", "data": "", "mimeType": "audio/wav"},
            {"type": "text", "text": "t"},
            "nonsense",
        ],
        "structuredContent": [1],
        "resultType": "complete",
        "_meta": {"io.modelcontextprotocol/serverInfo": {}, "kept": 1},
    }
    gateway: Any = None
    for version, kinds in {
        "2024-11-05": ["text", "text", "text"],
        "2025-03-26": ["text", "audio", "text"],
        "2025-06-18": ["resource_link", "audio", "text"],
    }.items():
        client = Caller(gateway, "legacy", version=version).client
        shaped = for_client(result, client, method="tools/call", info={})
        assert [block["type"] for block in shaped["content"][:3]] == kinds
        assert shaped.keys() == {"content", "_meta"}
        assert shaped["_meta"] == {"kept": 1}


def test_results_of_the_modern_era_say_how_long_they_are_good() -> None:
    gateway: Any = None
    client = Caller(gateway).client
    info = {"name": "us"}
    upstream = {"contents": [], "ttlMs": 5, "_meta": {"io.modelcontextprotocol/serverInfo": {}}}
    shaped = for_client(upstream, client, method="resources/read", info=info)
    assert (shaped["ttlMs"], shaped["cacheScope"]) == (5, "private")
    assert shaped["_meta"] == {"io.modelcontextprotocol/serverInfo": info}
    asked = {"resultType": "input_required", "inputRequests": {}}
    assert "ttlMs" not in for_client(asked, client, method="resources/read", info=info)


@pytest.mark.parametrize(
    "field", ["page_size", "list_seconds", "open_tenants", "result_cache_bytes"]
)
def test_limits_that_make_no_sense_are_refused(field: str) -> None:
    with pytest.raises((ConfigError, msgspec.ValidationError), match=field):
        msgspec.convert({field: 0}, GatewayOptions, strict=False)
    assert GatewayOptions(ttl_ms=0).ttl_ms == 0
