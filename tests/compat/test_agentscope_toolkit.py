"""AgentScope's Toolkit with functions of this process: schemas, groups, skills, state, tasks."""

import copy
import functools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel, Field

from pegboard.compat.agentscope import TextBlock, Toolkit, ToolResponse
from pegboard.errors import ToolConflictError, ToolDisabledError


class Why(BaseModel):
    """A reason."""

    why: str = Field(description="The reason")


def buy(item: str, number: int = 1, *more: str, **options: int) -> ToolResponse:
    """Buy an item.

    Then pay for it.

    Args:
        item: What to buy.
        *more: What else.
    """
    return say(f"{item} {number} {options}")


def say(text: str) -> ToolResponse:
    return ToolResponse([TextBlock(type="text", text=text)])


async def said(toolkit: Toolkit, name: str, **arguments: Any) -> list[str]:
    """Return the texts of all responses of a call."""
    call = {"type": "tool_use", "id": "1", "name": name, "input": arguments}
    stream = await toolkit.call_tool_function(call)
    return [block["text"] async for it in stream for block in it.content if block["type"] == "text"]


def parameters(toolkit: Toolkit, place: int = 0) -> dict[str, Any]:
    return toolkit.get_json_schemas()[place]["function"]["parameters"]


@pytest.mark.covers("R-AS-24")
def test_the_schema_of_a_function_tells_its_types_and_docstring() -> None:
    toolkit = Toolkit()
    toolkit.register_tool_function(buy)
    assert toolkit.get_json_schemas() == [
        {
            "type": "function",
            "function": {
                "name": "buy",
                "description": "Buy an item.\nThen pay for it.",
                "parameters": {
                    "type": "object",
                    "properties": {
                        "item": {"type": "string", "description": "What to buy."},
                        "number": {"type": "integer", "default": 1},
                    },
                    "required": ["item"],
                },
            },
        }
    ]


def test_the_schema_tells_as_much_as_is_asked_for() -> None:
    toolkit = Toolkit()
    toolkit.register_tool_function(
        buy,
        include_long_description=False,
        include_var_positional=True,
        include_var_keyword=True,
    )
    assert toolkit.get_json_schemas()[0]["function"]["description"] == "Buy an item."
    found = parameters(toolkit)["properties"]
    assert found["more"]["description"] == "What else."
    assert found["options"] == {
        "type": "object",
        "additionalProperties": {"type": "integer"},
        "default": {},
    }


async def test_a_partial_function_hides_what_it_has() -> None:
    toolkit = Toolkit()
    toolkit.register_tool_function(functools.partial(buy, "pen"), "basic", {"number": 2})
    assert parameters(toolkit) == {"type": "object", "properties": {}}
    assert await said(toolkit, "buy", gift=1) == ["pen 2 {'gift': 1}"]


async def test_arguments_arrive_as_they_were_sent() -> None:
    def show(reason: Why) -> ToolResponse:
        return say(repr(reason))

    toolkit = Toolkit()
    toolkit.register_tool_function(show)
    assert await said(toolkit, "show", reason={"why": "so"}) == ["{'why': 'so'}"]


def test_an_extended_model_adds_arguments_until_it_is_taken_away() -> None:
    toolkit = Toolkit()
    toolkit.register_tool_function(buy)
    toolkit.set_extended_model("buy", Why)
    assert parameters(toolkit)["required"] == ["item", "why"]
    toolkit.set_extended_model("buy", None)
    assert parameters(toolkit)["required"] == ["item"]
    with pytest.raises(ValueError, match="'sell'"):
        toolkit.set_extended_model("sell", Why)
    with pytest.raises(TypeError, match="BaseModel"):
        toolkit.set_extended_model("buy", int)  # pyright: ignore[reportArgumentType]


def test_a_model_and_a_tool_cannot_have_the_same_argument() -> None:
    def explain(why: str) -> ToolResponse:
        return say(why)

    toolkit = Toolkit()
    toolkit.register_tool_function(explain)
    toolkit.set_extended_model("explain", Why)
    with pytest.raises(ValueError, match="'why'"):
        toolkit.get_json_schemas()


def test_a_renamed_tool_knows_its_first_name() -> None:
    toolkit = Toolkit()
    toolkit.register_tool_function(buy)
    for _ in range(2):
        toolkit.register_tool_function(buy, namesake_strategy="rename")
    assert {name: it.original_name for name, it in toolkit.tools.items()} == {
        "buy": None,
        "buy_2": "buy",
        "buy_3": "buy",
    }
    with pytest.raises(ToolConflictError, match=r"already registered.*`namesake_strategy`"):
        toolkit.register_tool_function(buy)
    with pytest.raises(ValueError, match="'nonsense'"):
        toolkit.register_tool_function(buy, namesake_strategy="nonsense")  # pyright: ignore[reportArgumentType]


@pytest.mark.covers("X-AS-13")
async def test_an_agent_chooses_its_groups_and_learns_how_to_use_them() -> None:
    toolkit = Toolkit()
    toolkit.register_tool_function(toolkit.reset_equipped_tools)
    toolkit.create_tool_group("shop", "Buy things.", False, "Be thrifty.")
    toolkit.create_tool_group("bank", "Pay for them.", True)
    toolkit.register_tool_function(buy, "shop")
    assert list(parameters(toolkit)["properties"]) == ["shop", "bank"]
    (refused,) = await said(toolkit, "buy", item="pen")
    assert "'reset_equipped_tools'" in refused
    (told,) = await said(toolkit, "reset_equipped_tools", shop=True)
    assert "Be thrifty." in told
    assert toolkit.state_dict() == {"active_groups": ["shop"]}
    assert await said(toolkit, "buy", item="pen") == ["pen 1 {}"]
    (told,) = await said(toolkit, "reset_equipped_tools", shop="yes")
    assert "bool" in told
    assert toolkit.state_dict() == {"active_groups": []}


def test_a_state_brings_the_groups_back() -> None:
    toolkit = Toolkit()
    for name in ("a", "b"):
        toolkit.create_tool_group(name, active=name == "a")
    state = toolkit.state_dict()
    toolkit.update_tool_groups(["a", "b", "basic"], False)
    toolkit.load_state_dict(state)
    assert toolkit.state_dict() == state
    toolkit.load_state_dict({**state, "more": 1}, strict=False)
    for bad in ({}, {"active_groups": "a"}, {**state, "more": 1}):
        with pytest.raises(ValueError, match="active_groups"):
            toolkit.load_state_dict(bad)
    toolkit.register_state("skills")
    with pytest.raises(TypeError, match="'registry'"):
        toolkit.register_state("registry")


def test_a_group_is_removed_with_its_tools() -> None:
    toolkit = Toolkit()
    toolkit.create_tool_group("shop")
    toolkit.register_tool_function(buy, "shop")
    with pytest.raises(ValueError, match="'basic'"):
        toolkit.remove_tool_groups(["shop", "basic"])
    with pytest.raises(TypeError, match="list of names"):
        toolkit.remove_tool_groups(5)  # pyright: ignore[reportArgumentType]
    toolkit.remove_tool_groups("shop")
    assert (toolkit.tools, toolkit.groups) == ({}, {})
    with pytest.raises(ValueError, match="'buy'"):
        toolkit.remove_tool_function("buy", allow_not_exist=False)


async def test_a_tool_whose_group_was_deleted_by_hand_is_not_active() -> None:
    toolkit, strict = Toolkit(), Toolkit(raise_errors=True)
    for it in (toolkit, strict):
        it.create_tool_group("shop", active=True)
        it.register_tool_function(buy, "shop")
        assert await said(it, "buy", item="pen") == ["pen 1 {}"]
        del it.groups["shop"]
        assert it.get_json_schemas() == []
    (refused,) = await said(toolkit, "buy", item="pen")
    assert "inactive group 'shop'" in refused
    with pytest.raises(ToolDisabledError, match="'shop'"):
        await said(strict, "buy", item="pen")


class SilentError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


async def test_an_error_without_words_is_told_by_its_kind() -> None:
    def fail() -> None:
        raise SilentError

    async def fail_within() -> AsyncIterator[ToolResponse]:
        yield say("one")
        raise SilentError

    toolkit = Toolkit()
    toolkit.register_tool_function(fail)
    assert await said(toolkit, "fail") == ["Error: SilentError"]
    toolkit.register_tool_function(fail_within, async_execution=True)
    (told,) = await said(toolkit, "fail_within")
    response = await toolkit.wait_task(told.split("Task ID: ")[1].partition(".")[0])
    assert "SilentError" in str(response.content)


async def test_a_copy_has_tools_of_its_own() -> None:
    toolkit = Toolkit()
    toolkit.register_tool_function(buy)
    await said(toolkit, "buy", item="pen")
    other = copy.deepcopy(toolkit)
    toolkit.clear()
    assert await said(other, "buy", item="pen") == ["pen 1 {}"]
    assert toolkit.registry is not other.registry


@pytest.mark.parametrize(
    ("page", "description"),
    [
        ("---\nname: a\ndescription: Plain.\n---\n", "Plain."),
        ('---\nname: \'a\'\ndescription: "With: \\"quotes\\""\n---\n', 'With: "quotes"'),
        ("---\nname: a # a remark\ndescription: It goes\n  on.\n---\n", "It goes on."),
        ("---\nname: a\ndescription: |-\n  One\n  two\n---\n", "One\ntwo"),
        ("---\nname: a\ndescription: >\n  One\n  line.\n\n  Two.\n---\n", "One line.\nTwo.\n"),
        ("---\nname: a\ndescription: 'It''s'\nmore:\n  name: b\n---\n", "It's"),
    ],
)
def test_a_skill_is_described_in_any_style_of_yaml(
    tmp_path: Path, page: str, description: str
) -> None:
    (tmp_path / "SKILL.md").write_text(page, "utf-8")
    toolkit = Toolkit()
    toolkit.register_agent_skill(str(tmp_path))
    assert toolkit.skills["a"]["description"] == description
    with pytest.raises(ValueError, match="'a'"):
        toolkit.register_agent_skill(str(tmp_path))
    toolkit.remove_agent_skill("a")
    assert toolkit.get_agent_skill_prompt() is None


@pytest.mark.parametrize("page", ["name: a\n", "---\nname: a\n---\n", "---\nname:\n---\n", None])
def test_a_folder_without_a_skill_is_refused(tmp_path: Path, page: str | None) -> None:
    if page is not None:
        (tmp_path / "SKILL.md").write_text(page, "utf-8")
    with pytest.raises(ValueError, match=r"SKILL\.md"):
        Toolkit().register_agent_skill(str(tmp_path))
    with pytest.raises(ValueError, match="does not exist"):
        Toolkit().register_agent_skill(str(tmp_path / "nothing"))


def test_a_skill_that_is_not_utf_8_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_bytes("---\nname: café\n---\n".encode("latin-1"))
    # AgentScope raises a UnicodeDecodeError, which is a ValueError.
    with pytest.raises(UnicodeDecodeError, match=r"SKILL\.md' as UTF-8"):
        Toolkit().register_agent_skill(str(tmp_path))


async def test_a_started_tool_is_cancelled_by_its_id() -> None:
    begun = anyio.Event()

    async def hang() -> AsyncIterator[ToolResponse]:
        begun.set()
        await anyio.sleep_forever()
        yield say("never")

    toolkit = Toolkit()
    toolkit.register_tool_function(hang, async_execution=True)
    (told,) = await said(toolkit, "hang")
    task = told.split("Task ID: ")[1].partition(".")[0]
    await begun.wait()
    assert "cancelled" in str((await toolkit.cancel_task(task)).content)
    response = await toolkit.view_task(task)
    while not response.is_interrupted:
        await anyio.lowlevel.checkpoint()
        response = await toolkit.view_task(task)
    assert "InvalidTaskIdError" in str((await toolkit.cancel_task(task)).content)


async def test_a_started_tool_answers_with_all_its_chunks_or_its_error() -> None:
    async def count() -> AsyncIterator[ToolResponse]:
        yield say("one")
        yield say("two")

    async def fail() -> AsyncIterator[ToolResponse]:
        yield say("one")
        raise ValueError("no more")

    toolkit = Toolkit()
    for function in (count, fail):
        toolkit.register_tool_function(function, async_execution=True)
    found: list[ToolResponse] = []
    for name in toolkit.tools:
        (told,) = await said(toolkit, name)
        found.append(await toolkit.wait_task(told.split("Task ID: ")[1].partition(".")[0]))
    assert found[0].content == [*say("one").content, *say("two").content]
    assert found[1].is_error
    assert "no more" in str(found[1].content)
