"""What AgentScope's functions make of answers, and of servers, that are not as they should be."""

import logging
from typing import Any

import mcp_types as types
import pytest
from mcp import StdioServerParameters, stdio_client

from pegboard.compat.agentscope import MCPToolFunction, StdioStatefulClient, TextBlock, Toolkit
from pegboard.errors import ProtocolError, ServerUnavailableError
from tests.compat.raw_servers import answering

GOOD = {"type": "text", "text": "good"}
TOOL = types.Tool(name="echo", input_schema={"type": "object"})


def client_of(result: object) -> StdioStatefulClient:
    command, args = answering(result)
    return StdioStatefulClient("raw", command, args)


async def answer(result: object, **options: Any) -> Any:
    client = client_of(result)
    try:
        return await (await client.get_callable_function("echo", **options))()
    finally:
        await client.close()


@pytest.mark.covers("R-AS-23", "R-AS-32")
@pytest.mark.parametrize(
    "strange",
    ["a string", None, 5, [], ["a list"], {}, {"type": "text"}, {"type": "video"}, {"type": 7}],
    ids=repr,
)
async def test_a_block_nobody_knows_costs_a_warning_and_only_itself(
    strange: object, caplog: pytest.LogCaptureFixture
) -> None:
    client = client_of({"content": [strange, GOOD]})
    toolkit = Toolkit()
    await toolkit.register_mcp_client(client)
    call = {"type": "tool_use", "id": "1", "name": "echo", "input": {}}
    (response,) = [it async for it in await toolkit.call_tool_function(call)]
    assert response.content == [TextBlock(type="text", text="good")]
    (record,) = caplog.records
    assert (record.levelno, record.name) == (logging.WARNING, "pegboard.compat")
    await client.close()


@pytest.mark.covers("R-AS-19")
@pytest.mark.parametrize("result", [{}, {"content": None}, {"structuredContent": {"a": 1}}])
async def test_an_answer_without_blocks_is_an_answer_wrapped_or_not(result: dict[str, Any]) -> None:
    found = await answer(result, wrap_tool_result=False)
    assert isinstance(found, types.CallToolResult)
    assert (found.content, found.structured_content) == ([], result.get("structuredContent"))
    wrapped = await answer(result)
    assert wrapped.structured_content == result.get("structuredContent")


@pytest.mark.covers("R-AS-5")
@pytest.mark.parametrize("wrap", [True, False])
@pytest.mark.parametrize("content", ["good", 5, GOOD])
async def test_an_answer_that_cannot_be_read_is_an_error_of_the_server(
    content: object, wrap: bool
) -> None:
    with pytest.raises(ProtocolError, match="'raw'") as caught:
        await answer({"content": content}, wrap_tool_result=wrap)
    assert (caught.value.server, caught.value.tool) == ("raw", "echo")
    assert str(caught.value).count("\n") == 0


@pytest.mark.covers("R-AS-5", "R-AS-19")
async def test_the_sdk_has_no_place_for_a_block_that_is_none() -> None:
    with pytest.raises(ProtocolError, match="'raw'"):
        await answer({"content": [GOOD, "a string"]}, wrap_tool_result=False)


@pytest.mark.covers("R-AS-5", "R-AS-18")
@pytest.mark.parametrize(
    "script",
    [
        "",
        "input()",
        "import json; it = json.loads(input()); it['error'] = {'code': -32603, 'message': 'no'}\n"
        "del it['method'], it['params']; print(json.dumps(it), flush=True); input()",
        "import json; it = json.loads(input()); it['result'] = {'serverInfo': 5}\n"
        "del it['method'], it['params']; print(json.dumps(it), flush=True); input()",
    ],
    ids=["ends", "ends when asked", "refuses", "answers with nonsense"],
)
async def test_what_fails_before_the_call_was_sent_says_that_the_tool_did_not_run(
    script: str,
) -> None:
    parameters = StdioServerParameters(command=answering()[0], args=["-c", script])
    function = MCPToolFunction("raw", TOOL, client_gen=lambda: stdio_client(parameters))
    with pytest.raises(ServerUnavailableError) as caught:
        await function()
    assert not caught.value.sent
    assert "may have run" not in str(caught.value)
    assert (caught.value.server, caught.value.tool) == ("raw", "echo")
