"""The OpenAI Agents SDK itself runs agents with the tools; a model of this file plays the model."""

import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from pegboard import Hub
from pegboard.toolsets import Toolset
from pegboard.upstream import NoCatalogCache
from tests.toolsets.agent_servers import CITY, PIXEL, Maps
from tests.upstream.board_servers import hub_of, memory

pytest.importorskip("agents")

from agents import Agent, FunctionTool, Model, ModelResponse, RunConfig, Runner, Usage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

OFFLINE = RunConfig(tracing_disabled=True)


class Caller(Model):
    """Makes calls one after the other; `told` is what it was told of them."""

    def __init__(self, *calls: tuple[str, str]) -> None:
        self._left = list(calls)
        self.told: list[Any] = []
        self.tools: list[Any] = []

    async def get_response(
        self,
        system_instructions: Any,
        input: Any,
        model_settings: Any,
        tools: Any,
        *_: Any,
        **__: Any,
    ) -> ModelResponse:
        self.tools = tools
        last = input[-1] if isinstance(input, list) else {}
        if last.get("type") == "function_call_output":
            self.told.append(last["output"])
        if self._left:
            name, arguments = self._left.pop(0)
            item: Any = ResponseFunctionToolCall(
                type="function_call",
                call_id=f"call_{len(self.told)}",
                name=name,
                arguments=arguments,
            )
        else:
            words = ResponseOutputText(type="output_text", text="done", annotations=[])
            item = ResponseOutputMessage(
                id="1", type="message", role="assistant", status="completed", content=[words]
            )
        return ModelResponse(output=[item], usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


async def told(toolset: Toolset, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """Let an agent make calls, and return what the model was told of each."""
    model = Caller(*((name, json.dumps(arguments)) for name, arguments in calls))
    agent = Agent(name="a", model=model, tools=[*toolset.openai_agents()])
    result = await Runner.run(agent, "?", run_config=OFFLINE)
    assert result.final_output == "done"
    return model.told


async def test_a_tool_has_the_name_description_and_schema_of_the_server() -> None:
    async with hub_of(memory("maps", Maps())) as hub:
        [tool] = hub.toolset(include=["*forecast"]).openai_agents()
    assert isinstance(tool, FunctionTool)
    assert (tool.name, tool.description) == ("mcp_maps_forecast", "Does forecast.")
    assert (tool.params_json_schema, tool.strict_json_schema) == (CITY, False)


async def test_an_agent_calls_a_tool_and_reads_its_text() -> None:
    async with hub_of(memory("maps", Maps())) as hub:
        said = await told(
            hub.toolset(), ("mcp_maps_forecast", {"city": "Oslo"}), ("mcp_maps_count", {})
        )
    assert said == ["Oslo: sun for 3 days", '{"cities":[1,2]}']


@pytest.mark.usefixtures("main_loop")
def test_an_agent_runs_in_a_program_without_a_loop() -> None:
    with Hub.open_sync([memory("maps", Maps())], catalog_cache=NoCatalogCache()) as hub:
        model = Caller(("mcp_maps_forecast", '{"city": "Oslo"}'))
        agent = Agent(name="a", model=model, tools=[*hub.toolset().openai_agents()])

        assert Runner.run_sync(agent, "?", run_config=OFFLINE).final_output == "done"
    assert model.told == ["Oslo: sun for 3 days"]


async def test_an_image_is_shown_to_the_model_and_a_sound_is_named() -> None:
    async with hub_of(memory("maps", Maps())) as hub:
        [shown] = await told(hub.toolset(), ("mcp_maps_picture", {}))
    words, image, sound = shown
    assert words["text"] == "A pixel."
    assert image["image_url"] == f"data:image/png;base64,{PIXEL}"
    assert sound["text"] == "[audio: audio/wav, 4 bytes]"


async def test_the_text_of_a_failed_call_is_what_the_model_reads() -> None:
    async with hub_of(memory("maps", Maps())) as hub:
        failed, wrong = await told(
            hub.toolset(), ("mcp_maps_fail", {}), ("mcp_maps_forecast", {"town": "Oslo"})
        )
        [tool] = hub.toolset(include=["*forecast"]).openai_agents()
        context: Any = None
        garbled = await tool.on_invoke_tool(context, '{"city": ')
        listed = await tool.on_invoke_tool(context, "[1]")
        hub.registry.unregister("mcp_maps_forecast")
        gone = await tool.on_invoke_tool(context, '{"city": "Oslo"}')
    assert failed == "There is no map of Atlantis."
    assert "unknown argument `town`" in wrong
    assert garbled.startswith("The arguments are not valid JSON: ")
    assert "must be an object" in listed
    assert "No tool is named 'mcp_maps_forecast'" in gone


async def test_a_cancelled_run_cancels_the_call_on_the_server() -> None:
    maps = Maps()
    async with hub_of(memory("maps", maps)) as hub:
        agent = Agent(
            name="a", model=Caller(("mcp_maps_wait", "{}")), tools=[*hub.toolset().openai_agents()]
        )

        async def run() -> None:
            await Runner.run(agent, "?", run_config=OFFLINE)

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(run)
                await maps.waiting.wait()
                group.cancel_scope.cancel()
            await maps.cancelled.wait()
