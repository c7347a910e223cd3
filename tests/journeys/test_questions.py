"""What an upstream asks in mid-call, pushed or as `input_required`, and the client's answer."""

from typing import Any

import mcp_types as types
import pytest
from mcp import MCPError

from tests.journeys.journey import Cell, text_of

pytestmark = pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")


class Person:
    """Answers whatever a client is asked."""

    def __init__(self, action: Any = "accept") -> None:
        self.action = action
        self.asked: list[Any] = []

    async def elicit(self, _: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.asked.append(params)
        if self.action != "accept":
            return types.ElicitResult(action=self.action)
        answers: dict[str, Any] = {"name": "Ada", "color": "blue", "ok": True, "context": "here"}
        assert isinstance(params, types.ElicitRequestFormParams)
        wanted = params.requested_schema["properties"]
        return types.ElicitResult(
            action="accept", content={it: answers[it] for it in wanted if it in answers}
        )

    async def sample(
        self, _: Any, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult:
        self.asked.append(params)
        return types.CreateMessageResult(
            role="assistant", content=types.TextContent(text="Paris"), model="m"
        )

    async def roots(self, _: Any) -> types.ListRootsResult:
        self.asked.append("roots")
        return types.ListRootsResult(roots=[types.Root(uri="file:///home/ada", name="home")])  # pyright: ignore[reportArgumentType]

    @property
    def callbacks(self) -> dict[str, Any]:
        return {
            "elicitation_callback": self.elicit,
            "sampling_callback": self.sample,
            "list_roots_callback": self.roots,
        }


async def test_an_elicitation_is_answered_by_the_client(cell: Cell) -> None:
    person = Person()
    async with cell.open(**person.callbacks) as it:
        result = await it.client.call_tool("test_input_required_result_elicitation")
        assert text_of(result) == "Hello, Ada!"
    assert [asked.message for asked in person.asked] == ["What is your name?"]


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_refusal_reaches_the_upstream_as_one(cell: Cell, action: str) -> None:
    async with cell.open(**Person(action).callbacks) as it:
        result = await it.client.call_tool("test_elicitation", {"message": "Who?"})
        assert f"<action: {action}," in text_of(result)


async def test_the_model_of_the_client_is_asked_for_a_sample(cell: Cell) -> None:
    person = Person()
    async with cell.open(**person.callbacks) as it:
        result = await it.client.call_tool("test_input_required_result_sampling")
        assert text_of(result) == "The answer was: Paris"
    assert person.asked[0].max_tokens == 100


async def test_the_roots_of_the_client_are_told_to_the_upstream(cell: Cell) -> None:
    async with cell.open(**Person().callbacks) as it:
        result = await it.client.call_tool("test_input_required_result_list_roots")
        assert text_of(result) == "Roots: ['file:///home/ada']"


async def test_several_rounds_are_asked_one_after_the_other(cell: Cell) -> None:
    person = Person()
    async with cell.open(**person.callbacks) as it:
        result = await it.client.call_tool("test_input_required_result_multi_round")
        assert text_of(result) == "Both steps are done."
    assert [asked.message.partition(":")[0] for asked in person.asked] == ["Step 1", "Step 2"]


async def test_three_kinds_of_questions_in_one_call(cell: Cell) -> None:
    person = Person()
    async with cell.open(**person.callbacks) as it:
        result = await it.client.call_tool("test_input_required_result_multiple_inputs")
        assert text_of(result) == "Answered: ['client_roots', 'greeting', 'user_name']"
    assert len(person.asked) == 3


async def test_a_prompt_may_ask_too(cell: Cell) -> None:
    async with cell.open(**Person().callbacks) as it:
        result = await it.client.get_prompt("test_input_required_result_prompt")
        assert "here" in text_of(result)


async def test_progress_and_a_question_in_the_same_call(cell: Cell) -> None:
    seen: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with cell.open(**Person().callbacks) as it:
        result = await it.client.call_tool("test_streaming_elicitation", progress_callback=note)
        assert text_of(result) == "Confirmed."
    assert seen
    assert set(seen) == {1}


async def test_a_client_that_cannot_be_asked_accepts_nothing(cell: Cell) -> None:
    async with cell.open() as it:
        try:
            result = await it.client.call_tool("test_elicitation", {"message": "Who?"})
        except MCPError as refused:
            assert refused.error.code < 0  # noqa: PT017 - a refusal in either form will do
        else:
            assert result.is_error or "<action: accept" not in text_of(result)
        # And it is no worse for it.
        assert not (await it.client.call_tool("test_simple_text")).is_error


async def test_a_client_without_a_model_gives_no_sample(cell: Cell) -> None:
    async with cell.open() as it:
        try:
            result = await it.client.call_tool("test_sampling", {"prompt": "Say something."})
        except MCPError as refused:
            assert refused.error.code < 0  # noqa: PT017 - a refusal in either form will do
        else:
            assert result.is_error
