import ast
import inspect
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from examples.calculator import Calculator

from pegboard import Access, Deadline, InvalidArgumentsError, Validation
from pegboard.compat.sage import MCPRegistry

ROOT = Path(__file__).parents[2]


class Note:
    name = "note"

    def __init__(self, text: str = "") -> None:
        self.text = text

    def call(self, arguments: dict[str, Any]) -> Any:
        return self.text, arguments


@pytest.mark.covers("R-SAGE-1")
def test_it_starts_empty_without_arguments() -> None:
    assert MCPRegistry().describe() == {}


class Lookup(Note):
    """A tool that says everything of itself that it may say."""

    name = "lookup"
    description = "Wörter nachschlagen"
    input_schema = {
        "type": "object",
        "properties": {"word": {"type": "string", "minLength": 1}},
        "required": ["word"],
    }


class Waiting(Note):
    name = "waiting"

    async def call(self, arguments: dict[str, Any]) -> Any:
        return arguments


class Nameless:
    def call(self, arguments: dict[str, Any]) -> Any:
        return arguments


class Idle:
    name = "idle"


@pytest.mark.covers("R-SAGE-2", "R-SAGE-5", "R-SAGE-6", "R-SAGE-7", "R-SAGE-8", "X-SAGE-2")
def test_a_planner_is_given_each_tool_with_its_own_words_and_schema() -> None:
    registry = MCPRegistry()
    registry.register(Note())
    registry.register(Lookup())
    described = registry.describe()
    assert described == {
        "note": {"description": "", "input_schema": {}},
        "lookup": {
            "description": "Wörter nachschlagen",
            "input_schema": {
                "type": "object",
                "properties": {"word": {"type": "string", "minLength": 1}},
                "required": ["word"],
            },
        },
    }
    assert json.loads(json.dumps(described)) == described
    assert registry.call("note", {"a": 1}) == ("", {"a": 1})


@pytest.mark.covers("R-SAGE-3")
def test_an_object_without_a_name_is_a_type_error_and_not_registered() -> None:
    registry = MCPRegistry()
    with pytest.raises(TypeError, match="no `name`"):
        registry.register(Nameless())
    assert registry.describe() == {}


@pytest.mark.covers("R-SAGE-4")
def test_an_object_without_a_call_is_a_type_error_and_not_registered() -> None:
    registry = MCPRegistry()
    with pytest.raises(TypeError, match="no `call`"):
        registry.register(Idle())
    assert registry.describe() == {}


@pytest.mark.covers("R-SAGE-9", "R-SAGE-30")
@pytest.mark.parametrize(
    "value", [object(), None, 7, "text", {"output": 1, "meta": {"cost": 2}}, {"other": "shape"}]
)
def test_what_a_tool_returns_comes_back_as_the_same_object(value: object) -> None:
    class Give(Note):
        def call(self, arguments: dict[str, Any]) -> Any:
            return value

    registry = MCPRegistry()
    registry.register(Give())
    assert registry.call("note", {}) is value


@pytest.mark.covers("R-SAGE-11")
def test_what_a_tool_raises_comes_back_as_the_same_exception() -> None:
    error = LookupError("mine")

    class Fail(Note):
        def call(self, arguments: dict[str, Any]) -> Any:
            raise error

    registry = MCPRegistry()
    registry.register(Fail())
    with pytest.raises(LookupError) as caught:
        registry.call("note", {})
    assert caught.value is error


@pytest.mark.covers("R-SAGE-12")
def test_the_name_is_the_key_of_a_tool_and_its_schema_a_json_schema() -> None:
    class Broken(Note):
        input_schema = {"type": "object", "properties": {"word": {"type": "no such type"}}}

    registry = MCPRegistry()
    registry.register(Broken())
    assert registry.describe()["note"]["input_schema"] is Broken.input_schema
    registry.register(Note("first"))
    registry.register(Lookup("second"))
    assert list(registry.describe()) == ["note", "lookup"]
    assert registry.call("note", {}) == ("first", {})
    assert registry.call("lookup", {}) == ("second", {})
    registry.register(Note("third"))
    assert list(registry.describe()) == ["note", "lookup"]
    assert registry.call("note", {}) == ("third", {})
    strict = MCPRegistry(validation=Validation())
    with pytest.raises(TypeError, match="not a usable JSON Schema"):
        strict.register(Broken())
    assert strict.describe() == {}


@pytest.mark.covers("R-SAGE-15")
async def test_a_local_a_waiting_and_a_remote_tool_are_called_alike() -> None:
    registry = MCPRegistry()
    for tool in (Lookup("here"), Waiting(), RemoteEcho()):
        registry.register(tool)
    given = {"text": "hi"}
    assert await registry.acall("lookup", given) == ("here", given)
    assert await registry.acall("waiting", given) == given
    assert await registry.acall("remote_echo", given) == given


def test_a_waiting_tool_gives_its_coroutine_as_in_sage_and_its_value_under_policies() -> None:
    registry, bounded = MCPRegistry(), MCPRegistry(deadline=Deadline(30))
    for it in (registry, bounded):
        it.register(Waiting())
    coroutine = registry.call("waiting", {"a": 1})
    assert inspect.iscoroutine(coroutine)
    coroutine.close()
    assert bounded.call("waiting", {"a": 1}) == {"a": 1}


@pytest.mark.parametrize("policies", [{}, {"validation": Validation()}], ids=["plain", "policies"])
def test_a_change_of_a_registered_object_is_seen(policies: dict[str, Any]) -> None:
    registry, tool = MCPRegistry(**policies), Lookup("before")
    registry.register(tool)
    tool.description = "new words"
    tool.call = lambda arguments: ("after", arguments)
    assert registry.describe()["lookup"]["description"] == "new words"
    assert registry.call("lookup", {"word": "x"}) == ("after", {"word": "x"})


async def test_policies_bound_asynchronous_calls_too() -> None:
    registry = MCPRegistry(validation=Validation())
    registry.register(Lookup("x"))
    assert await registry.acall("lookup", {"word": "x"}) == ("x", {"word": "x"})
    with pytest.raises(InvalidArgumentsError):
        await registry.acall("lookup", {})


@pytest.mark.covers("R-SAGE-16")
def test_the_registry_is_used_without_the_mcp_sdk_and_without_a_transport() -> None:
    code = """
        import sys
        from pegboard.compat.sage import MCPRegistry
        class Note:
            name = "note"
            def call(self, arguments):
                return arguments
        registry = MCPRegistry()
        registry.register(Note())
        assert registry.describe() == {"note": {"description": "", "input_schema": {}}}
        assert registry.call("note", {"a": 1}) == {"a": 1}
        print(*sys.modules)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    loaded = set(run.stdout.split())
    assert "pegboard.compat.sage" in loaded
    assert loaded.isdisjoint({"mcp", "mcp_types", "httpx2", "websockets", "pegboard.upstream"})


@pytest.mark.covers("R-SAGE-17")
def test_no_tool_is_hidden_or_refused_unless_asked_for() -> None:
    registry = MCPRegistry()
    registry.register(Note("x"))
    assert list(registry.describe()) == ["note"]
    assert registry.call("note", {}) == ("x", {})
    strict = MCPRegistry(access=Access(allow=[]))
    strict.register(Note("x"))
    assert strict.describe() == {}
    with pytest.raises(PermissionError):
        strict.call("note", {})


@pytest.mark.covers("R-SAGE-18")
def test_the_three_methods_keep_the_signatures_of_the_document() -> None:
    parameters = {
        method.__name__: list(inspect.signature(method).parameters)
        for method in (MCPRegistry.register, MCPRegistry.describe, MCPRegistry.call)
    }
    assert parameters == {
        "register": ["self", "tool_obj"],
        "describe": ["self"],
        "call": ["self", "name", "arguments"],
    }


@pytest.mark.covers("R-SAGE-13", "R-SAGE-31")
def test_the_calculator_of_the_document_without_eval() -> None:
    registry = MCPRegistry()
    registry.register(Calculator())
    assert registry.call("calculator", {"expr": "21*2+5"}) == {"output": "47"}
    for attack in ("__import__('os')", "().__class__", "2**10**10", "[1]*9", "f(1)", "True"):
        with pytest.raises(ValueError, match="Not arithmetic"):
            registry.call("calculator", {"expr": attack})


@pytest.mark.covers("R-SAGE-31")
def test_nothing_we_ship_evaluates_text() -> None:
    for path in [*ROOT.glob("src/**/*.py"), *ROOT.glob("examples/**/*.py")]:
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec"}, path


@pytest.mark.covers("X-SAGE-1")
def test_a_second_tool_of_the_same_name_replaces_the_first() -> None:
    registry = MCPRegistry()
    registry.register(Note("first"))
    registry.register(Note("second"))
    assert registry.call("note", {}) == ("second", {})


def test_arguments_are_unchecked_as_in_the_document_unless_asked_for() -> None:
    registry = MCPRegistry()
    registry.register(Calculator())
    with pytest.raises(KeyError, match="expr"):
        registry.call("calculator", {})
    strict = MCPRegistry(validation=Validation(), deadline=Deadline(30))
    strict.register(Calculator())
    with pytest.raises(InvalidArgumentsError):
        strict.call("calculator", {})


async def test_it_can_be_called_from_asynchronous_code() -> None:
    registry = MCPRegistry()
    registry.register(Note("x"))
    assert await registry.acall("note", {"a": 1}) == ("x", {"a": 1})


@pytest.mark.covers("X-SAGE-3")
def test_execute_does_what_a_message_says() -> None:
    registry = MCPRegistry()
    registry.register(Note("x"))
    described = registry.describe()
    assert described == {"note": {"description": "", "input_schema": {}}}
    for message in (None, "describe", {"op": "describe"}, {}, {"op": "describe", "a": 1}):
        assert registry.execute(message) == described
    message = {"name": "note", "arguments": {"a": 1}}
    assert registry.execute(message) == ("x", {"a": 1})
    for op in (None, "call", "describe"):
        assert registry.execute({"op": op, **message}) == ("x", {"a": 1})
    assert registry.execute({"name": "note"}) == ("x", {})


@pytest.mark.covers("X-SAGE-3")
@pytest.mark.parametrize(
    ("message", "error", "words"),
    [
        ({"op": "dance"}, ValueError, "Unsupported op"),
        ({"op": "dance", "name": "note", "arguments": {}}, ValueError, "Unsupported op"),
        ({"op": "call"}, ValueError, "name"),
        ({"name": ""}, ValueError, "name"),
        ({"name": "note", "arguments": [1]}, TypeError, "arguments"),
        (3, TypeError, "dict"),
        ("dance", TypeError, "dict"),
    ],
    ids=str,
)
def test_execute_refuses_what_it_does_not_understand(
    message: Any, error: type[Exception], words: str
) -> None:
    registry = MCPRegistry()
    registry.register(Note())
    with pytest.raises(error, match=words):
        registry.execute(message)


class RemoteEcho:
    """What a user writes today to bring in a tool of another process: four members, no more."""

    name = "remote_echo"
    description = "echo in another process"
    input_schema = {"type": "object", "properties": {"text": {"type": "string"}}}

    def call(self, arguments: dict[str, Any]) -> Any:
        script = textwrap.dedent("""
            import json, sys
            ask = json.load(sys.stdin)
            json.dump({"jsonrpc": "2.0", "id": ask["id"], "result": ask["params"]}, sys.stdout)
        """)
        request = {"jsonrpc": "2.0", "id": 1, "method": self.name, "params": arguments}
        run = subprocess.run(
            [sys.executable, "-c", script],
            input=json.dumps(request),
            capture_output=True,
            encoding="utf-8",
            check=True,
        )
        return json.loads(run.stdout)["result"]


@pytest.mark.covers("R-SAGE-19")
def test_a_tool_of_another_process_is_registered_and_called_like_a_local_one() -> None:
    registry = MCPRegistry()
    registry.register(RemoteEcho())
    assert registry.describe()["remote_echo"]["description"] == "echo in another process"
    assert registry.call("remote_echo", {"text": "hi"}) == {"text": "hi"}
