"""Lists of every kind: complete over pages, and told when they change."""

import mcp_types as types
import pytest
from mcp.client.subscriptions import PromptsListChanged, ResourcesListChanged, ToolsListChanged

from pegboard.gateway import GatewayOptions
from tests.conformance import fixture_content as content
from tests.journeys.journey import Cell

pytestmark = pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")


async def test_a_changed_list_of_tools_is_told_and_shows_the_change(cell: Cell) -> None:
    async with cell.open() as it:
        before = {tool.name for tool in (await it.client.list_tools()).tools}
        async with it.changes(ToolsListChanged, tools_list_changed=True) as heard:
            await it.client.call_tool("test_trigger_tool_change")
            await heard.first(ToolsListChanged, types.ToolListChangedNotification)
        after = {tool.name for tool in (await it.client.list_tools()).tools}
        assert after - before == {"test_extra_tool"}


async def test_a_changed_list_of_prompts_is_told_and_shows_the_change(cell: Cell) -> None:
    async with cell.open() as it:
        before = {prompt.name for prompt in (await it.client.list_prompts()).prompts}
        async with it.changes(PromptsListChanged, prompts_list_changed=True) as heard:
            await it.client.call_tool("test_trigger_prompt_change")
            await heard.first(PromptsListChanged, types.PromptListChangedNotification)
        after = {prompt.name for prompt in (await it.client.list_prompts()).prompts}
        assert after - before == {"test_extra_prompt"}


async def test_a_changed_list_of_resources_is_told_and_shows_the_change(cell: Cell) -> None:
    async with cell.open() as it:
        it.workshop.tools["test_simple_text_2"] = it.workshop.change_resources
        await it.hub.server("workshop").refresh()
        async with it.changes(ResourcesListChanged, resources_list_changed=True) as heard:
            await it.client.call_tool("test_simple_text_2")
            await heard.first(ResourcesListChanged, types.ResourceListChangedNotification)
        uris = {str(it.uri) for it in (await it.client.list_resources()).resources}
        assert "test://extra" in uris


async def test_a_client_that_did_not_ask_is_not_told_of_a_change() -> None:
    cell = Cell("http", "modern", "modern")
    async with cell.open() as it:
        async with it.changes(PromptsListChanged, prompts_list_changed=True) as heard:
            await it.client.call_tool("test_trigger_tool_change")
            await it.client.call_tool("test_trigger_prompt_change")
            await heard.first(PromptsListChanged)
        assert not any(isinstance(event, ToolsListChanged) for event in heard.all)


async def test_lists_are_complete_however_they_are_cut_into_pages(cell: Cell) -> None:
    async with cell.open(page=3, options=GatewayOptions(page_size=4)) as it:
        tools: list[str] = []
        cursor = None
        pages = 0
        while True:
            page = await it.client.list_tools(cursor=cursor)
            tools += [tool.name for tool in page.tools]
            pages += 1
            cursor = page.next_cursor
            if cursor is None:
                break
        assert len(tools) == len(set(tools))
        assert set(tools) == {*content.PLAIN_TOOLS, *it.workshop.tools}
        assert pages == -(-len(tools) // 4)
        prompts = await it.client.list_prompts()
        rest = await it.client.list_prompts(cursor=prompts.next_cursor)
        found = [prompt.name for prompt in [*prompts.prompts, *rest.prompts]]
        assert sorted(found) == sorted(content.PROMPTS)


async def test_the_list_of_tools_is_the_same_for_every_client_and_every_time(cell: Cell) -> None:
    async with cell.open() as it:
        first = (await it.client.list_tools(cache_mode="bypass")).tools
        second = (await it.client.list_tools(cache_mode="bypass")).tools
        assert first == second
