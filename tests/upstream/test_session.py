import threading
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as types
import pytest
from anyio import create_task_group
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged

from pegboard import (
    Other,
    ProtocolError,
    ServerConfig,
    ServerState,
    ServerTimeoutError,
    Text,
    UpstreamError,
)
from pegboard.model.result import result_of
from tests.upstream.board_servers import OPEN, Bench, hub_of, limits, memory, until

QUESTION = types.ElicitRequestFormParams(
    message="Which city?",
    requested_schema={"type": "object", "properties": {"city": {"type": "string"}}},
)


async def answer(server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    assert (server, params["message"]) == ("asking", "Which city?")
    return {"action": "accept", "content": {"city": "Oslo"}}


async def decline(server: str, params: Mapping[str, Any]) -> None:
    return None


def one_tool(on_call: Any, **options: Any) -> Server[Any]:
    async def on_list(*_: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[types.Tool(name="go", input_schema=OPEN)])

    return Server("asking", on_list_tools=on_list, on_call_tool=on_call, **options)


def text(words: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=words)])


async def push_question(
    context: ServerRequestContext[Any], params: types.CallToolRequestParams
) -> types.CallToolResult:
    reply = await context.session.elicit_form(QUESTION.message, QUESTION.requested_schema)
    return text(f"{reply.action}: {(reply.content or {}).get('city')}")


async def return_question(
    context: ServerRequestContext[Any], params: types.CallToolRequestParams
) -> types.CallToolResult | types.InputRequiredResult:
    if params.input_responses:
        reply = params.input_responses["city"]
        assert isinstance(reply, types.ElicitResult)
        assert params.request_state == "half-way"
        return text(f"{reply.action}: {(reply.content or {}).get('city')}")
    return types.InputRequiredResult(
        input_requests={"city": types.ElicitRequest(params=QUESTION)}, request_state="half-way"
    )


@pytest.mark.parametrize(
    ("protocol", "on_call"), [("legacy", push_question), ("auto", return_question)]
)
async def test_a_question_in_mid_call_is_answered_in_both_eras(protocol: Any, on_call: Any) -> None:
    config = ServerConfig(
        name="asking", transport="memory", server=one_tool(on_call), protocol=protocol
    )
    async with hub_of(config, elicitation=answer) as hub:
        assert (await hub.call("mcp_asking_go")).text() == "accept: Oslo"


async def test_a_question_that_nobody_answers_is_an_error_and_not_a_hang() -> None:
    config = ServerConfig(name="asking", transport="memory", server=one_tool(return_question))
    async with hub_of(config) as hub:
        with pytest.raises(ProtocolError):
            await hub.call("mcp_asking_go")


@pytest.mark.parametrize(
    ("protocol", "on_call"), [("legacy", push_question), ("auto", return_question)]
)
async def test_no_answer_declines_as_the_protocol_says(protocol: Any, on_call: Any) -> None:
    config = ServerConfig(
        name="asking", transport="memory", server=one_tool(on_call), protocol=protocol
    )
    async with hub_of(config, elicitation=decline) as hub:
        assert (await hub.call("mcp_asking_go")).text() == "decline: None"


async def test_a_plain_function_answers_in_a_thread_and_may_wait() -> None:
    told = threading.Event()

    def answer_slowly(server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        assert told.wait(5)
        return {"action": "accept", "content": {"city": f"{server} {params['message']}"}}

    config = ServerConfig(name="asking", transport="memory", server=one_tool(return_question))
    other = memory("other", Bench(tell=lambda _: str(told.set())))
    async with (
        hub_of(config, other, elicitation=answer_slowly) as hub,
        create_task_group() as group,
    ):
        # The one that waits does not keep the other from being called.
        group.start_soon(hub.call, "mcp_other_tell")
        assert (await hub.call("mcp_asking_go")).text() == "accept: asking Which city?"


@pytest.mark.parametrize("wrong", [{"city": "Oslo"}, "Oslo", 7])
async def test_an_answer_of_the_wrong_shape_says_what_to_return(
    wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    config = ServerConfig(name="asking", transport="memory", server=one_tool(return_question))
    async with hub_of(config, elicitation=lambda *_: wrong) as hub:
        with pytest.raises(ProtocolError, match="not a valid ElicitResult"):
            await hub.call("mcp_asking_go")
    assert '{"action": "accept", "content": {...}}' in caplog.text
    assert "Oslo" not in caplog.text


async def test_a_refused_request_for_the_model_or_the_roots_is_an_error() -> None:
    async def on_call(
        context: ServerRequestContext[Any], params: types.CallToolRequestParams
    ) -> types.InputRequiredResult:
        return types.InputRequiredResult(input_requests={"roots": types.ListRootsRequest()})

    config = ServerConfig(name="asking", transport="memory", server=one_tool(on_call))
    async with hub_of(config, roots=decline) as hub:
        with pytest.raises(ProtocolError, match="Declined"):
            await hub.call("mcp_asking_go")


async def test_a_question_that_the_modern_era_cannot_carry_names_the_remedy() -> None:
    config = ServerConfig(name="asking", transport="memory", server=one_tool(push_question))
    async with hub_of(config, elicitation=answer) as hub:
        assert hub.servers["asking"].era == "modern"
        with pytest.raises(ProtocolError) as caught:
            await hub.call("mcp_asking_go")
    assert '"protocol": "legacy"' in str(caught.value)


async def test_a_server_that_never_stops_asking_is_stopped() -> None:
    async def ask_again(*_: object) -> types.InputRequiredResult:
        return types.InputRequiredResult(input_requests={}, request_state="again")

    config = ServerConfig(name="asking", transport="memory", server=one_tool(ask_again))
    async with hub_of(config) as hub:
        with pytest.raises(ProtocolError, match="asked for input"):
            await hub.call("mcp_asking_go")


async def test_a_modern_server_tells_of_changed_lists() -> None:
    bench = Bench(old=lambda _: "old")
    bus = InMemorySubscriptionBus()
    server: Any = bench.server
    server.add_request_handler(
        "subscriptions/listen", types.SubscriptionsListenRequestParams, ListenHandler(bus)
    )
    async with hub_of(memory("calc", bench)) as hub:
        bench.tools = {"new": lambda _: "new"}

        async def publish_until_heard() -> None:
            while "mcp_calc_new" not in hub.registry:
                await bus.publish(ToolsListChanged())
                await anyio.sleep(0.01)

        with anyio.fail_after(5):
            await publish_until_heard()
        assert set(hub.registry) == {"mcp_calc_new"}


async def test_unknown_blocks_and_fields_are_kept() -> None:
    raw = {
        "content": [
            {"type": "text", "text": "known", "colour": "red"},
            {"type": "hologram", "depth": 3},
        ],
        "extra": {"kept": True},
    }
    result = result_of(raw)
    assert result.content == (Text(text="known"), Other(block={"type": "hologram", "depth": 3}))
    assert result.wire == raw
    assert result.blocks()[1] == {"type": "hologram", "depth": 3}
    assert "hologram" in result.text()


async def test_a_list_that_never_ends_is_an_error() -> None:
    async def on_list(*_: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[], next_cursor="more")

    server: Server[Any] = Server("endless", on_list_tools=on_list)
    config = ServerConfig(name="endless", transport="memory", server=server)
    async with hub_of(config) as hub:
        assert "never ends" in str(hub.servers["endless"].last_error)


async def test_a_list_that_never_comes_ends_at_its_limit() -> None:
    async def on_list(*_: object) -> types.ListToolsResult:
        await anyio.sleep_forever()
        raise AssertionError

    server: Server[Any] = Server("silent", on_list_tools=on_list)
    config = ServerConfig(
        name="silent", transport="memory", server=server, timeouts=limits(list=0.05)
    )
    async with hub_of(config) as hub:
        assert "timeouts.list" in str(hub.servers["silent"].last_error)
        with pytest.raises(ServerTimeoutError):
            await hub.server("silent").refresh()


@pytest.mark.parametrize("code", [-32099, -32000, -32602])
async def test_an_error_answer_is_an_error_with_its_code(code: int) -> None:
    async def on_call(*_: object) -> types.CallToolResult:
        raise MCPError(code, "out of paper", {"tray": 2})

    config = ServerConfig(name="printer", transport="memory", server=one_tool(on_call))
    async with hub_of(config) as hub:
        with pytest.raises(ProtocolError, match="out of paper") as caught:
            await hub.call("mcp_printer_go")
        assert (caught.value.rpc_code, caught.value.data) == (code, {"tray": 2})


@pytest.mark.parametrize("protocol", ["legacy", "auto"])
async def test_a_callback_may_close_the_hub_it_is_called_by(protocol: Any) -> None:
    ended = anyio.Event()

    @asynccontextmanager
    async def lifespan(_: object) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            ended.set()

    async def close(server: str, params: Mapping[str, Any]) -> None:
        await hub.close()
        # Until then the answer could still be sent: closing begins, and ends some time later.
        await ended.wait()

    on_call = push_question if protocol == "legacy" else return_question
    config = ServerConfig(
        name="asking",
        transport="memory",
        server=one_tool(on_call, lifespan=lifespan),
        protocol=protocol,
    )
    hub = hub_of(config, elicitation=close)
    await hub.start()
    with anyio.fail_after(5):
        with pytest.raises(UpstreamError):
            await hub.call("mcp_asking_go")
        await until(lambda: hub.servers["asking"].state == ServerState.CLOSED)
        await hub.close()


async def test_a_callback_may_call_the_hub_again() -> None:
    async def ask_back(server: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        said = (await hub.call("mcp_other_say")).text()
        return {"action": "accept", "content": {"city": said}}

    config = ServerConfig(name="asking", transport="memory", server=one_tool(return_question))
    hub = hub_of(config, memory("other", Bench(say=lambda _: "Bergen")), elicitation=ask_back)
    async with hub:
        assert (await hub.call("mcp_asking_go")).text() == "accept: Bergen"
