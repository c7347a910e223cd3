"""`@registry.tool`: registers a function and returns the function itself."""

from typing import Any, assert_type

import pytest

from pegboard import InvalidToolError, Registry, ToolConflictError, tool


def test_a_decorated_function_is_registered_and_stays_what_it_is() -> None:
    registry = Registry()

    @registry.tool
    def add(a: int, b: int = 1) -> int:
        """Add two numbers."""
        return a + b

    assert_type(add(2), int)
    assert type(add).__name__ == "function"
    assert add(2) == registry.call("add", {"a": 2}) == 3
    assert registry.get("add").description == "Add two numbers."


async def test_options_name_and_tag_the_tool() -> None:
    registry = Registry()

    @registry.tool(name="sum.of", tags=["math"], category="numbers", description="Sum.")
    async def add(a: int, b: int = 1) -> int:
        return a + b

    assert await add(2) == await registry.acall("sum.of", {"a": 2}) == 3
    found = registry.get("sum.of")
    assert (found.tags, found.category, found.description) == (("math",), "numbers", "Sum.")


def test_what_is_a_tool_already_keeps_its_options() -> None:
    registry = Registry()

    @registry.tool
    @tool(name="plus")
    def add(a: int) -> int:
        return a + 1

    assert list(registry) == ["plus"]
    assert add(1) == 2


def test_mistakes_are_refused_in_words_that_help() -> None:
    registry = Registry()
    anything: Any = registry.tool
    with pytest.raises(TypeError, match=r"options go by name: `@registry.tool\(name=...\)`"):
        anything("add")
    with pytest.raises(TypeError, match="Unknown option nmae"):
        anything(nmae="add")
    with pytest.raises(InvalidToolError, match="A lambda has no name"):
        registry.tool(lambda: None)
    registry.tool(test_mistakes_are_refused_in_words_that_help)
    with pytest.raises(ToolConflictError):
        registry.tool(test_mistakes_are_refused_in_words_that_help)


def test_a_method_is_registered_from_an_instance() -> None:
    registry = Registry()

    class Clock:
        def __init__(self) -> None:
            registry.tool(self.hour)

        def hour(self) -> int:
            return 12

    assert Clock().hour() == registry.call("hour") == 12
