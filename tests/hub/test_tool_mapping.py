"""`hub.tools`: the tools by name, to call them by keyword."""

from collections.abc import Mapping
from typing import Any

import pytest

from pegboard import (
    Access,
    Hub,
    InvalidArgumentsError,
    Registry,
    ServerConfig,
    ServerUnavailableError,
    ToolNotFoundError,
)
from pegboard.upstream import NoCatalogCache
from tests.upstream.board_servers import Bench, hub_of, memory

ADD: dict[str, Any] = {
    "type": "object",
    "properties": {"b": {"type": "integer", "default": 1}, "a": {"type": "integer"}, "self": {}},
    "required": ["a"],
    "additionalProperties": False,
}


def add(arguments: dict[str, Any]) -> str:
    return str(arguments["a"] + arguments.get("b", 1))


def calculator() -> Bench:
    bench = Bench(add=add)
    bench.schemas["add"] = ADD
    return bench


async def test_a_tool_is_awaited_with_its_arguments_by_keyword() -> None:
    async with hub_of(memory("calc", calculator())) as hub:
        tool = hub.tools["mcp_calc_add"]
        result = await tool(a=2, self=None)
        assert (result.text(), result.is_error) == ("3", False)
        assert (tool.name, tool.description) == ("mcp_calc_add", "Does add.")
        assert (tool.input_schema, tool.definition.server) == (ADD, "calc")
        with pytest.raises(InvalidArgumentsError, match="required argument `a` is missing"):
            await tool(b=2)


def test_a_program_without_a_loop_calls_a_tool_plainly() -> None:
    with Hub.open_sync([memory("calc", calculator())], catalog_cache=NoCatalogCache()) as hub:
        assert hub.tools["mcp_calc_add"](a=2, b=3).text() == "5"
        with pytest.raises(InvalidArgumentsError):
            hub.tools["mcp_calc_add"](a="two")
        with pytest.raises(ToolNotFoundError, match="Did you mean 'mcp_calc_add'"):
            hub.tools["mcp_calc_ad"]


async def test_it_is_a_mapping_that_shows_the_tools_of_the_moment() -> None:
    bench = calculator()
    registry = Registry(access=Access(deny=["secret"]))

    @registry.tool
    def secret() -> None: ...

    async with hub_of(memory("calc", bench), registry=registry) as hub:
        tools = hub.tools
        assert isinstance(tools, Mapping)
        assert (list(tools), len(tools)) == (["mcp_calc_add"], 1)
        assert ("mcp_calc_add" in tools, "secret" in tools, 3 in tools) == (True, False, False)
        for name, tool in tools.items():
            bench.tools["more"] = add
            await hub.server("calc").refresh()
            assert tool.name == name
        assert [it.name for it in tools.values()] == ["mcp_calc_add", "mcp_calc_more"]
        assert tools.get("secret") is None
        assert secret.__name__ == "secret"


async def test_a_wrong_name_is_a_key_error_that_names_similar_tools_or_says_what_is_wrong() -> None:
    async with hub_of(memory("calc", calculator())) as hub:
        with pytest.raises(KeyError) as caught:
            hub.tools["mcp_calc_sub"]
        assert isinstance(caught.value, ToolNotFoundError)
        assert caught.value.nearest == ("mcp_calc_add",)
        odd: Any = ["mcp_calc_add"]
        with pytest.raises(ToolNotFoundError):
            hub.tools[odd]
    with pytest.raises(ToolNotFoundError, match="This hub is not open"):
        Hub([]).tools["mcp_calc_add"]


async def test_a_tool_of_a_server_that_is_down_is_missing_with_the_reason() -> None:
    async with hub_of(ServerConfig(name="calc", transport="stdio", command="/no/such")) as hub:
        with pytest.raises(KeyError, match="because server 'calc' is") as caught:
            hub.tools["mcp_calc_add"]
        assert isinstance(caught.value.__cause__, ServerUnavailableError)
        assert hub.tools.get("mcp_calc_add") is None


async def test_a_tool_and_the_mapping_show_what_a_reader_wants_to_know() -> None:
    bench = calculator()
    bench.tools |= {f"t{number}": add for number in range(6)}
    async with hub_of(memory("calc", bench)) as hub:
        assert repr(hub.tools["mcp_calc_add"]) == "<tool mcp_calc_add(a, b=1, self=…): Does add.>"
        assert repr(hub.tools["mcp_calc_t0"]) == "<tool mcp_calc_t0(): Does t0.>"
        listed = ", ".join(repr(name) for name in list(hub.tools)[:5])
        assert repr(hub.tools) == f"<7 tools: {listed} and 2 more>"
