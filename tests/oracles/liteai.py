"""What a user of LiteAI does, run with `liteai-sdk` and with ours.

The package is liteai-sdk 0.5.16. The document is a plan that was written right before 0.5.0, the
first release with an `McpToolset`: 0.3.x has no `prepare_tools` of this form, and 0.4.0 no MCP. No
release has the plan's `_mcp_tool`; each returns a `ToolDef` instead. `prepare_tools` does the same
in all releases from 0.5.0 to 0.6.0, and in dais-sdk 0.6.1, the later name of the project. The
toolsets and the clients are the same from 0.5.12 on; before 0.5.9 tools had no namespace. 0.6.0 and
dais-sdk change how tools are executed. So 0.5.16 is the last release of the tool system that the
document began.
"""

import dataclasses
import enum
import http.server
import importlib
import inspect
import json
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal, NewType, Optional, TypedDict, Union

from pydantic import BaseModel

from tests.compat.raw_servers import answering
from tests.oracles.outcomes import caught, logged, raised
from tests.oracles.surface import public
from tests.oracles.table import Table

TABLE = Table()
# First cell of a row of the guide → scenarios, or places of the surface (dotted).
DIFFERENCES: dict[str, list[str]] = {
    "The name that `prepare_tools(toolset.get_tools())` gives a model": [
        "the_tools_of_a_server_are_prepared"
    ],
    "Printing `LocalServerParams` or `RemoteServerParams`": ["parameters_are_shown"],
    "The message of a `ValidationError` about them": ["parameters_are_refused_aloud"],
    "Tools and content blocks are `Tool` and `ContentBlock`": [
        "the_classes_of_what_a_server_sends",
        "the_fields_that_a_server_did_not_send",
    ],
    "Errors of the MCP SDK 1.x, such as `McpError`": [
        "a_server_that_ends_at_once",
        "a_server_that_ends_during_a_call",
        "a_server_that_answers_with_an_error",
        "a_result_that_is_not_of_the_protocol",
    ],
    "`encoding` of `LocalServerParams`": ["a_server_with_another_encoding"],
    "`_client`, `_session` and other private members": ["private_members"],
}

# They are for a model, and need litellm.
OF_A_MODEL = {
    *("LLM", "LlmProviders", "LlmRequestParams", "enable_debugging"),
    *("ChatMessage", "UserMessage", "SystemMessage", "AssistantMessage", "ToolMessage"),
    *("MessageChunk", "TextChunk", "UsageChunk", "ReasoningChunk", "AudioChunk", "ImageChunk"),
    *("ToolCallChunk", "GenerateTextResponse", "StreamTextResponseSync", "StreamTextResponseAsync"),
    *("AuthenticationError", "PermissionDeniedError", "RateLimitError", "BadRequestError"),
    *("ContextWindowExceededError", "InvalidRequestError", "InternalServerError", "APIError"),
    *("ServiceUnavailableError", "ContentPolicyViolationError", "Timeout"),
}
LIGHT = str(Path(__file__).parents[1] / "upstream" / "servers" / "light_server.py")
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


def names(side: str) -> Any:
    """Return the public names of a side."""
    if side == "ours":
        return public("pegboard.compat.liteai")
    found = public(
        "liteai_sdk",
        "liteai_sdk.tool.prepare",
        "liteai_sdk.tool.execute",
        "liteai_sdk.tool.utils",
        "liteai_sdk.mcp_client.base_mcp_client",
    )
    for name in OF_A_MODEL:
        delattr(found, name)
    for module, name in (
        ("liteai_sdk.tool.toolset.python_toolset", "TOOL_FLAG"),
        ("liteai_sdk.mcp_client.base_mcp_client", "Tool"),
        ("liteai_sdk.mcp_client.oauth_server", "InMemoryTokenStorage"),
    ):
        setattr(found, name, getattr(importlib.import_module(module), name))
    return found


def local(its: Any, script: str = LIGHT) -> Any:
    return its.LocalServerParams(command=sys.executable, args=["-S", "-E", script])


def replying(its: Any, *content: dict[str, Any], **more: Any) -> Any:
    command, args = answering({"content": list(content), **more})
    return its.LocalMcpToolset("raw", its.LocalServerParams(command=command, args=args))


def fake(its: Any, **methods: Any) -> Any:
    """A client of the user's own, which notes what it is asked for."""

    class Fake(its.McpClient):
        def __init__(self) -> None:
            self.events: list[Any] = []
            self.tools = [its.McpTool(name="one", description="One.", inputSchema=SCHEMA)]

        @property
        def name(self) -> str:
            return "fake"

        async def connect(self) -> None:
            self.happens("connect")

        async def disconnect(self) -> None:
            self.happens("disconnect")

        async def list_tools(self) -> Any:
            self.happens("list")
            return list(self.tools)

        async def call_tool(self, tool_name: str, arguments: Any = None) -> Any:
            self.happens((tool_name, arguments))
            return its.McpToolResult(False, [])

        def happens(self, event: Any) -> None:
            self.events.append(event)
            error = methods.get(event if isinstance(event, str) else "call")
            if error is not None:
                raise error

    return Fake()


async def acaught(awaitable: Any) -> Any:
    """Return what an awaitable gives, or how it fails."""
    try:
        return await awaitable
    except Exception as error:
        return raised(error)


@contextmanager
def a_remote_server() -> Any:
    """An MCP server behind HTTP in a few lines, which notes the headers of its requests."""
    seen: list[dict[str, str]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            if self.path == "/old":
                self.rfile.read(int(self.headers["content-length"]))
                return self.answers(307, b"", location="/mcp")
            seen.append({key.lower(): it for key, it in self.headers.items()})
            message = json.loads(self.rfile.read(int(self.headers["content-length"])))
            method, params = message["method"], message.get("params", {})
            results: dict[str, Any] = {
                "initialize": {
                    "protocolVersion": params.get("protocolVersion"),
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "remote", "version": "1"},
                },
                "tools/list": {"tools": [{"name": "echo", "inputSchema": SCHEMA}]},
                "tools/call": {
                    "content": [{"type": "text", "text": json.dumps(params.get("arguments"))}]
                },
            }
            if "id" not in message:
                return self.answers(202, b"")
            answer: dict[str, Any] = {"error": {"code": -32601, "message": "no such method"}}
            if method in results:
                answer = {"result": results[method]}
            body = {"jsonrpc": "2.0", "id": message["id"], **answer}
            return self.answers(200, json.dumps(body).encode())

        def do_GET(self) -> None:
            self.answers(405, b"")

        def answers(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp", seen
    finally:
        server.shutdown()
        server.server_close()


def add(a: int, b: int = 2) -> int:
    """Add numbers."""
    return a + b


async def later(text: str) -> str:
    """Say it later."""
    return text


# --- the definition of a tool ---------------------------------------------------------------


@TABLE.scenario
def a_definition_by_position(its: Any) -> Any:
    return its.ToolDef("n", "d", add)


@TABLE.scenario
def a_definition_with_everything(its: Any) -> Any:
    return its.ToolDef("n", "d", add, {"type": "object"}, {"k": 1})


@TABLE.scenario
def a_definition_by_keyword(its: Any) -> Any:
    return its.ToolDef(name="n", description="d", execute=add, parameters=SCHEMA)


@TABLE.scenario
def a_definition_needs_a_function(its: Any) -> Any:
    return its.ToolDef("n", "d")


@TABLE.scenario
def a_definition_needs_a_description(its: Any) -> Any:
    return its.ToolDef(name="n", execute=add)


@TABLE.scenario
def definitions_are_compared_by_value(its: Any) -> Any:
    one, other = its.ToolDef("n", "d", add), its.ToolDef("n", "d", add)
    return one == other, one is other, one != its.ToolDef("m", "d", add)


@TABLE.scenario
def a_definition_is_no_key(its: Any) -> Any:
    return caught(hash, its.ToolDef("n", "d", add))


@TABLE.scenario
def a_definition_can_be_changed(its: Any) -> Any:
    tool = its.ToolDef("n", "d", add)
    tool.name, tool.description, tool.parameters = "m", "e", SCHEMA
    tool.metadata["seen"] = True
    return tool, its.ToolDef("n", "d", add).metadata


@TABLE.scenario
def a_definition_is_shown(its: Any) -> Any:
    return repr(its.ToolDef("n", "d", None))


@TABLE.scenario
def a_definition_is_copied_with_another_name(its: Any) -> Any:
    return dataclasses.replace(its.ToolDef("n", "d", add), name="other")


@TABLE.scenario
def a_definition_is_no_function(its: Any) -> Any:
    return callable(its.ToolDef("n", "d", add))


@TABLE.scenario
def a_definition_as_a_dict(its: Any) -> Any:
    return dataclasses.asdict(its.ToolDef("n", "d", add, SCHEMA))


@TABLE.scenario
def a_definition_from_a_function(its: Any) -> Any:
    with logged() as levels:
        tool = its.ToolDef.from_tool_fn(add)
    return tool, levels


@TABLE.scenario
def a_definition_from_a_function_without_a_docstring(its: Any) -> Any:
    def bare(a: int) -> int:
        return a

    with logged() as levels:
        tool = its.ToolDef.from_tool_fn(bare)
    return tool, levels


@TABLE.scenario
def a_definition_from_a_function_with_an_empty_docstring(its: Any) -> Any:
    def bare(a: int) -> int:
        return a

    bare.__doc__ = ""
    with logged() as levels:
        tool = its.ToolDef.from_tool_fn(bare)
    return tool, levels


@TABLE.scenario
def a_definition_from_something_without_a_name(its: Any) -> Any:
    return its.ToolDef.from_tool_fn(partial(add, b=3))


# --- prepare_tools ----------------------------------------------------------------------------


@TABLE.scenario
def no_tools_are_prepared(its: Any) -> Any:
    return its.prepare_tools([])


@TABLE.scenario
def tools_of_all_kinds_are_prepared(its: Any) -> Any:
    return its.prepare_tools([add, later, its.ToolDef("n", "d", add), {"name": "raw"}])


@TABLE.scenario
def tools_in_a_tuple_are_prepared(its: Any) -> Any:
    return its.prepare_tools((add,))


@TABLE.scenario
def a_dict_is_wrapped_and_not_copied(its: Any) -> Any:
    raw = {"name": "raw", "description": "R.", "parameters": SCHEMA}
    (prepared,) = its.prepare_tools([raw])
    return prepared, prepared["function"] is raw


@TABLE.scenario
def a_finished_definition_is_wrapped_again(its: Any) -> Any:
    return its.prepare_tools([{"type": "function", "function": {"name": "raw"}}])


@TABLE.scenario
def something_that_is_no_tool_is_wrapped(its: Any) -> Any:
    return its.prepare_tools([3, None, "text"])


@TABLE.scenario
def a_definition_takes_parameters_from_its_function(its: Any) -> Any:
    return its.generate_tool_definition_from_tool_def(its.ToolDef("n", "d", add))


@TABLE.scenario
def a_definition_keeps_the_parameters_it_states(its: Any) -> Any:
    found = its.generate_tool_definition_from_tool_def(its.ToolDef("n", "d", add, SCHEMA))
    return found, found["function"]["parameters"] is SCHEMA


@TABLE.scenario
def a_definition_with_empty_parameters_takes_those_of_its_function(its: Any) -> Any:
    return its.generate_tool_definition_from_tool_def(its.ToolDef("n", "d", add, {}))


@TABLE.scenario
def a_definition_with_a_lambda(its: Any) -> Any:
    return its.prepare_tools([its.ToolDef("n", "", lambda x, y=1: x)])


@TABLE.scenario
def a_definition_without_a_real_function(its: Any) -> Any:
    return caught(its.prepare_tools, [its.ToolDef("n", "d", None, SCHEMA)])


@TABLE.scenario
def a_definition_with_a_partial(its: Any) -> Any:
    return caught(its.prepare_tools, [its.ToolDef("n", "d", partial(add, b=1))])


@TABLE.scenario
def a_function_without_a_docstring(its: Any) -> Any:
    def bare(a: int) -> int:
        return a

    return its.prepare_tools([bare])


@TABLE.scenario
def a_lambda_as_a_tool(its: Any) -> Any:
    return its.prepare_tools([lambda x: x])


@TABLE.scenario
def an_object_without_a_name_as_a_tool(its: Any) -> Any:
    class Doubling:
        def __call__(self, a: int) -> int:
            return 2 * a

    return its.prepare_tools([Doubling()])


@TABLE.scenario
def a_partial_as_a_tool(its: Any) -> Any:
    return its.prepare_tools([partial(add, b=3)])


@TABLE.scenario
def a_class_as_a_tool(its: Any) -> Any:
    class Point:
        """A point."""

        def __init__(self, x: int, y: int = 0) -> None:
            self.x, self.y = x, y

    return its.prepare_tools([Point])


@TABLE.scenario
def methods_of_all_kinds_as_tools(its: Any) -> Any:
    class Shop:
        def sell(self, item: str) -> str:
            """Sell it."""
            return item

        @classmethod
        def open(cls, hour: int) -> int:
            """Open it."""
            return hour

        @staticmethod
        def close(hour: int) -> int:
            """Close it."""
            return hour

    return its.prepare_tools([Shop().sell, Shop.open, Shop.close, Shop.sell])


@TABLE.scenario
def a_builtin_as_a_tool(its: Any) -> Any:
    return caught(its.prepare_tools, [len])


def described(its: Any, **kinds: Any) -> Any:
    """The properties of a function whose parameters have these annotations."""

    def sample() -> None:
        """Do it."""

    parameter = inspect.Parameter
    sample.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [parameter(it, parameter.KEYWORD_ONLY) for it in kinds]
    )
    sample.__annotations__ = kinds
    return its.generate_tool_definition_from_callable(sample)["function"]["parameters"]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Ratio(enum.Enum):
    HALF = 0.5
    ONE = 1


class Switch(enum.Enum):
    ON = True
    OFF = False


class Anything(enum.Enum):
    TEXT = "text"
    NUMBER = 1


class Empty(enum.Enum):
    pass


class Person(TypedDict):
    name: str
    age: int


class Partly(TypedDict, total=False):
    name: str
    near: Person


@dataclasses.dataclass
class Address:
    street: str
    number: int = 1
    tags: list[str] = dataclasses.field(default_factory=list)
    home: Optional[Person] = None  # noqa: UP045 - both ways are written


@dataclasses.dataclass
class Spot:
    x: int
    y: int = 0


class Order(BaseModel):
    item: str
    count: int = 1
    to: Spot | None = None
    many: list[int]


UserId = NewType("UserId", int)


@TABLE.scenario
def parameters_of_plain_types(its: Any) -> Any:
    return described(its, a=str, b=int, c=float, d=bool, e=bytes, f=Any, g=type(None), h=object)


@TABLE.scenario
def parameters_that_are_moments(its: Any) -> Any:
    return described(its, a=datetime, b=date, c=time)


@TABLE.scenario
def parameters_that_are_lists(its: Any) -> Any:
    return described(its, a=list, b=list[int], c=Sequence[float], d=list[list[str]], e=list[Any])


@TABLE.scenario
def parameters_that_are_lists_of_the_typing_module(its: Any) -> Any:
    import typing

    return described(
        its,
        a=typing.List,  # noqa: UP006
        b=typing.List[int],  # noqa: UP006
        c=typing.Dict,  # noqa: UP006
        d=typing.Dict[str, int],  # noqa: UP006
        e=typing.Tuple,  # noqa: UP006
        f=typing.Set[int],  # noqa: UP006
        g=typing.Sequence[int],
        h=typing.Iterable[int],
    )


@TABLE.scenario
def parameters_that_are_sets(its: Any) -> Any:
    return described(its, a=set, b=set[int], c=frozenset[str], d=frozenset)


@TABLE.scenario
def parameters_that_are_tuples(its: Any) -> Any:
    return described(its, a=tuple, b=tuple[int, ...], c=tuple[int, str], d=tuple[()], e=tuple[int])


@TABLE.scenario
def parameters_that_are_dicts(its: Any) -> Any:
    return described(its, a=dict, b=dict[str, int], c=Mapping[str, list[int]], d=dict[str, Any])


@TABLE.scenario
def parameters_of_several_types(its: Any) -> Any:
    return described(
        its,
        a=Union[int, str],  # noqa: UP007 - both ways are written
        b=int | str | None,
        c=list[int] | dict[str, int],
        d=int | None,
    )


@TABLE.scenario
def parameters_that_are_optional(its: Any) -> Any:
    return described(its, a=Optional[int], b=Optional[list[int]], c=list[Optional[str]])  # noqa: UP045


@TABLE.scenario
def parameters_that_are_literals(its: Any) -> Any:
    return described(
        its,
        a=Literal["x", "y"],
        b=Literal[1, 2],
        c=Literal[True, False],
        d=Literal[1, "x"],
        e=Literal[True, 1],
        f=Literal[None],
        g=Literal["x"] | None,
    )


@TABLE.scenario
def parameters_that_are_enums(its: Any) -> Any:
    return described(its, a=Colour, b=Level, c=Ratio, d=Switch, e=Anything, f=Empty)


@TABLE.scenario
def parameters_that_are_members_of_enums(its: Any) -> Any:
    return described(its, a=Literal[Colour.RED], b=Literal[Level.LOW, Level.HIGH])


@TABLE.scenario
def parameters_with_notes(its: Any) -> Any:
    return described(its, a=Annotated[int, "positive"], b=list[Annotated[str, "short"]])


@TABLE.scenario
def parameters_that_are_typed_dicts(its: Any) -> Any:
    return described(its, a=Person, b=Partly, c=list[Person])


@TABLE.scenario
def parameters_that_are_dataclasses(its: Any) -> Any:
    return described(its, a=Address, b=dict[str, Address])


@TABLE.scenario
def parameters_that_are_models(its: Any) -> Any:
    return described(its, a=Order, b=list[Order])


@TABLE.scenario
def parameters_of_types_that_say_nothing(its: Any) -> Any:
    return described(its, a=UserId, b=Path, c=complex, d=Callable[[int], int], e=type[int])


@TABLE.scenario
def parameters_that_are_written_as_text(its: Any) -> Any:
    return described(its, a="int", b="list[int] | None", c="Order")


@TABLE.scenario
def a_parameter_of_an_unknown_type(its: Any) -> Any:
    return caught(described, its, a="NotThere")


@TABLE.scenario
def a_function_that_takes_anything(its: Any) -> Any:
    def flexible(first: str, *args: int, last: bool = False, **kwargs: Any) -> None:
        """Take it."""

    return its.generate_tool_definition_from_callable(flexible)


@TABLE.scenario
def a_function_without_annotations(its: Any) -> Any:
    def old(first, second="x", /, third=None):  # type: ignore[no-untyped-def]
        """Take it."""

    return its.generate_tool_definition_from_callable(old)


@TABLE.scenario
def a_function_without_parameters(its: Any) -> Any:
    def nothing() -> None:
        """Do it."""

    return its.generate_tool_definition_from_callable(nothing)


@TABLE.scenario
def a_docstring_of_several_lines(its: Any) -> Any:
    def long(a: int) -> None:
        """
        Do it.

            Far in.

        Args:
            a: the number.
        """

    found = its.prepare_tools([long, its.ToolDef.from_tool_fn(long)])
    return [it["function"]["description"] for it in found]


@TABLE.scenario
def a_prepared_schema_belongs_to_the_caller(its: Any) -> Any:
    def many(items: list) -> None:  # type: ignore[type-arg]
        """Take them."""

    (first,) = its.prepare_tools([many])
    first["function"]["parameters"]["properties"]["items"]["items"]["type"] = "changed"
    return its.prepare_tools([many])


# --- finding a tool ---------------------------------------------------------------------------


@TABLE.scenario
def a_tool_is_found_by_its_name(its: Any) -> Any:
    tools = [add, its.ToolDef("n", "d", later), {"name": "raw"}, {"no": "name"}, add]
    wanted = ("add", "n", "raw", "later", "", "ADD")
    return [its.find_tool_by_name(tools, it) for it in wanted]


@TABLE.scenario
def the_first_of_two_tools_is_found(its: Any) -> Any:
    one, two = its.ToolDef("n", "1", add), its.ToolDef("n", "2", add)
    return its.find_tool_by_name([one, two], "n") is one, its.find_tool_by_name([], "n")


@TABLE.scenario
def a_partial_cannot_be_looked_through(its: Any) -> Any:
    return its.find_tool_by_name([partial(add), add], "add")


# --- running a tool ---------------------------------------------------------------------------


@TABLE.scenario
async def tools_are_executed(its: Any) -> Any:
    tool = its.ToolDef("n", "d", later)
    return [
        await its.execute_tool(add, '{"a": 1}'),
        await its.execute_tool(add, {"a": 1, "b": 5}),
        await its.execute_tool(later, {"text": "hi"}),
        await its.execute_tool(tool, '{"text": "grün"}'),
    ]


@TABLE.scenario
def tools_are_executed_without_a_loop(its: Any) -> Any:
    tool = its.ToolDef("n", "d", later)
    return [
        its.execute_tool_sync(add, '{"a": 1}'),
        its.execute_tool_sync(later, {"text": "hi"}),
        its.execute_tool_sync(tool, {"text": "hi"}),
        its.execute_tool_sync(its.ToolDef("n", "d", partial(add, b=5)), {"a": 1}),
    ]


@TABLE.scenario
def results_become_text(its: Any) -> Any:
    results = ["grün", "", 1, 1.5, True, None, [1, "ü"], {"ä": (1, 2)}, {1: 2}]
    return [its.execute_tool_sync(lambda it=it: it, {}) for it in results]


@TABLE.scenario
def a_result_that_is_no_json(its: Any) -> Any:
    return its.execute_tool_sync(lambda: {object()}, {})


@TABLE.scenario
def arguments_that_are_no_json(its: Any) -> Any:
    return its.execute_tool_sync(add, "nothing")


@TABLE.scenario
def arguments_that_are_a_list(its: Any) -> Any:
    return its.execute_tool_sync(add, "[1, 2]"), its.execute_tool_sync(add, "[]")


@TABLE.scenario
def arguments_of_another_kind(its: Any) -> Any:
    return [caught(its.execute_tool_sync, add, it) for it in (None, 3, [1], b"{}")]


@TABLE.scenario
def arguments_that_do_not_fit(its: Any) -> Any:
    return caught(its.execute_tool_sync, add, {}), caught(its.execute_tool_sync, add, {"z": 1})


@TABLE.scenario
async def things_that_cannot_be_executed(its: Any) -> Any:
    things = [3, None, "add", {"name": "add"}, partial(add), len, type]
    return [await acaught(its.execute_tool(it, {})) for it in things]


@TABLE.scenario
def things_that_cannot_be_executed_without_a_loop(its: Any) -> Any:
    return [caught(its.execute_tool_sync, it, {}) for it in (3, None, {"a": 1}, partial(add), len)]


@TABLE.scenario
async def a_loop_cannot_wait_for_itself(its: Any) -> Any:
    return caught(its.execute_tool_sync, add, {"a": 1}), caught(
        its.execute_tool_sync, its.ToolDef("n", "d", later), {"text": "hi"}
    )


@TABLE.scenario
def an_error_of_a_tool_reaches_the_caller(its: Any) -> Any:
    def broken() -> None:
        raise ZeroDivisionError

    async def broken_later() -> None:
        raise LookupError

    return caught(its.execute_tool_sync, broken, {}), caught(
        its.execute_tool_sync, its.ToolDef("n", "d", broken_later), {}
    )


@TABLE.scenario
def execution_can_be_taught_another_kind(its: Any) -> Any:
    class Mine:
        pass

    its.execute_tool_sync.register(Mine, lambda tool, arguments: f"mine: {arguments}")
    return its.execute_tool_sync(Mine(), {"a": 1})


@TABLE.scenario
def execution_takes_its_tool_by_position(its: Any) -> Any:
    return caught(its.execute_tool_sync, tool=add, arguments={"a": 1})


# --- toolsets of Python methods ---------------------------------------------------------------


def shop(its: Any) -> Any:
    class Shop(its.PythonToolset):
        def __init__(self, stock: int = 3) -> None:
            self.stock = stock

        @its.python_tool
        def sell(self, count: int) -> int:
            """Sell some."""
            self.stock -= count
            return self.stock

        @its.python_tool
        async def order(self, count: int = 1) -> str:
            """Order more."""
            return f"{count} ordered"

        def close(self) -> None:
            """Not a tool."""

    return Shop()


@TABLE.scenario
def the_tools_of_a_class(its: Any) -> Any:
    return shop(its).get_tools(), shop(its).get_tools(namespaced_tool_name=False)


@TABLE.scenario
def the_tools_of_a_class_by_position(its: Any) -> Any:
    return [it.name for it in shop(its).get_tools(False)]


@TABLE.scenario
def the_tools_of_a_class_are_prepared(its: Any) -> Any:
    return its.prepare_tools(shop(its).get_tools())


@TABLE.scenario
def the_tools_of_a_class_are_run(its: Any) -> Any:
    toolset = shop(its)
    order, sell = toolset.get_tools()
    first = its.execute_tool_sync(sell, '{"count": 2}')
    return first, its.execute_tool_sync(order, {}), toolset.stock, sell.execute(1)


@TABLE.scenario
def the_name_of_a_toolset(its: Any) -> Any:
    toolset = shop(its)
    return toolset.name, toolset.format_tool_name("sell"), isinstance(toolset, its.Toolset)


@TABLE.scenario
def a_class_without_tools(its: Any) -> Any:
    return its.PythonToolset().get_tools(), its.PythonToolset().name


@TABLE.scenario
def a_class_inherits_tools(its: Any) -> Any:
    class Bigger(type(shop(its))):  # type: ignore[misc]
        @its.python_tool
        def close(self) -> None:
            """A tool by now."""

    return [it.name for it in Bigger().get_tools()]


@TABLE.scenario
def a_tool_of_a_class_without_a_docstring(its: Any) -> Any:
    class Bare(its.PythonToolset):
        @its.python_tool
        def go(self) -> None:
            pass

    with logged() as levels:
        tools = Bare().get_tools()
    return tools, levels, its.prepare_tools(tools)


@TABLE.scenario
def static_methods_are_no_tools(its: Any) -> Any:
    class Still(its.PythonToolset):
        @staticmethod
        @its.python_tool
        def stays(a: int) -> int:
            """Stay."""
            return a

        @classmethod
        @its.python_tool
        def goes(cls, a: int) -> int:
            """Go."""
            return a

    return [it.name for it in Still().get_tools()]


@TABLE.scenario
def a_marked_function_is_the_same_function(its: Any) -> Any:
    marked = its.python_tool(later)
    return marked is later, getattr(marked, its.TOOL_FLAG), its.TOOL_FLAG


@TABLE.scenario
def a_toolset_of_the_users_own(its: Any) -> Any:
    class Mine(its.Toolset):
        @property
        def name(self) -> str:
            return "mine"

        def get_tools(self) -> Any:
            return [its.ToolDef(self.format_tool_name("a"), "d", add)]

    return Mine().get_tools(), caught(its.Toolset)


@TABLE.scenario
def a_toolset_has_to_say_its_name(its: Any) -> Any:
    class Nameless(its.Toolset):
        def get_tools(self) -> Any:
            return []

    return Nameless()


# --- parameters of servers --------------------------------------------------------------------


@TABLE.scenario
def a_local_server_with_a_command(its: Any) -> Any:
    return its.LocalServerParams(command="run")


@TABLE.scenario
def a_local_server_with_everything(its: Any) -> Any:
    return its.LocalServerParams(
        command="run", args=["a"], env={"K": "v"}, cwd="/tmp", encoding_error_handler="replace"
    )


@TABLE.scenario
def the_fields_of_a_local_server(its: Any) -> Any:
    params = its.LocalServerParams(command="run", cwd=Path("/tmp"))
    return params.command, params.args, params.env, params.cwd, params.encoding


@TABLE.scenario
def a_local_server_without_a_command(its: Any) -> Any:
    return its.LocalServerParams(args=["a"])


@TABLE.scenario
def a_local_server_of_the_wrong_types(its: Any) -> Any:
    return [
        caught(its.LocalServerParams, command=5),
        caught(its.LocalServerParams, command="run", args="a"),
        caught(its.LocalServerParams, command="run", env={"a": 1}),
        caught(its.LocalServerParams, command="run", encoding_error_handler="loud"),
    ]


@TABLE.scenario
def parameters_of_a_server_are_given_by_name(its: Any) -> Any:
    return caught(its.LocalServerParams, "run"), caught(its.RemoteServerParams, "http://x")


@TABLE.scenario
def parameters_that_are_unknown_are_ignored(its: Any) -> Any:
    return its.LocalServerParams(command="run", colour="red"), its.RemoteServerParams(
        url="http://x", colour="red"
    )


@TABLE.scenario
def parameters_of_servers_are_compared_by_value(its: Any) -> Any:
    one = its.LocalServerParams(command="run")
    return (
        one == its.LocalServerParams(command="run"),
        one == its.LocalServerParams(command="walk"),
        its.RemoteServerParams(url="http://x") == its.RemoteServerParams(url="http://x"),
    )


@TABLE.scenario
def parameters_of_servers_can_be_changed(its: Any) -> Any:
    params = its.LocalServerParams(command="run")
    params.args.append("more")
    params.env = {"K": "v"}
    remote = its.RemoteServerParams(url="http://x")
    remote.url = "http://y"
    return params, remote, its.LocalServerParams(command="run").args


@TABLE.scenario
def parameters_of_servers_are_copied(its: Any) -> Any:
    params = its.LocalServerParams(command="run")
    return params.model_copy(update={"args": ["x"]}), params.model_dump_json()


@TABLE.scenario
def parameters_of_servers_are_read_from_a_dict(its: Any) -> Any:
    return its.LocalServerParams.model_validate(
        {"command": "run", "args": ["a"]}
    ), its.RemoteServerParams.model_validate({"url": "http://x", "oauth_params": None})


@TABLE.scenario
def a_remote_server_with_a_url(its: Any) -> Any:
    return its.RemoteServerParams(url="not even a url")


@TABLE.scenario
def a_remote_server_with_everything(its: Any) -> Any:
    return its.RemoteServerParams(
        url="https://example.com/mcp",
        bearer_token="t",
        oauth_params=its.OAuthParams(oauth_scopes=["read"], oauth_timeout=5),
        http_headers={"x-a": "b"},
    )


@TABLE.scenario
def a_remote_server_without_a_url(its: Any) -> Any:
    return its.RemoteServerParams(bearer_token="t")


@TABLE.scenario
def parameters_are_shown(its: Any) -> Any:
    remote = its.RemoteServerParams(url="https://example.com/mcp", bearer_token="topsecret")
    there = its.LocalServerParams(command="run", env={"KEY": "topsecret"})
    return ["topsecret" in it for it in (repr(remote), str(remote), repr(there), str(there))]


@TABLE.scenario
def parameters_are_refused_aloud(its: Any) -> Any:
    try:
        its.RemoteServerParams(bearer_token="topsecret")
    except ValueError as error:
        return "topsecret" in str(error)


@TABLE.scenario
def a_login_has_defaults(its: Any) -> Any:
    params = its.OAuthParams()
    return params.oauth_scopes, params.oauth_timeout


@TABLE.scenario
def a_login_by_position(its: Any) -> Any:
    params = its.OAuthParams(["read"], 7, "storage")
    return params.oauth_scopes, params.oauth_timeout, params.oauth_token_storage


@TABLE.scenario
def a_login_from_a_dict(its: Any) -> Any:
    params = its.RemoteServerParams(url="http://x", oauth_params={"oauth_scopes": ["a"]})
    return params.oauth_params.oauth_scopes, type(params.oauth_params.oauth_token_storage)


@TABLE.scenario
async def tokens_are_kept_in_memory(its: Any) -> Any:
    storage = its.InMemoryTokenStorage()
    before = await storage.get_tokens(), await storage.get_client_info()
    await storage.set_tokens("tokens")
    await storage.set_client_info("client")
    return before, storage.tokens, await storage.get_tokens(), await storage.get_client_info()


@TABLE.scenario
async def a_client_takes_another_storage(its: Any) -> Any:
    params = its.RemoteServerParams(url="http://x", oauth_params=its.OAuthParams())
    client = its.RemoteMcpClient("c", params, "storage")
    return client.name, params.oauth_params.oauth_token_storage


# --- clients ----------------------------------------------------------------------------------


@TABLE.scenario
def clients_have_the_name_of_their_server(its: Any) -> Any:
    remote = its.RemoteMcpClient("two", its.RemoteServerParams(url="http://x"))
    return (
        its.LocalMcpClient("one", local(its)).name,
        remote.name,
        isinstance(remote, its.McpClient),
    )


@TABLE.scenario
def clients_cannot_be_renamed(its: Any) -> Any:
    return caught(setattr, its.LocalMcpClient("one", local(its)), "name", "two")


@TABLE.scenario
def the_interface_of_a_client_is_abstract(its: Any) -> Any:
    return inspect.isabstract(its.McpClient), caught(its.McpClient)


@TABLE.scenario
async def a_client_that_is_not_connected(its: Any) -> Any:
    client = its.LocalMcpClient("one", local(its))
    await client.disconnect()
    return await acaught(client.list_tools()), await acaught(client.call_tool("echo"))


@TABLE.scenario
async def a_remote_client_that_is_not_connected(its: Any) -> Any:
    client = its.RemoteMcpClient("one", its.RemoteServerParams(url="http://127.0.0.1:1/mcp"))
    await client.disconnect()
    return await acaught(client.list_tools()), await acaught(client.call_tool("echo", {}))


@TABLE.scenario
def the_error_of_a_client_that_is_not_connected(its: Any) -> Any:
    error = its.McpSessionNotEstablishedError()
    return isinstance(error, RuntimeError), "connect()" in str(error)


@TABLE.scenario
async def a_client_lists_and_calls(its: Any) -> Any:
    client = its.LocalMcpClient("one", local(its))
    await client.connect()
    try:
        tools = await client.list_tools()
        result = await client.call_tool("echo", {"text": "hi"})
        failed = await client.call_tool("fail", {"message": "broken"})
    finally:
        await client.disconnect()
    is_error, content = result
    return (
        [(it.name, it.description, it.inputSchema, it.title, it.outputSchema) for it in tools],
        [it.annotations for it in tools][:1],
        (is_error, [(it.type, it.text, it.annotations, it.meta) for it in content]),
        (failed.is_error, [it.text for it in failed.content]),
        await acaught(client.list_tools()),
    )


@TABLE.scenario
async def a_client_connects_again(its: Any) -> Any:
    client = its.LocalMcpClient("one", local(its))
    found: list[Any] = []
    for _ in range(2):
        await client.connect()
        found.append((await client.call_tool("add", {"a": 1, "b": 2})).content[0].text)
        await client.disconnect()
    return found


@TABLE.scenario
async def a_program_that_does_not_exist(its: Any) -> Any:
    client = its.LocalMcpClient("one", its.LocalServerParams(command="no-such-program-here"))
    return await acaught(client.connect()), await acaught(client.list_tools())


@TABLE.scenario
async def a_directory_that_does_not_exist(its: Any) -> Any:
    params = its.LocalServerParams(command=sys.executable, cwd="/no/such/directory")
    return await acaught(its.LocalMcpClient("one", params).connect())


@TABLE.scenario
async def a_program_that_cannot_be_executed(its: Any) -> Any:
    return await acaught(its.LocalMcpClient("one", its.LocalServerParams(command=LIGHT)).connect())


@TABLE.scenario
async def two_clients_are_disconnected_in_turn(its: Any) -> Any:
    one, two = (its.LocalMcpClient(it, local(its)) for it in ("one", "two"))
    await one.connect()
    await two.connect()
    said = (await one.call_tool("echo", {"text": "1"}), await two.call_tool("echo", {"text": "2"}))
    await two.disconnect()
    await one.disconnect()
    return [it.content[0].text for it in said]


@TABLE.scenario
async def a_tool_that_the_server_does_not_have(its: Any) -> Any:
    client = its.LocalMcpClient("one", local(its))
    await client.connect()
    try:
        result = await client.call_tool("nothing", {})
    finally:
        await client.disconnect()
    return result.is_error, [it.text for it in result.content]


@TABLE.scenario
async def a_server_that_ends_at_once(its: Any) -> Any:
    params = its.LocalServerParams(command=sys.executable, args=["-c", "raise SystemExit(3)"])
    return await acaught(its.LocalMcpClient("one", params).connect())


@TABLE.scenario
async def a_server_that_ends_during_a_call(its: Any) -> Any:
    client = its.LocalMcpClient("one", local(its))
    await client.connect()
    try:
        return await acaught(client.call_tool("crash"))
    finally:
        await client.disconnect()


@TABLE.scenario
async def a_server_that_answers_with_an_error(its: Any) -> Any:
    script = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    told = json.loads(line)\n"
        "    version = told.get('params', {}).get('protocolVersion')\n"
        "    answer = {'error': {'code': -32602, 'message': 'no'}}\n"
        "    if told['method'] == 'initialize':\n"
        "        info = {'name': 'raw', 'version': '1'}\n"
        "        answer = {'result': {'protocolVersion': version, 'capabilities': {'tools': {}},\n"
        "                             'serverInfo': info}}\n"
        "    if 'id' in told:\n"
        "        print(json.dumps({'jsonrpc': '2.0', 'id': told['id'], **answer}), flush=True)\n"
    )
    params = its.LocalServerParams(command=sys.executable, args=["-c", script])
    client = its.LocalMcpClient("one", params)
    await client.connect()
    try:
        return await acaught(client.call_tool("echo"))
    finally:
        await client.disconnect()


@TABLE.scenario
async def a_result_that_is_not_of_the_protocol(its: Any) -> Any:
    command, args = answering({"content": "text"})
    client = its.LocalMcpClient("raw", its.LocalServerParams(command=command, args=args))
    await client.connect()
    try:
        return await acaught(client.call_tool("echo"))
    finally:
        await client.disconnect()


@TABLE.scenario
async def a_server_with_another_encoding(its: Any) -> Any:
    params = local(its)
    params.encoding = "latin-1"
    client = its.LocalMcpClient("one", params)
    outcome = await acaught(client.connect())
    await client.disconnect()
    return outcome


@TABLE.scenario
async def the_classes_of_what_a_server_sends(its: Any) -> Any:
    client = its.LocalMcpClient("one", local(its))
    await client.connect()
    (block,) = (await client.call_tool("echo", {"text": "hi"})).content
    await client.disconnect()
    return type(block)


@TABLE.scenario
def the_fields_that_a_server_did_not_send(its: Any) -> Any:
    return its.McpTool(name="one", inputSchema={}).model_dump()


@TABLE.scenario
def private_members(its: Any) -> Any:
    toolset = its.LocalMcpToolset("one", local(its))
    client = its.LocalMcpClient("one", local(its))
    return toolset._client is None, hasattr(client, "_session"), hasattr(client, "_exit_stack")


@TABLE.scenario
def a_result_is_a_tuple(its: Any) -> Any:
    result = its.McpToolResult(False, ["block"])
    return result, result == (False, ["block"]), result._fields, its.McpToolResult is its.ToolResult


@TABLE.scenario
def a_result_needs_both_parts(its: Any) -> Any:
    return its.McpToolResult(is_error=True)


@TABLE.scenario
def a_result_cannot_be_changed(its: Any) -> Any:
    return caught(setattr, its.McpToolResult(False, []), "is_error", True)


# --- toolsets of servers ----------------------------------------------------------------------


@TABLE.scenario
def a_toolset_connects_to_nothing_by_itself(its: Any) -> Any:
    one = its.LocalMcpToolset("one", its.LocalServerParams(command="no-such-program-here"))
    two = its.RemoteMcpToolset(name="two", params=its.RemoteServerParams(url="http://x"))
    kinds = [(isinstance(it, its.Toolset), isinstance(it, its.McpToolset)) for it in (one, two)]
    return one.name, two.name, kinds, one.format_tool_name("a")


@TABLE.scenario
def a_toolset_without_a_connection_has_no_tools(its: Any) -> Any:
    return its.LocalMcpToolset("one", local(its)).get_tools()


@TABLE.scenario
async def a_toolset_without_a_connection_cannot_be_refreshed(its: Any) -> Any:
    await its.LocalMcpToolset("one", local(its)).refresh_tools()


@TABLE.scenario
async def a_toolset_without_a_connection_can_be_disconnected(its: Any) -> Any:
    return await its.LocalMcpToolset("one", local(its)).disconnect()


@TABLE.scenario
async def the_tools_of_a_server(its: Any) -> Any:
    toolset = its.LocalMcpToolset("one", local(its))
    await toolset.connect()
    tools, plain = toolset.get_tools(), toolset.get_tools(namespaced_tool_name=False)
    await toolset.disconnect()
    return tools, [it.name for it in plain], caught(toolset.get_tools)


@TABLE.scenario
async def tools_for_a_model_under_the_name_of_their_toolset(its: Any) -> Any:
    toolset = its.LocalMcpToolset("one", local(its))
    await toolset.connect()
    tools = toolset.get_tools(namespaced_tool_name=True)
    await toolset.disconnect()
    names = [it["function"]["name"] for it in its.prepare_tools(tools)]
    return names, [its.find_tool_by_name(tools, it).name for it in names]


@TABLE.scenario
async def the_tools_of_a_server_are_definitions(its: Any) -> Any:
    toolset = its.LocalMcpToolset("one", local(its))
    await toolset.connect()
    (tool, *_) = toolset.get_tools(False)
    await toolset.disconnect()
    return (
        isinstance(tool, its.ToolDef),
        inspect.iscoroutinefunction(tool.execute),
        [it.kind.name for it in inspect.signature(tool.execute).parameters.values()],
        dataclasses.replace(tool, name="other").name,
        tool.metadata,
    )


@TABLE.scenario
async def the_tools_of_a_server_are_prepared(its: Any) -> Any:
    toolset = its.LocalMcpToolset("one", local(its))
    await toolset.connect()
    tools = toolset.get_tools()
    await toolset.disconnect()
    return (
        its.prepare_tools(tools),
        its.find_tool_by_name(tools, "one__echo"),
        [its.find_tool_by_name(tools, it) for it in ("echo", "wrapper")],
    )


@TABLE.scenario
async def the_tools_of_a_server_are_run(its: Any) -> Any:
    toolset = its.LocalMcpToolset("one", local(its))
    await toolset.connect()
    tools = {it.name: it for it in toolset.get_tools()}
    try:
        return [
            await tools["one__echo"].execute(text="grün"),
            await its.execute_tool(tools["one__echo"], '{"text": "hi"}'),
            await its.execute_tool(tools["one__add"], {"a": 1, "b": 2}),
            await its.execute_tool(tools["one__fail"], {"message": "broken"}),
        ]
    finally:
        await toolset.disconnect()


@TABLE.scenario
async def a_tool_of_a_closed_toolset(its: Any) -> Any:
    toolset = its.LocalMcpToolset("one", local(its))
    await toolset.connect()
    (echo, *_) = toolset.get_tools()
    await toolset.disconnect()
    return await acaught(echo.execute(text="hi"))


@TABLE.scenario
async def a_toolset_connects_again(its: Any) -> Any:
    toolset = its.LocalMcpToolset("one", local(its))
    await toolset.connect()
    (echo, *_) = toolset.get_tools()
    await toolset.disconnect()
    await toolset.connect()
    try:
        return await echo.execute(text="hi"), len(toolset.get_tools())
    finally:
        await toolset.disconnect()


@TABLE.scenario
async def a_toolset_whose_program_does_not_exist(its: Any) -> Any:
    toolset = its.LocalMcpToolset("one", its.LocalServerParams(command="no-such-program-here"))
    return await acaught(toolset.connect()), caught(toolset.get_tools)


@TABLE.scenario
async def a_server_gets_its_environment(its: Any) -> Any:
    params = its.LocalServerParams(
        command=sys.executable, args=["-S", "-E", LIGHT], env={"COLOUR": "grün"}
    )
    toolset = its.LocalMcpToolset("one", params)
    await toolset.connect()
    try:
        tool = its.find_tool_by_name(toolset.get_tools(), "one__env")
        return await tool.execute(name="COLOUR"), await tool.execute(name="PATH") != ""
    finally:
        await toolset.disconnect()


async def said(its: Any, *content: dict[str, Any], **more: Any) -> Any:
    """What a tool returns when its server answers with this content."""
    toolset = replying(its, *content, **more)
    await toolset.connect()
    try:
        with logged() as levels:
            text = await toolset.get_tools()[0].execute()
        return text, [it for it in levels if it != "DEBUG"]
    finally:
        await toolset.disconnect()


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


@TABLE.scenario
async def results_of_several_texts(its: Any) -> Any:
    return await said(its, text("one"), text(""), text("two\nlines"))


@TABLE.scenario
async def results_without_content(its: Any) -> Any:
    return await said(its), await said(its, isError=True)


@TABLE.scenario
async def results_with_structured_content_alone(its: Any) -> Any:
    return await said(its, structuredContent={"a": 1})


@TABLE.scenario
async def results_that_are_failures(its: Any) -> Any:
    return await said(its, text("no such file"), text("ask again"), isError=True)


@TABLE.scenario
async def results_with_images_and_sounds(its: Any) -> Any:
    image = {"type": "image", "data": "QUJD", "mimeType": "image/png"}
    audio = {"type": "audio", "data": "QUJD", "mimeType": "audio/wav"}
    return await said(its, text("look"), image, audio)


@TABLE.scenario
async def results_with_links(its: Any) -> Any:
    bare = {"type": "resource_link", "uri": "file:///var/log", "name": "log"}
    full = {**bare, "mimeType": "text/plain", "size": 5, "description": "The log."}
    return await said(its, bare, full, {**bare, "size": 0})


@TABLE.scenario
async def results_with_links_to_hosts(its: Any) -> Any:
    return await said(
        its,
        {"type": "resource_link", "uri": "https://example.com", "name": "home"},
        {"type": "resource_link", "uri": "https://EXAMPLE.com/A b", "name": "odd"},
    )


@TABLE.scenario
async def results_with_resources(its: Any) -> Any:
    inner = {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "grün"}
    blob = {"uri": "file:///a.bin", "blob": "QUJD"}
    return await said(
        its,
        {"type": "resource", "resource": inner},
        {"type": "resource", "resource": blob},
        {"type": "resource", "resource": {**blob, "mimeType": "image/png"}},
    )


@TABLE.scenario
async def the_content_of_a_result(its: Any) -> Any:
    inner = {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "grün"}
    image = {"type": "image", "data": "QUJD", "mimeType": "image/png"}
    command, args = answering({"content": [image, {"type": "resource", "resource": inner}]})
    client = its.LocalMcpClient("raw", its.LocalServerParams(command=command, args=args))
    await client.connect()
    try:
        shown, embedded = (await client.call_tool("echo")).content
    finally:
        await client.disconnect()
    resource = embedded.resource
    return (
        (shown.type, shown.data, shown.mimeType, hasattr(shown, "text"), shown.annotations),
        (embedded.type, str(resource.uri), resource.mimeType, resource.text),
    )


@TABLE.scenario
async def results_that_break_their_schema(its: Any) -> Any:
    tool = {"name": "echo", "inputSchema": {}, "outputSchema": {**SCHEMA, "title": "Out"}}
    found: list[Any] = []
    for structured in (None, {"text": 5}, {"text": "ok"}):
        command, args = answering(
            {"content": [text("hi")], **({"structuredContent": structured} if structured else {})},
            tools=[tool],
        )
        params = its.LocalServerParams(command=command, args=args)
        toolset = its.LocalMcpToolset("raw", params)
        await toolset.connect()
        found.append(await acaught(toolset.get_tools()[0].execute()))
        await toolset.disconnect()
    return found


# --- toolsets with a client of the user's own -------------------------------------------------


@TABLE.scenario
def a_toolset_needs_a_client(its: Any) -> Any:
    return its.McpToolset()


@TABLE.scenario
async def a_toolset_with_ones_own_client(its: Any) -> Any:
    client = fake(its)
    toolset = its.McpToolset(client)
    await toolset.connect()
    tools = toolset.get_tools()
    ran = await tools[0].execute(text="hi", self=1)
    await toolset.disconnect()
    return toolset.name, tools, ran, client.events


@TABLE.scenario
async def connecting_twice(its: Any) -> Any:
    client = fake(its)
    toolset = its.McpToolset(client=client)
    await toolset.connect()
    await toolset.connect()
    return client.events


@TABLE.scenario
async def disconnecting_twice(its: Any) -> Any:
    client = fake(its)
    toolset = its.McpToolset(client)
    await toolset.disconnect()
    await toolset.connect()
    await toolset.disconnect()
    await toolset.disconnect()
    return client.events


@TABLE.scenario
async def a_client_that_was_connected_before(its: Any) -> Any:
    client = fake(its)
    toolset = its.McpToolset(client)
    await toolset.refresh_tools()
    return [it.name for it in toolset.get_tools()], await toolset.get_tools()[0].execute()


@TABLE.scenario
async def the_list_of_tools_is_refreshed(its: Any) -> Any:
    client = fake(its)
    toolset = its.McpToolset(client)
    await toolset.connect()
    client.tools.append(its.McpTool(name="two", inputSchema={}))
    before = [it.name for it in toolset.get_tools()]
    await toolset.refresh_tools()
    tools = toolset.get_tools(False)
    return before, tools, its.prepare_tools(tools)[1]


@TABLE.scenario
async def what_is_noted_at_a_tool_stays_there(its: Any) -> Any:
    toolset = its.McpToolset(fake(its))
    await toolset.connect()
    toolset.get_tools()[0].metadata["seen"] = True
    toolset.get_tools(False)[0].description = "Changed."
    listed = toolset.get_tools(False)
    listed.clear()
    return toolset.get_tools()


@TABLE.scenario
async def errors_of_ones_own_client(its: Any) -> Any:
    found: list[Any] = []
    for event in ("connect", "list", "call", "disconnect"):
        client = fake(its, **{event: ZeroDivisionError()})
        toolset = its.McpToolset(client)
        found.append(await acaught(toolset.connect()))
        if event in ("call", "disconnect"):
            found.append(await acaught(toolset.get_tools()[0].execute()))
            found.append(await acaught(toolset.disconnect()))
    return found


@TABLE.scenario
async def a_block_of_an_unknown_kind(its: Any) -> Any:
    class Strange(type(fake(its))):  # type: ignore[misc]
        async def call_tool(self, tool_name: str, arguments: Any = None) -> Any:
            return its.McpToolResult(True, [SimpleNamespace(type="strange"), "text"])

    toolset = its.McpToolset(Strange())
    await toolset.connect()
    with logged() as levels:
        return await toolset.get_tools()[0].execute(), levels


@TABLE.scenario
def a_toolset_derived_from_the_class(its: Any) -> Any:
    class Mine(its.McpToolset):
        def __init__(self) -> None:
            super().__init__(fake(its))

        @property
        def name(self) -> str:
            return "mine"

    toolset = Mine()
    return toolset.name, toolset.format_tool_name("a"), caught(toolset.get_tools)


@TABLE.scenario
def a_tool_of_a_server_made_by_hand(its: Any) -> Any:
    tool = its.McpTool(name="one", inputSchema=SCHEMA)
    return tool.name, tool.description, tool.inputSchema, tool.title, tool.annotations


# --- remote servers ---------------------------------------------------------------------------


@TABLE.scenario
async def a_remote_server_is_used(its: Any) -> Any:
    with a_remote_server() as (url, seen):
        toolset = its.RemoteMcpToolset("two", its.RemoteServerParams(url=url))
        await toolset.connect()
        tools = toolset.get_tools()
        answer = await its.execute_tool(tools[0], '{"text": "grün"}')
        await toolset.disconnect()
    return tools, answer, {"authorization" in it for it in seen}


@TABLE.scenario
async def a_remote_server_that_moved(its: Any) -> Any:
    with a_remote_server() as (url, seen):
        params = its.RemoteServerParams(url=url.replace("/mcp", "/old"), bearer_token="t")
        client = its.RemoteMcpClient("two", params)
        await client.connect()
        names = [it.name for it in await client.list_tools()]
        await client.disconnect()
    return names, {it["authorization"] for it in seen}


@TABLE.scenario
async def a_remote_server_gets_a_token_and_headers(its: Any) -> Any:
    with a_remote_server() as (url, seen):
        params = its.RemoteServerParams(
            url=url, bearer_token="t", http_headers={"X-Team": "red", "Authorization": "other"}
        )
        client = its.RemoteMcpClient("two", params)
        await client.connect()
        names = [it.name for it in await client.list_tools()]
        await client.disconnect()
    return names, {it["authorization"] for it in seen}, {it["x-team"] for it in seen}


# --- logging ----------------------------------------------------------------------------------


@TABLE.scenario
def logging_is_enabled(its: Any) -> Any:
    return its.enable_logging(), its.enable_logging(level=10), its.enable_logging(30)
