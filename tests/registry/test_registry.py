import inspect
import json
import socket
from typing import Any

import pytest

from pegboard import (
    InvalidToolError,
    Registry,
    Rejection,
    Retry,
    Tool,
    ToolCall,
    ToolConflictError,
    ToolDisabledError,
    ToolNotFoundError,
    tool,
)

ECHO_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
}


class Echo:
    name = "echo"
    description = "echo back"
    input_schema = ECHO_SCHEMA

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"output": arguments["text"]}


class Bare:
    def __init__(self, name: str = "bare") -> None:
        self.name = name

    def call(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return arguments


@tool
def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.covers("R-SAGE-2", "R-SAGE-5", "R-SAGE-6", "R-SAGE-7", "R-SAGE-8", "X-SAGE-2")
def test_describe_gives_a_planner_exactly_what_was_registered() -> None:
    registry = Registry()
    registry.register(Echo())
    registry.register(Bare())
    described = registry.describe()
    assert described == {
        "echo": {"description": "echo back", "input_schema": ECHO_SCHEMA},
        "bare": {"description": "", "input_schema": {}},
    }
    assert json.loads(json.dumps(described)) == described


def test_the_example_of_the_readme() -> None:
    registry = Registry()
    assert registry.register(add) == registry.get("add")
    assert registry.call("add", {"a": 2}) == 3
    assert add(2) == 3
    assert add.call({"a": 2, "b": 3}) == 5


def test_what_describe_returns_cannot_change_the_registry() -> None:
    registry = Registry()
    registry.register(Echo())
    described = registry.describe()
    described["echo"]["description"] = "changed"
    del described["echo"]
    with pytest.raises(TypeError):
        registry.describe()["echo"]["input_schema"]["properties"].clear()
    assert registry.describe()["echo"] == {"description": "echo back", "input_schema": ECHO_SCHEMA}


@pytest.mark.covers("R-SAGE-9", "R-SAGE-14")
def test_the_value_of_a_tool_comes_back_unchanged() -> None:
    value = object()

    def give() -> object:
        return value

    registry = Registry()
    registry.register_many([give, Echo()])
    assert registry.call("give") is value
    assert registry.call("echo", {"text": "hi"}) == {"output": "hi"}


@pytest.mark.covers("R-SAGE-11")
def test_an_exception_of_a_tool_comes_back_unchanged() -> None:
    error = LookupError("mine")

    def fail() -> None:
        raise error

    registry = Registry()
    registry.register(fail)
    with pytest.raises(LookupError) as raised:
        registry.call("fail")
    assert raised.value is error


@pytest.mark.covers("R-SAGE-10")
def test_an_unknown_name_is_a_key_error_and_a_value_error_that_names_the_nearest() -> None:
    registry = Registry()
    registry.register_many([Echo(), add])
    with pytest.raises(ToolNotFoundError) as missing:
        registry.call("ehco", {})
    assert isinstance(missing.value, KeyError)
    assert isinstance(missing.value, ValueError)
    assert missing.value.nearest == ("echo",)
    assert str(missing.value) == "No tool is named 'ehco'. Did you mean 'echo'?"


@pytest.mark.parametrize("name", [None, 3, ["echo"], {}, "", "x" * 10_000, "a\x00"], ids=ascii)
async def test_what_cannot_be_a_name_is_not_found(name: Any) -> None:
    registry = Registry(observers=[lambda record: None])
    registry.register(Echo())
    with pytest.raises(ToolNotFoundError):
        registry.call(name, {})
    with pytest.raises(ToolNotFoundError):
        await registry.acall(name, {})


class NoName:
    def call(self, arguments: dict[str, Any]) -> None: ...


class NoCall:
    name = "no_call"


class BadCall:
    name = "bad_call"
    call = 3


class BadName:
    name = ""

    def call(self, arguments: dict[str, Any]) -> None: ...


class UnreadableName:
    @property
    def name(self) -> str:
        raise OSError("gone")

    def call(self, arguments: dict[str, Any]) -> None: ...


class BadSchema(Echo):
    input_schema = {"type": "nonsense"}


class BadOutputSchema(Echo):
    output_schema = {"type": "nonsense"}


class RemoteReference(Echo):
    input_schema = {"properties": {"text": {"$ref": "http://127.0.0.1:9/never-fetched.json"}}}


class FileReference(Echo):
    input_schema = {"$ref": "file:///etc/hostname"}


BAD: list[Any] = [
    NoName(),
    NoCall(),
    BadCall(),
    BadName(),
    UnreadableName(),
    BadSchema(),
    BadOutputSchema(),
    RemoteReference(),
    FileReference(),
    Echo,
    None,
    3,
    "echo",
    {"name": "echo"},
]


@pytest.mark.covers("R-SAGE-3", "R-SAGE-4", "X-SAGE-9")
@pytest.mark.parametrize("bad", BAD, ids=lambda it: str(getattr(it, "__name__", type(it).__name__)))
def test_what_is_not_a_tool_is_a_type_error_and_leaves_nothing_behind(bad: Any) -> None:
    registry = Registry()
    registry.register(add)
    changes: list[object] = []
    registry.subscribe(changes.append)
    with pytest.raises(InvalidToolError) as refused:
        registry.register(bad)
    assert isinstance(refused.value, TypeError)
    assert list(registry) == ["add"]
    assert changes == []


@pytest.mark.parametrize("where", ["$ref", "$schema", "nested"])
def test_a_reference_to_another_machine_is_never_followed(where: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/schema.json"
        schema = {"properties": {"a": {"$ref": url}}} if where == "nested" else {where: url}
        with pytest.raises(InvalidToolError):
            Registry().register(Tool(name="remote", input_schema=schema))
        with pytest.raises(BlockingIOError):
            server.accept()


def test_the_error_says_what_is_missing() -> None:
    with pytest.raises(InvalidToolError, match="no `name` and no `call`"):
        Registry().register(object())
    with pytest.raises(InvalidToolError, match=r"register an instance of it: `Echo\(\)`"):
        Registry().register(Echo)


@pytest.mark.covers("R-SAGE-12")
def test_a_name_is_taken_only_once_unless_the_caller_says_otherwise() -> None:
    registry = Registry()
    first, second = Bare("t"), Echo()
    second.name = "t"
    registry.register(first)
    with pytest.raises(ToolConflictError, match="on_conflict"):
        registry.register(second)
    kept = registry.register(second, on_conflict="skip")
    assert kept is registry.get("t")
    assert kept.description == ""
    renamed = registry.register(second, on_conflict="rename")
    again = registry.register(second, on_conflict="rename")
    assert (renamed.name, again.name) == ("t_2", "t_3")
    registry.register(second, on_conflict="override")
    assert registry.get("t").description == "echo back"
    assert registry.call("t_2", {"text": "x"}) == {"output": "x"}


def test_a_batch_is_registered_whole_or_not_at_all() -> None:
    registry = Registry()
    registry.register(add)
    for bad in (NoName(), add, Bare("a")):
        with pytest.raises((InvalidToolError, ToolConflictError)):
            registry.register_many([Bare("a"), Bare("b"), bad])
        assert list(registry) == ["add"]
    report = registry.register_many(Bare(str(number)) for number in range(3))
    assert [it.name for it in report.registered] == ["0", "1", "2"]


def test_a_batch_can_report_what_was_wrong_with_each_item() -> None:
    registry = Registry()
    items = [Bare("a"), NoName(), Bare("a"), BadSchema(), Bare("b")]
    report = registry.register_many(items, on_error="report")
    assert [it.name for it in report.registered] == ["a", "b"]
    assert [(it.index, it.item) for it in report.rejected] == [(i, items[i]) for i in (1, 2, 3)]
    assert [type(it.error) for it in report.rejected] == [
        InvalidToolError,
        ToolConflictError,
        InvalidToolError,
    ]
    assert isinstance(report.rejected[0], Rejection)
    assert list(registry) == ["a", "b"]


def test_an_iterable_that_fails_half_way_registers_nothing() -> None:
    def items() -> Any:
        yield Bare("a")
        raise OSError

    registry = Registry()
    with pytest.raises(OSError):
        registry.register_many(items())
    assert len(registry) == 0


def test_a_tool_can_be_taken_off_the_board() -> None:
    registry = Registry()
    registry.register(add)
    assert registry.unregister("add").name == "add"
    assert "add" not in registry
    with pytest.raises(ToolNotFoundError):
        registry.call("add", {"a": 1})
    with pytest.raises(ToolNotFoundError):
        registry.unregister("add")


async def test_a_tool_that_was_taken_off_is_gone_for_asynchronous_callers_too() -> None:
    async def plain() -> int:
        return 1

    registry = Registry()
    registry.register(plain)
    assert await registry.acall("plain", {}) == 1
    registry.unregister("plain")
    with pytest.raises(ToolNotFoundError):
        await registry.acall("plain", {})


async def test_groups_can_be_switched_off_and_on() -> None:
    async def pull() -> str:
        return "pulled"

    registry = Registry()
    registry.register(pull, groups=["git", "network"])
    registry.register(add)
    assert registry.groups() == {"git": True, "network": True}
    registry.disable_group("git")
    registry.disable_group("network")
    assert list(registry.describe()) == ["add"]
    with pytest.raises(ToolDisabledError) as off:
        await registry.acall("pull", {})
    assert off.value.groups == ("git", "network")
    registry.enable_group("git")
    with pytest.raises(ToolDisabledError, match="'network'"):
        registry.call("pull")
    registry.enable_group("network")
    assert await registry.acall("pull", {}) == "pulled"
    registry.disable_group("later")
    registry.register(Bare(), groups=["later"])
    assert "bare" not in registry.describe()


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 3},
        {"deadline": 3},
        {"deadline": Retry()},
        {"groups": "git"},
        {"on_conflict": "maybe"},
    ],
    ids=str,
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    registry = Registry()
    with pytest.raises((TypeError, ValueError)):
        registry.register(add, **options)
    with pytest.raises(ValueError, match="on_error"):
        registry.register_many([add], on_error="maybe")  # pyright: ignore[reportArgumentType]
    assert len(registry) == 0


@pytest.mark.covers("R-SAGE-18")
def test_the_three_signatures_need_no_more_than_the_document_says() -> None:
    def required(method: object) -> list[str]:
        parameters = inspect.signature(method).parameters.values()  # pyright: ignore[reportArgumentType]
        kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        return [it.name for it in parameters if it.default is it.empty and it.kind not in kinds]

    assert required(Registry().register) == ["item"]
    assert required(Registry().describe) == []
    assert required(Registry().call) == ["name"]
    assert list(inspect.signature(Registry().call).parameters)[:2] == ["name", "arguments"]


@pytest.mark.covers("R-SAGE-15")
def test_it_does_not_matter_how_a_tool_works_inside() -> None:
    async def coroutine(x: int) -> int:
        return x

    registry = Registry()
    registry.register_many([coroutine, add, Echo(), Tool(name="defined"), len_of])
    assert registry.call("coroutine", {"x": 3}) == 3
    assert registry.call("add", {"a": 3}) == 4
    assert registry.call("echo", {"text": "3"}) == {"output": "3"}
    assert registry.call("len_of", {"text": "333"}) == 3


def len_of(text: str) -> int:
    return len(text)


def test_meta_has_to_be_an_object_and_is_frozen() -> None:
    def read(call: ToolCall) -> object:
        return call.meta

    registry = Registry()
    registry.register(read)
    given = {"user": {"roles": ["a"]}}
    seen = registry.call("read", {}, given)
    given["user"]["roles"].append("b")
    assert seen == {"user": {"roles": ["a"]}}
    anything: Any = 3
    with pytest.raises(TypeError, match="`meta` takes an object"):
        registry.call("read", {}, anything)


def test_the_registry_looks_like_a_collection_of_names() -> None:
    registry = Registry()
    registry.register_many([add, Bare()])
    assert (len(registry), "add" in registry, "sub" in registry) == (2, True, False)
    assert list(registry) == ["add", "bare"]
    assert repr(registry) == "<Registry of 2 tools>"


def test_a_definition_is_told_from_a_tool_that_can_run() -> None:
    registry = Registry()
    registry.register(Echo())
    registry.register(Tool(name="described"))
    assert not registry.is_definition("echo")
    assert registry.is_definition("described")
    with pytest.raises(ToolNotFoundError):
        registry.is_definition("absent")
