"""LiteAI's tools without a model: schemas of functions, running them, toolsets, parameters."""
# pyright: reportPrivateUsage=false

import dataclasses
import enum
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

import anyio
import pytest
from pydantic import BaseModel, ValidationError

from pegboard.compat.liteai import (
    InMemoryTokenStorage,
    LocalMcpClient,
    LocalServerParams,
    McpClient,
    McpSessionNotEstablishedError,
    McpTool,
    McpToolResult,
    McpToolset,
    OAuthParams,
    PythonToolset,
    RemoteMcpClient,
    RemoteServerParams,
    Tool,
    ToolDef,
    Toolset,
    enable_logging,
    execute_tool,
    execute_tool_sync,
    find_tool_by_name,
    generate_tool_definition_from_callable,
    prepare_tools,
    python_tool,
)
from pegboard.compat.liteai.prepare import _python_type_to_json_schema
from pegboard.errors import ConfigError
from tests.upstream.oauth_servers import Accounts, browse, protected_server

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Mixed(enum.Enum):
    ONE = 1
    TWO = "two"


class Ratio(enum.Enum):
    HALF = 0.5
    ONE = 1


class Person(TypedDict, total=False):
    name: str


@dataclasses.dataclass
class Spot:
    x: int
    y: int = 0
    tags: list[str] = dataclasses.field(default_factory=list[str])


class Order(BaseModel):
    to: Spot
    count: int = 1


SPOT = {
    "type": "object",
    "properties": {"x": NUMBER, "y": NUMBER, "tags": {"type": "array", "items": TEXT}},
    "required": ["x"],
}


def add(a: int, b: int = 2) -> int:
    """Add numbers."""
    return a + b


async def later(text: str) -> str:
    """Say it later."""
    return text


def files_below(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]


@pytest.mark.covers("R-LITE-26")
@pytest.mark.parametrize(
    ("kind", "schema"),
    [
        (Any, TEXT),
        (bytes, {"type": "string", "contentEncoding": "base64"}),
        (datetime, {"type": "string", "format": "date-time"}),
        (date, {"type": "string", "format": "date"}),
        (time, {"type": "string", "format": "time"}),
        (list, {"type": "array", "items": TEXT}),
        (dict, {"type": "object", "additionalProperties": TEXT}),
        (Sequence[int], {"type": "array", "items": NUMBER}),
        (frozenset[int], {"type": "array", "items": NUMBER, "uniqueItems": True}),
        (tuple[int, ...], {"type": "array", "items": NUMBER}),
        (tuple[()], {"type": "array", "items": TEXT}),
        (
            tuple[int, str],
            {"type": "array", "prefixItems": [NUMBER, TEXT], "minItems": 2, "maxItems": 2},
        ),
        (Mapping[str, int], {"type": "object", "additionalProperties": NUMBER}),
        (int | None, NUMBER),
        (int | str | None, {"oneOf": [NUMBER, TEXT]}),
        (Annotated[int, "positive"], NUMBER),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal[1, 2], {"type": "integer", "enum": [1, 2]}),
        (Literal[True], {"type": "boolean", "enum": [True]}),
        (Literal[True, 1], {"enum": [True, 1]}),
        (Literal[1, "a"], {"enum": [1, "a"]}),
        (Colour, {"type": "string", "enum": ["red", "blue"]}),
        (Ratio, {"type": "number", "enum": [0.5, 1]}),
        (Mixed, {"enum": [1, "two"]}),
        (Person, {"type": "object", "properties": {"name": TEXT}}),
        (Spot, SPOT),
        (
            Order,
            {"type": "object", "properties": {"to": SPOT, "count": NUMBER}, "required": ["to"]},
        ),
        (Path, TEXT),
        (Callable[[int], int], TEXT),
    ],
    ids=str,
)
def test_the_type_of_a_parameter_becomes_a_schema(kind: Any, schema: dict[str, Any]) -> None:
    assert _python_type_to_json_schema(kind) == schema


@pytest.mark.covers("R-LITE-26")
def test_a_schema_leaves_out_what_a_model_cannot_name() -> None:
    def flexible(first: "str", *args: int, second: float = 0, **kwargs: Any) -> None:
        """Take it.

        And more.
        """

    function = generate_tool_definition_from_callable(flexible)["function"]
    assert function["description"] == "Take it.\n\nAnd more."
    assert list(function["parameters"]["properties"]) == ["first", "second"]
    assert function["parameters"]["required"] == ["first"]


@pytest.mark.covers("R-LITE-26")
def test_a_function_must_say_what_it_does() -> None:
    with pytest.raises(ValueError, match="must have a docstring"):
        prepare_tools([lambda x: x])  # pyright: ignore[reportUnknownLambdaType]


@pytest.mark.covers("X-LITE-2")
def test_a_definition_is_made_from_a_function(caplog: pytest.LogCaptureFixture) -> None:
    assert ToolDef.from_tool_fn(add) == ToolDef("add", "Add numbers.", add, None, {})
    assert not caplog.records
    assert ToolDef.from_tool_fn(lambda: None).description == ""
    (record,) = caplog.records
    assert record.levelname == "WARNING"


def test_a_tool_is_found_by_the_name_that_a_model_says() -> None:
    defined, raw = ToolDef("defined", "D.", later), {"name": "raw"}
    tools: list[Any] = [add, defined, raw, {"no": "name"}, 3]
    assert find_tool_by_name(tools, "add") is add
    assert find_tool_by_name(tools, "defined") is defined
    assert find_tool_by_name(tools, "raw") is raw
    assert find_tool_by_name(tools, "later") is None


@pytest.mark.covers("R-LITE-23")
async def test_a_loop_executes_tools_and_gets_text() -> None:
    assert await execute_tool(add, '{"a": 1}') == "3"
    assert await execute_tool(later, {"text": "grün"}) == "grün"
    assert await execute_tool(ToolDef("n", "d", later), '{"text": "hi"}') == "hi"
    assert await execute_tool(ToolDef("n", "d", lambda: {"ä": None}), {}) == '{"ä": null}'
    with pytest.raises(ValueError, match="Invalid tool type"):
        await execute_tool({"name": "raw"}, {})


@pytest.mark.covers("R-LITE-23")
def test_a_program_without_a_loop_executes_tools_and_gets_text() -> None:
    assert execute_tool_sync(add, {"a": 1, "b": 1}) == "2"
    assert execute_tool_sync(later, '{"text": "hi"}') == "hi"
    assert execute_tool_sync(ToolDef("n", "d", later), {"text": "hi"}) == "hi"
    assert execute_tool_sync(ToolDef("n", "d", add), {"a": 1}) == "3"
    for tool in (None, add.__call__, "add"):
        with pytest.raises(ValueError, match="Invalid tool type"):
            execute_tool_sync(tool, {})
    with pytest.raises(ValueError, match="Invalid arguments type"):
        execute_tool_sync(add, None)  # pyright: ignore[reportArgumentType]
    with pytest.raises(json.JSONDecodeError):
        execute_tool_sync(add, "nothing")


class Shop(PythonToolset):
    def __init__(self) -> None:
        self.stock = 3

    @python_tool
    def sell(self, count: int) -> int:
        """Sell some."""
        self.stock -= count
        return self.stock

    @python_tool
    async def order(self) -> str:
        """Order more."""
        return "ordered"

    def close(self) -> None:
        """Not a tool."""


@pytest.mark.covers("X-LITE-1", "X-LITE-2")
def test_the_marked_methods_of_a_class_are_tools() -> None:
    shop = Shop()
    order, sell = shop.get_tools()
    assert (order.name, sell.name) == ("Shop__order", "Shop__sell")
    assert [it.name for it in shop.get_tools(namespaced_tool_name=False)] == ["order", "sell"]
    assert execute_tool_sync(sell, {"count": 1}) == "2"
    assert execute_tool_sync(order, "{}") == "ordered"
    assert prepare_tools([sell])[0]["function"]["parameters"]["required"] == ["count"]
    assert isinstance(shop, Toolset)


class Noting(McpClient):
    """A client that notes what it is asked for, and fails where it is told to."""

    def __init__(self, **errors: Exception) -> None:
        self.events: list[str] = []
        self.errors = errors

    @property
    def name(self) -> str:
        return "noting"

    async def connect(self) -> None:
        self._happens("connect")

    async def disconnect(self) -> None:
        self._happens("disconnect")

    async def list_tools(self) -> list[Tool]:
        self._happens("list")
        return [McpTool(name="one", inputSchema={})]

    async def call_tool(
        self, tool_name: str, arguments: dict[str, Any] | None = None
    ) -> McpToolResult:
        self._happens("call")
        return McpToolResult(False, [])

    def _happens(self, event: str) -> None:
        self.events.append(event)
        if event in self.errors:
            raise self.errors[event]


async def test_a_toolset_leaves_the_life_of_a_client_that_it_was_given_to_its_user() -> None:
    client = Noting()
    toolset = McpToolset(client)
    with pytest.raises(RuntimeError, match=r"connect\(\)"):
        toolset.get_tools()
    await toolset.refresh_tools()
    (tool,) = toolset.get_tools()
    assert (tool.name, tool.__name__, toolset.name) == ("noting__one", "one", "noting")
    assert await tool() == ""
    await toolset.connect()
    await toolset.connect()
    await toolset.disconnect()
    await toolset.disconnect()
    twice = ["connect", "list"] * 2 + ["disconnect"] * 2
    assert client.events == ["list", "call", *twice]


async def test_a_client_that_was_given_says_why_it_cannot_disconnect() -> None:
    toolset = McpToolset(Noting(disconnect=OSError("stuck")))
    await toolset.connect()
    with pytest.raises(OSError, match="stuck"):
        await toolset.disconnect()
    assert not toolset.is_connected


async def test_what_is_noted_at_a_tool_is_seen_by_all_who_have_it() -> None:
    toolset = McpToolset(Noting())
    await toolset.connect()
    toolset.get_tools()[0].metadata["seen"] = True
    (tool,) = toolset.get_tools()
    assert tool.metadata == {"seen": True}
    copied = dataclasses.replace(tool, name="other")
    assert (copied.name, copied.__name__, repr(copied)[:8]) == ("other", "one", "ToolDef(")


async def test_a_client_that_is_not_connected_says_so() -> None:
    client = LocalMcpClient("one", LocalServerParams(command="no-such-program-anywhere"))
    await client.disconnect()
    for request in (client.list_tools, lambda: client.call_tool("echo")):
        with pytest.raises(McpSessionNotEstablishedError, match=r"connect\(\)"):
            await request()
    with pytest.raises(FileNotFoundError):
        await client.connect()
    with pytest.raises(McpSessionNotEstablishedError):
        await client.list_tools()


@pytest.mark.parametrize(
    ("params", "kind"),
    [
        (LocalServerParams(command="/no/such/program"), FileNotFoundError),
        (LocalServerParams(command="sh", cwd="/no/such/directory"), FileNotFoundError),
        (LocalServerParams(command=__file__), PermissionError),
        (LocalServerParams(command="sh", encoding="latin-1"), ConfigError),
    ],
    ids=["program", "directory", "permission", "encoding"],
)
async def test_a_program_that_cannot_start_fails_as_python_says_it(
    params: LocalServerParams, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        await LocalMcpClient("one", params).connect()


def test_parameters_are_models_whose_errors_hide_what_is_secret() -> None:
    params = LocalServerParams(command="run")
    assert params.model_dump() == {
        "command": "run",
        "args": [],
        "env": None,
        "cwd": None,
        "encoding": "utf-8",
        "encoding_error_handler": "strict",
    }
    remote = RemoteServerParams(url="http://x", oauth_params=OAuthParams())
    assert remote.model_dump() == {
        "url": "http://x",
        "bearer_token": None,
        "oauth_params": {"oauth_scopes": None, "oauth_timeout": 120},
        "http_headers": None,
    }
    with pytest.raises(ValidationError) as caught:
        RemoteServerParams(bearer_token="topsecret")  # pyright: ignore[reportCallIssue]
    assert "topsecret" not in str(caught.value)


@pytest.mark.covers("X-LITE-5")
async def test_a_login_is_kept_where_the_client_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", browse)
    accounts, storage = Accounts(), InMemoryTokenStorage()
    async with protected_server(accounts) as url:
        for _ in range(2):
            params = RemoteServerParams(
                url=url, oauth_params=OAuthParams(oauth_scopes=["use"], oauth_timeout=5)
            )
            client = RemoteMcpClient("web", params, storage)
            with anyio.fail_after(15):
                await client.connect()
                result = await client.call_tool("echo", {"text": "let in"})
                await client.disconnect()
            assert result.content[0].text == "let in"
    assert accounts.logins == 1
    assert storage.tokens.access_token in accounts.access_tokens
    assert storage.client_info.client_id in accounts.clients
    assert files_below(tmp_path) == []


def test_what_is_logged_can_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    logger = logging.getLogger("pegboard.compat")
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "level", logger.level)
    enable_logging()
    enable_logging(level=logging.ERROR)
    (handler,) = logger.handlers
    assert (type(handler), logger.level) == (logging.StreamHandler, logging.ERROR)
