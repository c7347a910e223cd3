"""The tests of the first design document, as it prints them, but for the import."""
# pyright: basic

import pytest
from pegboard.compat.sage import MCPRegistry

class EchoTool:
    name = "echo"
    description = "echo back"
    input_schema = {"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}
    def call(self, args):
        return {"output": args["text"]}

class BadTool:
    pass

@pytest.mark.covers("R-SAGE-32", "R-SAGE-6", "R-SAGE-14")
def test_register_and_describe():
    reg = MCPRegistry()
    reg.register(EchoTool())
    desc = reg.describe()
    assert "echo" in desc and "input_schema" in desc["echo"]

@pytest.mark.covers("R-SAGE-32", "R-SAGE-14")
def test_call_success():
    reg = MCPRegistry(); reg.register(EchoTool())
    assert reg.call("echo", {"text":"hi"}) == {"output": "hi"}

@pytest.mark.covers("R-SAGE-32", "R-SAGE-10")
def test_call_missing_tool():
    reg = MCPRegistry()
    with pytest.raises(KeyError):
        reg.call("nope", {})

@pytest.mark.covers("R-SAGE-32", "R-SAGE-3", "R-SAGE-4")
def test_register_invalid():
    reg = MCPRegistry()
    with pytest.raises(TypeError):
        reg.register(BadTool())
