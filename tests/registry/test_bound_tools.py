import pytest

from pegboard import CatalogChange, Registry, Tool, ToolCall, ToolConflictError
from pegboard.registry import BoundTool

SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "times": {"type": "integer", "default": 2}},
    "required": ["text"],
}


async def give_back(call: ToolCall) -> object:
    call.started()
    return call.arguments


def bound(name: str) -> BoundTool:
    return BoundTool(Tool(name=name, input_schema=SCHEMA, server="far"), give_back)


async def test_a_bound_tool_gets_exactly_what_the_caller_gave() -> None:
    registry = Registry()
    registry.register(bound("echo"))
    assert await registry.acall("echo", {"text": "hi"}) == {"text": "hi"}


async def test_a_checked_tool_is_validated_all_the_same() -> None:
    registry = Registry()
    registry.register(BoundTool(bound("echo").tool, give_back, checked=True))
    with pytest.raises(ValueError, match="text"):
        await registry.acall("echo", {})


def test_replacing_is_one_change() -> None:
    registry = Registry()
    registry.register_many([bound("old"), bound("kept")])
    changes: list[CatalogChange] = []
    registry.subscribe(changes.append)
    registry.register_many([bound("new"), bound("kept")], replacing=["old", "kept", "absent"])
    (change,) = changes
    assert [tool.name for tool in change.added] == ["new"]
    assert [tool.name for tool in change.changed] == ["kept"]
    assert [tool.name for tool in change.removed] == ["old"]
    assert set(registry) == {"new", "kept"}


def test_a_batch_that_is_refused_removes_nothing() -> None:
    registry = Registry()
    registry.register_many([bound("old"), bound("taken")])
    with pytest.raises(ToolConflictError):
        registry.register_many([bound("taken")], replacing=["old"])
    assert set(registry) == {"old", "taken"}
