"""LangChain itself uses the tools of a toolset, in programs with an event loop and without."""

from typing import Any

import anyio
import anyio.to_thread
import pytest

from pegboard import Hub, Registry, WouldDeadlockError, tool
from pegboard.toolsets import Toolset
from pegboard.upstream import NoCatalogCache
from tests.toolsets.agent_servers import CITY, PIXEL, Maps
from tests.upstream.board_servers import hub_of, memory

pytest.importorskip("langchain_core")

from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool, ToolException
from langchain_core.utils.function_calling import convert_to_openai_tool


class Echo:
    """Returns its arguments; it has a single one, of any name."""

    name = "echo"

    def __init__(self, argument: str) -> None:
        self.input_schema = {"type": "object", "properties": {argument: {"type": "string"}}}

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments


def by_name(toolset: Toolset) -> dict[str, StructuredTool]:
    return {it.name.removeprefix("mcp_maps_"): it for it in toolset.langchain()}


def wanted(name: str, **arguments: Any) -> dict[str, Any]:
    """A call as a model asks for it."""
    return {"type": "tool_call", "id": "call_1", "name": name, "args": arguments}


async def test_a_tool_has_the_name_description_and_schema_of_the_server() -> None:
    async with hub_of(memory("maps", Maps())) as hub:
        tool = by_name(hub.toolset())["forecast"]
    assert isinstance(tool, StructuredTool)
    assert (tool.name, tool.description) == ("mcp_maps_forecast", "Does forecast.")
    assert tool.args_schema == CITY
    parameters = convert_to_openai_tool(tool)["function"]["parameters"]
    assert parameters["properties"]["city"]["minLength"] == 2


async def test_a_tool_is_awaited_in_an_asynchronous_program() -> None:
    async with hub_of(memory("maps", Maps())) as hub:
        tools = by_name(hub.toolset())
        assert await tools["forecast"].ainvoke({"city": "Oslo"}) == "Oslo: sun for 3 days"
        message = await tools["forecast"].ainvoke(wanted("mcp_maps_forecast", city="Rome", days=1))
    assert isinstance(message, ToolMessage)
    assert (message.content, message.status) == ("Rome: sun for 1 days", "success")


def test_a_tool_is_invoked_in_a_program_without_a_loop() -> None:
    with Hub.open_sync([memory("maps", Maps())], catalog_cache=NoCatalogCache()) as hub:
        tools = by_name(hub.toolset())
        assert tools["forecast"].invoke({"city": "Oslo"}) == "Oslo: sun for 3 days"
        assert tools["fail"].invoke({}) == "There is no map of Atlantis."


async def test_a_thread_of_an_asynchronous_program_invokes_a_tool_and_its_loop_cannot() -> None:
    async with hub_of(memory("maps", Maps())) as hub:
        tool = by_name(hub.toolset())["forecast"]
        said = await anyio.to_thread.run_sync(tool.invoke, {"city": "Oslo"})
        assert said == "Oslo: sun for 3 days"
        with pytest.raises(WouldDeadlockError, match=r"await tool.ainvoke\(...\)"):
            tool.invoke({"city": "Oslo"})


async def test_an_image_is_a_content_block_and_structured_content_the_artifact() -> None:
    async with hub_of(memory("maps", Maps())) as hub:
        tools = by_name(hub.toolset())
        drawn = await tools["picture"].ainvoke(wanted("picture"))
        counted = await tools["count"].ainvoke(wanted("count"))
    assert drawn.content == [
        {"type": "text", "text": "A pixel."},
        {"type": "image", "base64": PIXEL, "mime_type": "image/png"},
        {"type": "text", "text": "[audio: audio/wav, 4 bytes]"},
    ]
    assert counted.content == '{"cities":[1,2]}'
    assert counted.artifact == {"structured_content": {"cities": [1, 2]}}


async def test_the_model_reads_why_a_call_failed_and_a_program_may_have_the_exception() -> None:
    async with hub_of(memory("maps", Maps())) as hub:
        tools = by_name(hub.toolset())
        failed = await tools["fail"].ainvoke(wanted("fail"))
        refused = await tools["forecast"].ainvoke(wanted("forecast", town="Oslo"))
        tools["fail"].handle_tool_error = False
        with pytest.raises(ToolException, match="no map of Atlantis"):
            await tools["fail"].ainvoke({})
        await hub.server("maps").stop()
        hub.registry.unregister("mcp_maps_count")
        gone = await tools["count"].ainvoke(wanted("count"))
    assert (failed.content, failed.status) == ("There is no map of Atlantis.", "error")
    assert refused.status == gone.status == "error"
    assert "unknown argument `town`" in refused.content
    assert "No tool is named 'mcp_maps_count'" in gone.content


def test_the_exception_of_a_function_of_ones_own_is_not_hidden() -> None:
    registry = Registry()

    @registry.tool
    def divide(by: int) -> float:
        return 1 / by

    [divider] = Toolset(registry).langchain()
    with pytest.raises(ZeroDivisionError):
        divider.invoke({"by": 0})
    assert divide(by=4) == 0.25


@pytest.mark.parametrize("name", ["config", "run_manager", "callbacks", "self", "args", "kwargs"])
async def test_no_argument_is_taken_for_one_of_langchain(name: str) -> None:
    registry = Registry()
    registry.register(Echo(name))
    [echo] = Toolset(registry).langchain()
    assert echo.invoke({name: "x"}) == await echo.ainvoke({name: "x"}) == f'{{"{name}":"x"}}'


async def test_a_cancelled_agent_cancels_the_call_on_the_server() -> None:
    maps = Maps()
    async with hub_of(memory("maps", maps)) as hub:
        tool = by_name(hub.toolset())["wait"]
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(tool.ainvoke, {})
                await maps.waiting.wait()
                group.cancel_scope.cancel()
            await maps.cancelled.wait()


async def test_a_tool_calls_the_current_version_of_itself() -> None:
    registry = Registry()
    registry.register(tool(name="say")(lambda: "first"))
    [say] = Toolset(registry).langchain()
    registry.register(tool(name="say")(lambda: "second"), on_conflict="override")
    assert await say.ainvoke({}) == "second"
