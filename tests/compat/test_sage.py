import ast
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from examples.calculator import Calculator

from pegboard import Deadline, InvalidArgumentsError, Validation
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
    for message in (None, "describe", {"op": "describe"}):
        assert registry.execute(message) == described
    for message in ({"name": "note", "arguments": {"a": 1}},):
        assert registry.execute(message) == ("x", {"a": 1})
        assert registry.execute({"op": "call", **message}) == ("x", {"a": 1})
    assert registry.execute({"name": "note"}) == ("x", {})


@pytest.mark.covers("X-SAGE-3")
@pytest.mark.parametrize(
    ("message", "error", "words"),
    [
        ({"op": "dance"}, ValueError, "Unsupported op"),
        ({"op": "call"}, ValueError, "name"),
        ({"name": ""}, ValueError, "name"),
        ({"name": "note", "arguments": [1]}, TypeError, "arguments"),
        (3, TypeError, "object"),
        ("dance", TypeError, "object"),
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
