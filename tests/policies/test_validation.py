import pytest

from pegboard import InvalidArgumentsError, Registry, Validation
from pegboard.errors import CallRefusedError


class Recorder:
    name = "recorder"
    input_schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "deep": {"properties": {"x": {"default": 1}}}},
        "required": ["n"],
    }

    def __init__(self) -> None:
        self.seen: list[object] = []

    def call(self, arguments: dict[str, object]) -> None:
        self.seen.append(arguments)


@pytest.mark.covers("R-SAGE-33")
def test_wrong_arguments_never_reach_the_tool() -> None:
    tool = Recorder()
    registry = Registry()
    registry.register(tool)
    with pytest.raises(InvalidArgumentsError) as refused:
        registry.call("recorder", {"n": "x"})
    assert tool.seen == []
    assert isinstance(refused.value, ValueError)
    assert isinstance(refused.value, CallRefusedError)
    assert refused.value.tool == "recorder"
    assert [it.path for it in refused.value.violations] == ["n"]


@pytest.mark.covers("R-SAGE-34")
def test_the_tool_receives_the_arguments_with_defaults() -> None:
    tool = Recorder()
    registry = Registry()
    registry.register(tool)
    registry.call("recorder", {"n": 1, "deep": {}})
    assert tool.seen == [{"n": 1, "deep": {"x": 1}}]


def test_validation_can_be_switched_off_for_a_registry_and_on_for_a_tool() -> None:
    off, on = Recorder(), Recorder()
    registry = Registry(validation=None)
    registry.register(off)
    registry.register(on, on_conflict="rename", validation=Validation())
    registry.call("recorder", {"n": "x"})
    assert off.seen == [{"n": "x"}]
    with pytest.raises(InvalidArgumentsError, match="recorder_2"):
        registry.call("recorder_2", {"n": "x"})


@pytest.mark.parametrize("arguments", [[], "text", 3, [("n", 1)], {1}])
def test_arguments_that_are_not_an_object_are_refused(arguments: object) -> None:
    tool = Recorder()
    registry = Registry()
    registry.register(tool)
    with pytest.raises(InvalidArgumentsError, match="must be an object"):
        registry.call("recorder", arguments)  # pyright: ignore[reportArgumentType]
    assert tool.seen == []


def test_ten_megabytes_of_arguments_pass() -> None:
    tool = Recorder()
    registry = Registry()
    registry.register(tool)
    arguments = {"n": 1, "text": "x" * 10_000_000}
    registry.call("recorder", arguments)
    assert tool.seen == [arguments]
