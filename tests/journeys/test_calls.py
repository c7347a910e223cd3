"""Calls from end to end: what they carry, what comes back, and what happens meanwhile."""

import json
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import MCPError
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY
from pydantic import BaseModel, ConfigDict

from tests.journeys.journey import Cell, Journey, text_of
from tests.journeys.workshop import FUTURE, PLAIN_TEXT

pytestmark = pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")


class Raw(BaseModel):
    """A result with everything in it that came."""

    model_config = ConfigDict(extra="allow")


async def test_a_call_reaches_the_upstream_and_its_answer_the_client(cell: Cell) -> None:
    async with cell.open() as it:
        result = await it.client.call_tool("test_simple_text")
        assert text_of(result) == PLAIN_TEXT
        assert not result.is_error
        assert it.workshop.calls == ["test_simple_text"]


async def test_every_kind_of_content_arrives_unchanged(cell: Cell) -> None:
    async with cell.open() as it:
        mixed = await it.client.call_tool("test_multiple_content_types")
        assert [block.type for block in mixed.content] == ["text", "image", "resource"]
        (audio,) = (await it.client.call_tool("test_audio_content")).content
        assert isinstance(audio, types.AudioContent)
        assert audio.mime_type == "audio/wav"


async def test_a_tool_that_fails_says_so_in_its_result(cell: Cell) -> None:
    async with cell.open() as it:
        result = await it.client.call_tool("test_error_handling")
        assert result.is_error
        assert "intentionally" in text_of(result)


async def test_structured_content_fits_the_schema_that_was_listed(cell: Cell) -> None:
    async with cell.open() as it:
        listed = {tool.name: tool for tool in (await it.client.list_tools()).tools}
        assert listed["test_add"].title == "Add"
        schema = listed["test_add"].output_schema
        assert schema is not None
        assert schema["required"] == ["sum"]
        result = await it.client.call_tool("test_add", {"a": 2, "b": 3})
        assert result.structured_content == {"sum": 5}


async def test_meta_travels_both_ways_without_the_protocols_own(cell: Cell) -> None:
    async with cell.open() as it:
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        meta: Any = {"example.org/question": {"why": 1}, "traceparent": trace}
        result = await it.client.call_tool("test_meta", meta=meta)
        arrived = json.loads(text_of(result))
        assert arrived["example.org/question"] == {"why": 1}
        assert arrived["traceparent"].split("-")[1] == trace.split("-")[1]
        assert SUBSCRIPTION_ID_META_KEY not in arrived
        assert (result.meta or {})["example.org/answer"] == "yes"


async def raw(it: Journey, request: Any) -> dict[str, Any]:
    return (await it.client.session.send_request(request, Raw)).model_dump()


async def test_unknown_fields_are_passed_on(cell: Cell) -> None:
    async with cell.open() as it:
        call = types.CallToolRequestParams(name="test_future", arguments={})
        result = await raw(it, types.CallToolRequest(params=call))
        assert result["futureField"] == FUTURE["futureField"]
        assert result["content"][0]["futureField"] == FUTURE["futureField"]
        prompt = types.GetPromptRequestParams(name="test_simple_prompt")
        assert (await raw(it, types.GetPromptRequest(params=prompt)))["futureField"]
        resource = types.ReadResourceRequestParams(uri="test://static-text")
        assert (await raw(it, types.ReadResourceRequest(params=resource)))["futureField"]


async def test_definitions_are_listed_with_everything_that_is_in_them(cell: Cell) -> None:
    async with cell.open() as it:
        tools = (await raw(it, types.ListToolsRequest()))["tools"]
        listed = {tool["name"]: tool for tool in tools}
        assert listed["test_future"]["futureField"] == FUTURE["futureField"]
        add = listed["test_add"]
        assert add["annotations"]["readOnlyHint"]
        assert add["icons"][0]["src"] == "https://example.org/add.png"
        assert add["_meta"]["example.org/kind"] == "sum"


async def test_progress_is_reported_while_a_call_runs(cell: Cell) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with cell.open() as it:
        result = await it.client.call_tool("test_tool_with_progress", progress_callback=note)
        assert not result.is_error
    assert seen == [(done, 100, f"Completed {done} of 100") for done in (0, 50, 100)]


async def test_a_cancelled_call_is_cancelled_at_the_upstream(cell: Cell) -> None:
    async with cell.open() as it, anyio.create_task_group() as tasks:
        tasks.start_soon(it.client.call_tool, "test_wait")
        with anyio.fail_after(5):
            await it.workshop.waiting.wait()
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await it.workshop.cancelled.wait()
                # The others are not affected.
                assert text_of(await it.client.call_tool("test_simple_text")) == PLAIN_TEXT


async def test_logs_of_a_call_reach_the_client_that_asked_for_them(cell: Cell) -> None:
    logged: list[types.LoggingMessageNotificationParams] = []

    async def log(params: types.LoggingMessageNotificationParams) -> None:
        logged.append(params)

    async with cell.open(logging_callback=log, log_level="info") as it:
        if cell.client == "legacy":
            await it.set_logging_level("info")
        await it.client.call_tool("test_tool_with_logging")
    assert [(it.level, it.data) for it in logged] == [
        ("info", "Tool execution started"),
        ("info", "Tool processing data"),
        ("info", "Tool execution completed"),
    ]


async def test_logs_below_the_level_that_was_asked_for_stay_away(cell: Cell) -> None:
    logged: list[types.LoggingMessageNotificationParams] = []

    async def log(params: types.LoggingMessageNotificationParams) -> None:
        logged.append(params)

    async with cell.open(logging_callback=log, log_level="error") as it:
        if cell.client == "legacy":
            await it.set_logging_level("error")
        await it.client.call_tool("test_tool_with_logging")
    assert logged == []


async def test_an_unknown_tool_is_an_error_that_names_it(cell: Cell) -> None:
    async with cell.open() as it:
        with pytest.raises(MCPError, match="test_simple_txt") as caught:
            await it.client.call_tool("test_simple_txt")
        assert caught.value.error.code == types.INVALID_PARAMS
