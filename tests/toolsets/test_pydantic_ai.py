"""pydantic-ai itself runs agents with a toolset; its function models play the language model."""

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from pegboard import Hub, Registry
from pegboard.toolsets import Toolset
from pegboard.upstream import NoCatalogCache
from tests.toolsets.agent_servers import CITY, PIXEL, Maps
from tests.upstream.board_servers import hub_of, memory

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent, BinaryContent
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import AbstractToolset

Seen = list[AgentInfo]


def model_that_calls(
    *calls: tuple[str, dict[str, Any]],
    seen: Seen | None = None,
    before: Callable[[], object] = list[int],
) -> FunctionModel:
    """A model that calls the tools one after the other, and then says what it was told last."""
    left = list(calls)

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if seen is not None:
            seen.append(info)
        if left:
            name, arguments = left.pop(0)
            before()
            return ModelResponse(parts=[ToolCallPart(name, arguments)])
        return ModelResponse(parts=[TextPart("done")])

    return FunctionModel(respond)


async def told(toolset: Toolset, *calls: tuple[str, dict[str, Any]]) -> list[ToolReturnPart]:
    """Let an agent make calls, and return what the model was told of each."""
    agent = Agent(model_that_calls(*calls), toolsets=[toolset.pydantic_ai()])
    result = await agent.run("?")
    parts = (part for message in result.all_messages() for part in message.parts)
    return [it for it in parts if isinstance(it, ToolReturnPart)]


async def test_a_toolset_is_one_of_pydantic_ai_with_the_schemas_of_the_server() -> None:
    seen: Seen = []
    async with hub_of(memory("maps", Maps())) as hub:
        toolset = hub.toolset(include=["*forecast"]).pydantic_ai()
        agent = Agent(model_that_calls(seen=seen), toolsets=[toolset])
        await agent.run("?")
    assert isinstance(toolset, AbstractToolset)
    [definition] = seen[0].function_tools
    assert (definition.name, definition.description) == ("mcp_maps_forecast", "Does forecast.")
    assert definition.parameters_json_schema == CITY


async def test_an_agent_calls_the_tool_and_reads_its_text() -> None:
    async with hub_of(memory("maps", Maps())) as hub:
        [part] = await told(hub.toolset(), ("mcp_maps_forecast", {"city": "Oslo"}))
    assert part.content == "Oslo: sun for 3 days"


@pytest.mark.usefixtures("main_loop")
def test_an_agent_runs_in_a_program_without_a_loop() -> None:
    with Hub.open_sync([memory("maps", Maps())], catalog_cache=NoCatalogCache()) as hub:
        model = model_that_calls(("mcp_maps_forecast", {"city": "Oslo"}))
        agent = Agent(model, toolsets=[hub.toolset().pydantic_ai()])
        assert agent.run_sync("?").output == "done"


async def test_structured_content_is_data_and_an_image_is_binary_content() -> None:
    async with hub_of(memory("maps", Maps())) as hub:
        counted, drawn = await told(hub.toolset(), ("mcp_maps_count", {}), ("mcp_maps_picture", {}))
    assert counted.content == {"cities": [1, 2]}
    content: Any = drawn.content
    words, image, sound = content
    assert words == "A pixel."
    assert isinstance(image, BinaryContent)
    assert (image.media_type, image.base64) == ("image/png", PIXEL)
    assert sound.media_type == "audio/wav"


async def test_the_model_is_asked_again_after_a_mistake_and_told_of_another_failure() -> None:
    async with hub_of(memory("maps", Maps())) as hub:
        toolset = hub.toolset()
        wrong, right, failed = await told(
            toolset,
            ("mcp_maps_forecast", {"town": "Oslo"}),
            ("mcp_maps_forecast", {"city": "Oslo"}),
            ("mcp_maps_fail", {}),
        )
        agent = Agent(
            model_that_calls(
                ("mcp_maps_count", {}), before=lambda: drop(hub.registry, "mcp_maps_count")
            ),
            toolsets=[toolset.pydantic_ai()],
        )
        messages = (await agent.run("?")).all_messages()
    assert [it.outcome for it in (wrong, right, failed)] == ["retried", "success", "retried"]
    assert "unknown argument `town`" in str(wrong.content)
    assert right.content == "Oslo: sun for 3 days"
    assert "There is no map of Atlantis." in str(failed.content)
    [gone] = [it for message in messages for it in message.parts if isinstance(it, ToolReturnPart)]
    assert gone.outcome == "failed"
    assert "No tool is named 'mcp_maps_count'" in str(gone.content)


def drop(registry: Registry, name: str) -> None:
    registry.unregister(name)


async def test_a_tool_that_is_added_during_a_run_is_offered_at_the_next_step() -> None:
    registry = Registry()

    @registry.tool
    def add_more() -> str:
        registry.register(later)
        return "added"

    def later() -> str:
        return "later"

    seen: Seen = []
    model = model_that_calls(("add_more", {}), ("later", {}), seen=seen)
    agent = Agent(model, toolsets=[Toolset(registry).pydantic_ai()])
    assert (await agent.run("?")).output == "done"
    assert [len(info.function_tools) for info in seen] == [1, 2, 2]
    assert add_more.__name__ == "add_more"


async def test_it_can_be_prefixed_and_filtered_as_any_toolset() -> None:
    async with hub_of(memory("maps", Maps())) as hub:
        seen: Seen = []
        toolset = hub.toolset().pydantic_ai().prefixed("my")
        chosen = toolset.filtered(lambda _, definition: definition.name.endswith("forecast"))
        model = model_that_calls(("my_mcp_maps_forecast", {"city": "Oslo"}), seen=seen)
        result = await Agent(model, toolsets=[chosen]).run("?")
    assert result.output == "done"
    assert [it.name for it in seen[0].function_tools] == ["my_mcp_maps_forecast"]
    assert "Oslo: sun for 3 days" in str(result.all_messages())


async def test_a_cancelled_run_cancels_the_call_on_the_server() -> None:
    maps = Maps()
    async with hub_of(memory("maps", maps)) as hub:
        model = model_that_calls(("mcp_maps_wait", {}))
        agent = Agent(model, toolsets=[hub.toolset().pydantic_ai()])
        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(agent.run, "?")
                await maps.waiting.wait()
                group.cancel_scope.cancel()
            await maps.cancelled.wait()
