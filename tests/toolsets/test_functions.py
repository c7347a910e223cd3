import functools
import inspect
import keyword
from typing import Any, Literal, get_type_hints

import docstring_parser
import pydantic
import pytest

from pegboard import Registry, Text, ToolExecutionError, ToolResult
from pegboard.toolsets import Toolset

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "limit": {"type": "integer", "default": 10, "description": "How many."},
        "query": {"type": "string", "description": "What to look for,\nin words."},
        "mode": {"enum": ["fast", "good"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "from": {"type": "number"},
        "max-size": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "extra": {"type": "object"},
        "any": {},
    },
    "required": ["query", "mode"],
    "additionalProperties": False,
}


class Echo:
    def __init__(self, name: str = "web.search-all", schema: dict[str, Any] = SCHEMA) -> None:
        self.name = name
        self.description = "Search the web."
        self.input_schema = schema

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments


def toolset(*tools: object) -> Toolset:
    registry = Registry()
    registry.register_many(tools)
    return Toolset(registry)


def test_a_function_has_a_name_a_docstring_and_a_real_signature() -> None:
    [search] = toolset(Echo()).functions()
    assert search.__name__ == search.__qualname__ == "web_search_all"
    assert inspect.iscoroutinefunction(search)
    assert search.__doc__ == (
        "Search the web.\n\n"
        "Args:\n"
        "    query: What to look for,\n"
        "        in words.\n"
        "    limit: How many."
    )
    described = {
        it.arg_name: it.description for it in docstring_parser.parse(search.__doc__).params
    }
    assert described == {"query": "What to look for,\nin words.", "limit": "How many."}
    parameters = inspect.signature(search).parameters
    assert {name: (it.annotation, it.default) for name, it in parameters.items()} == {
        "query": (str, inspect.Parameter.empty),
        "mode": (Literal["fast", "good"], inspect.Parameter.empty),
        "limit": (int, 10),
        "tags": (list[str] | None, None),
        "from_": (float | None, None),
        "max_size": (int | None, None),
        "extra": (dict[str, Any] | None, None),
        "any": (Any | None, None),
    }
    hints = get_type_hints(search)
    assert hints.pop("return") is Any
    assert hints == {name: it.annotation for name, it in parameters.items()}


async def test_arguments_are_bound_as_by_any_function_and_reach_the_tool_by_their_names() -> None:
    [search] = toolset(Echo()).functions()
    assert await search("cats", "fast", from_=1.5, max_size=3) == {
        "query": "cats",
        "mode": "fast",
        "limit": 10,
        "from": 1.5,
        "max-size": 3,
    }
    assert await search("cats", mode="fast", tags=None, max_size=None) == {
        "query": "cats",
        "mode": "fast",
        "limit": 10,
    }
    for args, kwargs in [(("cats",), {}), (("a", "fast"), {"query": "b"}), ((), {"quary": "c"})]:
        with pytest.raises(TypeError):
            await search(*args, **kwargs)


def test_sync_functions_wait_for_the_answer() -> None:
    [search] = toolset(Echo()).sync_functions()
    assert not inspect.iscoroutinefunction(search)
    assert search("cats", "fast", limit=1) == {"query": "cats", "mode": "fast", "limit": 1}
    assert search.__name__ == "web_search_all"


async def test_functions_survive_partial_and_validate_call() -> None:
    [search] = toolset(Echo()).functions()
    cats = functools.partial(search, "cats")
    assert (await cats("good"))["query"] == "cats"
    checked = pydantic.validate_call(search)
    assert await checked(query="cats", mode="fast", limit="3") == {
        "query": "cats",
        "mode": "fast",
        "limit": 3,
    }
    with pytest.raises(pydantic.ValidationError):
        await checked(query="cats", mode="slow")


async def test_functions_can_be_registered_in_another_registry() -> None:
    [search] = toolset(Echo()).functions()
    [sync_search] = toolset(Echo()).sync_functions()
    other = Registry()
    registered = other.register(search)
    assert registered.name == "web_search_all"
    assert registered.description == "Search the web."
    assert registered.input_schema["required"] == ["query", "mode"]
    assert registered.input_schema["properties"]["limit"]["description"] == "How many."
    arguments = {"query": "cats", "mode": "fast", "from_": 2}
    expected = {"query": "cats", "mode": "fast", "from": 2, "limit": 10}
    assert await other.acall("web_search_all", arguments) == expected
    assert other.call("web_search_all", arguments) == expected
    other.register(sync_search, on_conflict="override")
    assert await other.acall("web_search_all", arguments) == expected


class Failing:
    name = "failing"

    def call(self, arguments: dict[str, Any]) -> ToolResult:
        return ToolResult(content=(Text(text="no luck"),), is_error=True)


async def test_a_reported_failure_is_raised_unless_the_result_itself_is_wanted() -> None:
    tools = toolset(Failing())
    [failing], [raw] = tools.functions(), tools.functions(raw=True)
    with pytest.raises(ToolExecutionError, match="no luck"):
        await failing()
    assert (await raw()).is_error
    assert get_type_hints(raw)["return"] is ToolResult
    [raw_sync] = tools.sync_functions(raw=True)
    assert raw_sync().text() == "no luck"


async def test_an_open_schema_takes_whatever_is_named() -> None:
    [free] = toolset(Echo("free", {})).functions()
    assert await free(a=1, arguments=2, args=3) == {"a": 1, "arguments": 2, "args": 3}
    schema = {"type": "object", "properties": {"arguments": {}}, "additionalProperties": True}
    [half] = toolset(Echo("half", schema)).functions()
    assert await half(1, other=2) == {"arguments": 1, "other": 2}
    [closed] = toolset(Echo("closed", {"type": "object", "properties": {}})).functions()
    with pytest.raises(TypeError):
        await closed(a=1)


@pytest.mark.parametrize(
    "rule",
    [
        {"required": ["a", "x-b"]},
        {"patternProperties": {"^x-": {"type": "string"}}},
        {"patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False},
    ],
)
async def test_what_a_schema_takes_without_declaring_it_can_be_given(rule: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, **rule}
    tools = toolset(Echo("undeclared", schema))
    given = {"a": "1", "x-b": "2"}
    [function], [blocking] = tools.functions(), tools.sync_functions()
    assert await function(**given) == given
    assert blocking(**given) == given


async def test_names_that_become_alike_stay_apart() -> None:
    names = ["a-b", "a.b", "a_b", "class", "9", "größe", "x" * 90]
    functions = toolset(*(Echo(name, {}) for name in names)).functions()
    given = [function.__name__ for function in functions]
    assert len(set(given)) == len(names)
    assert all(name.isidentifier() and not keyword.iskeyword(name) for name in given)
    odd = ["a b", "a-b", "a_b", "", "self", "größe", "None", "__x"]
    schema = {"type": "object", "properties": {name: {"type": "integer"} for name in odd}}
    [function] = toolset(Echo("odd", schema)).functions()
    assert await function(*range(len(odd))) == {name: at for at, name in enumerate(odd)}
    assert await pydantic.validate_call(function)(*range(len(odd)))
    assert Registry().register(function).name == "odd"


def test_a_tool_without_words_still_has_a_docstring() -> None:
    [failing] = toolset(Failing()).functions()
    assert failing.__doc__ == "Call the tool 'failing'."


async def test_a_function_of_a_tool_that_went_away_says_so() -> None:
    registry = Registry()
    registry.register(Echo())
    [search] = Toolset(registry).functions()
    registry.unregister("web.search-all")
    with pytest.raises(KeyError):
        await search("cats", "fast")
