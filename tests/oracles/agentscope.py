"""What a user of AgentScope does, run with `agentscope` and with ours."""

import asyncio
import contextlib
import copy
import dataclasses
import datetime
import functools
import http.server
import importlib
import json
import logging
import sqlite3
import sys
import tempfile
import threading
import types
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, Union

from pydantic import BaseModel, Field

from tests.oracles.outcomes import caught, raised
from tests.oracles.surface import public
from tests.oracles.table import Table

TABLE = Table()
# First cell of a row of the guide → scenarios, or places of the surface (dotted).
DIFFERENCES: dict[str, list[str]] = {
    "A model cannot change a preset argument": ["a_model_sends_a_preset_argument"],
    "The words of the meta tool and of the skill prompt are ours": [
        "the_description_of_the_meta_tool",
        "the_prompt_of_a_skill_in_the_default_words",
    ],
    "`client`, `session` and `stack` of a stateful client": ["what_a_stateful_client_holds"],
    "What `get_client()` opens": ["what_the_client_context_gives"],
    "`model_dump` of a tool or a `CallToolResult`, and `mimeType` of its content": [
        "objects_of_the_sdk_are_dumped"
    ],
    "Further `client_kwargs`: `auth`, `httpx_client_factory`, `terminate_on_close`": [
        "a_client_with_options_of_the_old_sdk"
    ],
}

MESSAGES = [
    *("AudioBlock", "Base64Source", "ContentBlock", "ImageBlock", "TextBlock", "ThinkingBlock"),
    *("ToolResultBlock", "ToolUseBlock", "URLSource", "VideoBlock"),
]


def names(side: str) -> Any:
    """Return the public names of a side: the clients, the Toolkit, and the blocks."""
    if side == "ours":
        return public("pegboard.compat.agentscope")
    tool = importlib.import_module("agentscope.tool")
    message = importlib.import_module("agentscope.message")
    found = vars(public("agentscope.mcp"))
    found |= {"Toolkit": tool.Toolkit, "ToolResponse": tool.ToolResponse}
    return types.SimpleNamespace(**found, **{it: getattr(message, it) for it in MESSAGES})


# A server of the older protocol, which both sides speak, in the standard library alone.
SERVER = r"""
import json, sys

TOOLS = [
    {"name": "echo", "description": "Say it again.", "inputSchema": {
        "type": "object", "title": "echoArguments", "required": ["text"],
        "properties": {"text": {"type": "string", "title": "Text"},
                       "times": {"type": "integer", "default": 1}}}},
    {"name": "bare", "inputSchema": {"type": "object"}},
    *({"name": it, "description": it, "inputSchema": {"type": "object", "properties": {}}}
      for it in ("media", "resource", "blob", "strange", "fail", "refuse", "hang", "noted")),
]
RESULTS = {
    "bare": {"content": []},
    "media": {"content": [
        {"type": "image", "data": "QUJD", "mimeType": "image/png"},
        {"type": "audio", "data": "REVG", "mimeType": "audio/wav"},
        {"type": "text", "text": "seen"}]},
    "resource": {"content": [{"type": "resource", "resource": {
        "uri": "file://notes.txt", "mimeType": "text/plain", "text": "gr\u00fcn"}}]},
    "blob": {"content": [{"type": "resource", "resource": {
        "uri": "file:///a.bin", "mimeType": "font/otf", "blob": "QUJD"}},
        {"type": "text", "text": "kept"}]},
    "fail": {"content": [{"type": "text", "text": "out of stock"}], "isError": True},
    "noted": {"content": [{"type": "text", "text": "noted"}], "_meta": {"trace": 1}},
}

def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "shop", "version": "1"}}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method != "tools/call" or params["name"] == "refuse":
        return None
    if params["name"] == "echo":
        given = params["arguments"]
        said = " ".join([str(given["text"])] * given.get("times", 1))
        return {"content": [{"type": "text", "text": said}]}
    return RESULTS.get(params["name"], {"content": []})

def replied(message):
    result = answer(message["method"], message.get("params") or {})
    reply = {"jsonrpc": "2.0", "id": message["id"]}
    wrong = {"code": -32601, "message": "not here"}
    return {**reply, "error": wrong} if result is None else {**reply, "result": result}

if __name__ == "__main__":
    for line in sys.stdin:
        message = json.loads(line)
        name = (message.get("params") or {}).get("name")
        if "id" in message and not (message["method"] == "tools/call" and name == "hang"):
            print(json.dumps(replied(message)), flush=True)
"""


class _Page(http.server.BaseHTTPRequestHandler):
    """The same server behind Streamable HTTP."""

    served: dict[str, Any] = {"__name__": "served"}

    def do_POST(self) -> None:
        if not (body := self.rfile.read(int(self.headers["Content-Length"]))):
            return  # the client has gone
        message = json.loads(body)
        reply = json.dumps(self.served["replied"](message)).encode() if "id" in message else b""
        self.send_response(200 if reply else 202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def do_GET(self) -> None:
        self.send_error(405)

    def do_DELETE(self) -> None:
        self.send_error(405)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


exec(SERVER, _Page.served)


@contextlib.contextmanager
def on_http() -> Generator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        finally:
            server.shutdown()


@contextlib.asynccontextmanager
async def shop(its: Any) -> AsyncGenerator[Any]:
    """Connect to the server on stdio."""
    client = its.StdIOStatefulClient("shop", sys.executable, ["-c", SERVER])
    await client.connect()
    try:
        yield client
    finally:
        await client.close()


def use(name: str, arguments: Any = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": "7", "name": name, "input": arguments or {}}


def seen(response: Any) -> dict[str, Any]:
    """Return a response without its id, which is another each time."""
    fields = {it.name: getattr(response, it.name) for it in dataclasses.fields(response)}
    return {key: it for key, it in fields.items() if key != "id"}


async def called(toolkit: Any, name: str, arguments: Any = None) -> Any:
    """Return all that a call answers, and how it ends if it fails."""
    found: list[Any] = []
    try:
        async for it in await toolkit.call_tool_function(use(name, arguments)):
            found.append(seen(it))  # noqa: PERF401 - what came before an error counts
    except Exception as error:
        found.append(raised(error))
    return found


def text(its: Any, words: str, **fields: Any) -> Any:
    return its.ToolResponse(content=[its.TextBlock(type="text", text=words)], **fields)


def toolkit_with(its: Any, *functions: Callable[..., Any], **options: Any) -> Any:
    toolkit = its.Toolkit()
    for function in functions:
        toolkit.register_tool_function(function, **options)
    return toolkit


def schema_of(its: Any, function: Callable[..., Any], **options: Any) -> Any:
    """Return the schema of a function, or how registering it fails."""
    toolkit = its.Toolkit()
    failed = caught(toolkit.register_tool_function, function, **options)
    return failed or toolkit.get_json_schemas()


def tool_names(toolkit: Any) -> list[str]:
    return [it["function"]["name"] for it in toolkit.get_json_schemas()]


@contextlib.contextmanager
def warnings_of(_its: Any) -> Generator[list[str]]:
    """Collect the levels of warnings and errors of either side's logger."""
    levels: list[str] = []

    class _Collector(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            levels.append(record.levelname)

    handler = _Collector(logging.WARNING)
    both = [logging.getLogger("as"), logging.getLogger("pegboard.compat")]
    for logger in both:
        logger.addHandler(handler)
    try:
        yield levels
    finally:
        for logger in both:
            logger.removeHandler(handler)


# responses and blocks


@TABLE.scenario
def a_response_with_content_alone(its: Any) -> Any:
    return seen(its.ToolResponse([]))


@TABLE.scenario
def a_response_by_position(its: Any) -> Any:
    return its.ToolResponse([], {"a": 1}, True, False, True, "one")


@TABLE.scenario
def the_fields_of_a_response(its: Any) -> Any:
    return dataclasses.asdict(text(its, "a", id="1")), [
        it.name for it in dataclasses.fields(its.ToolResponse)
    ]


@TABLE.scenario
def a_response_as_people_read_it(its: Any) -> Any:
    return repr(text(its, "a", id="1"))


@TABLE.scenario
def the_id_of_a_response(its: Any) -> Any:
    day, rest = its.ToolResponse([]).id.split(" ")
    clock, suffix = rest.split("_")
    return [len(day), len(clock), len(suffix), its.ToolResponse([]).id != its.ToolResponse([]).id]


@TABLE.scenario
def responses_that_are_equal(its: Any) -> Any:
    one = text(its, "a", id="1")
    return [
        one == text(its, "a", id="1"),
        one == text(its, "a", id="2"),
        one == text(its, "b", id="1"),
        one == text(its, "a", id="1", is_last=False),
        one == text(its, "a", id="1", is_interrupted=True),
        one == text(its, "a", id="1", metadata={}),
    ]


@TABLE.scenario
def a_response_is_a_key_of_no_dict(its: Any) -> Any:
    return hash(its.ToolResponse([]))


@TABLE.scenario
def a_response_is_changed(its: Any) -> Any:
    response = text(its, "a", id="1")
    response.content.append(its.TextBlock(type="text", text="b"))
    response.metadata = {"a": 1}
    return response, dataclasses.replace(response, id="2")


@TABLE.scenario
def a_response_without_content(its: Any) -> Any:
    return its.ToolResponse()


@TABLE.scenario
def blocks_are_dicts(its: Any) -> Any:
    source = its.Base64Source(type="base64", media_type="image/png", data="QUJD")
    return [
        its.TextBlock(type="text", text="a"),
        its.ThinkingBlock(type="thinking", thinking="hm"),
        its.ImageBlock(type="image", source=source),
        its.AudioBlock(type="audio", source=its.URLSource(type="url", url="https://a/b.wav")),
        its.VideoBlock(type="video", source=its.URLSource(type="url", url="https://a/b.mp4")),
        its.ToolUseBlock(type="tool_use", id="1", name="a", input={}, raw_input="{}"),
        its.ToolResultBlock(type="tool_result", id="1", name="a", output="done"),
    ]


@TABLE.scenario
def a_class_of_responses_with_a_field_more(its: Any) -> Any:
    @dataclasses.dataclass
    class Priced(its.ToolResponse):
        price: int = 0

    return [seen(Priced([], price=3)), Priced([], id="1") == Priced([], id="1")]


# schemas of local functions


class Item(BaseModel):
    """An item of a shop."""

    name: str = Field(description="What it is called")
    tags: list[str] = []


class Basket(BaseModel):
    """Items."""

    items: list[Item]
    by_name: dict[str, Item] = {}


class Extra(BaseModel):
    """More arguments."""

    why: str = Field(description="The reason")
    basket: Basket | None = None


def plain() -> None:
    """Do nothing."""


def typed(a: int, b: str, c: float, d: bool, e: list[int], f: dict[str, float]) -> None:
    """Take many types.

    The second paragraph
    goes on.

    Args:
        a (`int`): The first.
        b:
            The second,
            on two lines.
        c (float): The third.
    """


def with_defaults(a: int = 1, b: str = "x", c: Optional[list[Union[str, int]]] = None) -> None:  # noqa: UP007, UP045
    """Take defaults."""


UNTYPED: dict[str, Any] = {}
exec("def untyped(a, b=3, *args, **kwargs):\n    pass", UNTYPED)
untyped: Callable[..., Any] = UNTYPED["untyped"]


def variadic(*numbers: int, **options: str) -> None:
    """Take any number.

    Args:
        *numbers: All numbers.
        **options: All options.
    """


def numpy_style(a: int, b: str = "") -> None:
    """Say it in numpy's style.

    Parameters
    ----------
    a : int
        The first.
    b : str
        The second.
    """


def rest_style(a: int) -> None:
    """Say it in reST.

    :param a: The first.
    :returns: Nothing.
    """


def special(
    choice: Literal["a", "b"], day: datetime.date, basket: Basket, item: Item | None = None
) -> None:
    """Take special types."""


def keyword_only(a: int, *, b: int, c: int = 0) -> None:
    """Take keywords."""


def titled(title: str, items: list[str]) -> None:
    """Take a parameter named title."""


async def waiting(a: int) -> None:
    """Wait."""


class Counter:
    """Counts."""

    def count(self, by: int = 1) -> None:
        """Count up."""

    @classmethod
    def named(cls, name: str) -> None:
        """Make one."""

    @staticmethod
    def none(a: int) -> None:
        """Make none."""


FUNCTIONS: list[Callable[..., Any]] = [
    *(plain, typed, with_defaults, untyped, variadic, numpy_style, rest_style, special),
    *(keyword_only, titled, waiting, Counter().count, Counter.named, Counter.none),
]


@TABLE.scenario
def the_schemas_of_functions_of_many_kinds(its: Any) -> Any:
    return toolkit_with(its, *FUNCTIONS).get_json_schemas()


@TABLE.scenario
def the_schemas_with_star_arguments(its: Any) -> Any:
    return [
        schema_of(its, function, include_var_positional=positional, include_var_keyword=keyword)
        for function in (variadic, untyped)
        for positional in (True, False)
        for keyword in (True, False)
    ]


LATER: dict[str, Any] = {}
exec(
    "from __future__ import annotations\n"
    "def later(a: int, b: list[str], c: dict[str, float] = {}) -> None:\n"
    "    'Take types that are texts.'\n",
    LATER,
)


@TABLE.scenario
def the_schema_of_annotations_that_are_evaluated_later(its: Any) -> Any:
    return schema_of(its, LATER["later"])


@TABLE.scenario
def the_schema_of_annotated_parameters(its: Any) -> Any:
    def order(
        item: Annotated[str, Field(description="What to buy", max_length=5)],
        number: Annotated[int, "how many"] = Field(3, ge=1),
        *,
        size: float = Field(description="In inches"),
    ) -> None:
        """Order it.

        Args:
            item: The item.
            number: The number.
        """

    return schema_of(its, order)


@TABLE.scenario
def the_schema_of_a_decorated_function(its: Any) -> Any:
    def doubled(function: Any) -> Any:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        return run

    return schema_of(its, doubled(typed))


@TABLE.scenario
def parameters_with_odd_names(its: Any) -> Any:
    def odd(json: str, schema: int, model_name: str, copy: bool) -> None:
        """Take odd names."""

    def hidden(_private: int) -> None:
        """Take a private one."""

    return [schema_of(its, odd), schema_of(its, hidden)]


@TABLE.scenario
def the_schema_without_the_long_description(its: Any) -> Any:
    return schema_of(its, typed, include_long_description=False)


@TABLE.scenario
def the_schema_with_another_name_and_description(its: Any) -> Any:
    return schema_of(its, typed, func_name="other", func_description="Other words.")


@TABLE.scenario
def the_schema_of_a_type_that_json_does_not_know(its: Any) -> Any:
    def ask(database: sqlite3.Connection, query: str) -> None:
        """Ask."""

    return schema_of(its, ask)


@TABLE.scenario
def a_lambda_is_registered(its: Any) -> Any:
    return schema_of(its, lambda a, b=2: None)


@TABLE.scenario
def an_object_that_is_called_is_registered(its: Any) -> Any:
    class Caller:
        def __call__(self, a: int) -> None:
            """Call."""

    return schema_of(its, Caller())


@TABLE.scenario
def a_builtin_is_registered(its: Any) -> Any:
    return schema_of(its, len)


@TABLE.scenario
def a_definition_is_given(its: Any) -> Any:
    given = {
        "type": "function",
        "function": {
            "name": "legacy",
            "description": "Given.",
            "parameters": {
                "type": "object",
                "title": "Kept",
                "properties": {"a": {"type": "integer", "title": "A"}, "b": {}},
                "required": ["a"],
            },
        },
    }
    toolkit = its.Toolkit()
    for options in (
        {},
        {"func_name": "one"},
        {"func_name": "two", "func_description": "Other."},
        {"func_name": "three", "preset_kwargs": {"a": 1}},
        {"func_name": "four", "preset_kwargs": {"b": 1, "c": 2}},
    ):
        toolkit.register_tool_function(plain, json_schema=json.loads(json.dumps(given)), **options)
    return toolkit.get_json_schemas()


@TABLE.scenario
def malformed_definitions(its: Any) -> Any:
    toolkit = its.Toolkit()
    bad: list[Any] = [
        "a string",
        ["a list"],
        {"function": {"name": "a"}},
        {"type": "object", "function": {"name": "a"}},
        {"type": "function"},
        {"type": "function", "function": "a string"},
        {"type": "function", "function": {"name": "a"}},
    ]
    return [caught(toolkit.register_tool_function, plain, json_schema=it) for it in bad]


@TABLE.scenario
def an_empty_definition_is_none(its: Any) -> Any:
    return schema_of(its, plain, json_schema={})


@TABLE.scenario
def a_partial_function_is_registered(its: Any) -> Any:
    def mix(a: int, b: str, c: list[str], d: str = "abc") -> Any:
        """Mix them."""
        return text(its, f"{a} {b} {c} {d}")

    toolkit = toolkit_with(its, functools.partial(mix, 1, c=["x"]))
    partial = functools.partial(mix, 2, "b")
    toolkit.register_tool_function(partial, preset_kwargs={"c": []}, func_name="again")
    tool = toolkit.tools["again"]

    async def go() -> Any:
        return [
            toolkit.get_json_schemas(),
            [tool.original_name, tool.preset_kwargs, tool.original_func is mix],
            await called(toolkit, "mix", {"b": "B", "d": "D"}),
            await called(toolkit, "again"),
        ]

    return go()


@TABLE.scenario
def preset_arguments_are_not_in_the_schema(its: Any) -> Any:
    return [
        schema_of(its, typed, preset_kwargs={"a": 1, "c": 2.0}),
        schema_of(its, keyword_only, preset_kwargs={"a": 1, "b": 2}),
        schema_of(its, plain, preset_kwargs={"nonsense": 1}),
    ]


@TABLE.scenario
def a_preset_argument_of_a_type_that_is_no_json(its: Any) -> Any:
    def path(folder: object, name: str) -> Any:
        """Join."""
        return text(its, f"{folder}/{name}")

    toolkit = toolkit_with(its, path, preset_kwargs={"folder": Path("shop")})

    async def go() -> Any:
        return toolkit.get_json_schemas(), await called(toolkit, "path", {"name": "a"})

    return go()


@TABLE.scenario
def a_model_sends_a_preset_argument(its: Any) -> Any:
    def key(secret: str) -> Any:
        return text(its, secret)

    return called(toolkit_with(its, key, preset_kwargs={"secret": "a"}), "key", {"secret": "b"})


@TABLE.scenario
def registering_by_position(its: Any) -> Any:
    def seen_by(_call: Any, _response: Any) -> None:
        return None

    toolkit = its.Toolkit()
    toolkit.create_tool_group("g", "d", True, "notes")
    toolkit.register_tool_function(
        *(typed, "g", {"a": 1}, "other", "Words.", None, False, True, True, seen_by, "raise", False)
    )
    toolkit.register_tool_function(plain, "basic", {})
    tool = toolkit.tools["other"]
    return [
        toolkit.get_json_schemas(),
        [tool.group, tool.preset_kwargs, tool.original_name, tool.postprocess_func is seen_by],
        toolkit.groups,
    ]


# the extended model


@TABLE.scenario
def a_model_extends_a_tool(its: Any) -> Any:
    toolkit = toolkit_with(its, plain, keyword_only, special)
    for name in ("plain", "keyword_only", "special"):
        toolkit.set_extended_model(name, Extra)
    extended = json.loads(json.dumps(toolkit.get_json_schemas()))
    toolkit.set_extended_model("plain", None)
    return extended, toolkit.get_json_schemas()[0]


@TABLE.scenario
def a_model_with_a_field_that_the_tool_has(its: Any) -> Any:
    class Same(BaseModel):
        a: int

    toolkit = toolkit_with(its, keyword_only)
    toolkit.set_extended_model("keyword_only", Same)
    return toolkit.get_json_schemas()


@TABLE.scenario
def a_model_with_another_definition_of_a_name(its: Any) -> Any:
    other = type("Item", (BaseModel,), {"__annotations__": {"price": int}})
    more = type("More", (BaseModel,), {"__annotations__": {"other": other}})
    toolkit = toolkit_with(its, special)
    toolkit.set_extended_model("special", more)
    return toolkit.get_json_schemas()


@TABLE.scenario
def an_extended_model_that_cannot_be_set(its: Any) -> Any:
    toolkit = toolkit_with(its, plain)
    return [
        caught(toolkit.set_extended_model, "nothing", Extra),
        caught(toolkit.set_extended_model, "plain", int),
        caught(toolkit.set_extended_model, "plain", "Extra"),
    ]


@TABLE.scenario
def a_tool_gets_the_arguments_of_the_extended_model(its: Any) -> Any:
    def finish(**kwargs: Any) -> Any:
        return text(its, str(kwargs))

    toolkit = toolkit_with(its, finish)
    toolkit.set_extended_model("finish", Extra)
    return called(toolkit, "finish", {"why": "done"})


# what the toolkit keeps


@TABLE.scenario
def a_new_toolkit(its: Any) -> Any:
    toolkit = its.Toolkit()
    return [toolkit.tools, toolkit.groups, toolkit.skills, toolkit.get_json_schemas()]


@TABLE.scenario
def the_tools_of_a_toolkit(its: Any) -> Any:
    toolkit = toolkit_with(its, plain)
    return {**toolkit.tools, "plain": dataclasses.asdict(toolkit.tools["plain"])}


@TABLE.scenario
def the_names_of_renamed_tools(its: Any) -> Any:
    toolkit = toolkit_with(its, plain)
    toolkit.register_tool_function(plain, func_name="other")
    toolkit.register_tool_function(plain, func_name="other", namesake_strategy="rename")
    toolkit.register_tool_function(plain, namesake_strategy="rename")
    found = list(toolkit.tools.values())
    return [
        [it.original_name for it in found],
        [found[2].name.startswith("other_"), found[3].name.startswith("plain_")],
        [it.name == key == it.json_schema["function"]["name"] for key, it in toolkit.tools.items()],
    ]


@TABLE.scenario
def a_name_that_is_taken(its: Any) -> Any:
    def plain() -> Any:
        """Do something else."""

    toolkit = toolkit_with(its, globals()["plain"])
    outcomes = [
        caught(toolkit.register_tool_function, plain),
        caught(toolkit.register_tool_function, plain, namesake_strategy="nonsense"),
    ]
    levels: list[Any] = []
    for strategy in ("skip", "override"):
        with warnings_of(its) as heard:
            toolkit.register_tool_function(plain, namesake_strategy=strategy)
        levels.append([heard, toolkit.get_json_schemas()])
    return outcomes, levels


@TABLE.scenario
def a_strategy_that_is_none_matters_only_for_a_taken_name(its: Any) -> Any:
    return tool_names(toolkit_with(its, plain, namesake_strategy="nonsense"))


@TABLE.scenario
def tools_are_removed(its: Any) -> Any:
    toolkit = toolkit_with(its, plain, typed)
    toolkit.remove_tool_function("plain")
    toolkit.remove_tool_function("plain")
    return [
        list(toolkit.tools),
        caught(toolkit.remove_tool_function, "plain", False),
        caught(toolkit.remove_tool_function, "plain", allow_not_exist=True),
        toolkit.remove_tool_function("typed", allow_not_exist=False),
        toolkit.tools,
    ]


@TABLE.scenario
def the_dict_of_tools_is_changed_by_hand(its: Any) -> Any:
    def one() -> Any:
        return text(its, "one")

    def two() -> Any:
        return text(its, "two")

    toolkit = toolkit_with(its, one, two)
    toolkit.tools["one"].original_func = two
    moved = toolkit.tools.pop("two")
    toolkit.tools["three"] = moved

    async def go() -> Any:
        return [await called(toolkit, it) for it in ("one", "two", "three")]

    return go()


@TABLE.scenario
def a_toolkit_is_cleared(its: Any) -> Any:
    toolkit = toolkit_with(its, plain)
    toolkit.create_tool_group("g", "d")
    toolkit.clear()
    return [toolkit.tools, toolkit.groups]


@TABLE.scenario
async def a_toolkit_is_copied(its: Any) -> Any:
    def say() -> Any:
        return text(its, "a")

    toolkit = toolkit_with(its, say)
    toolkit.create_tool_group("g", "d")
    await called(toolkit, "say")
    deep, flat = copy.deepcopy(toolkit), copy.copy(toolkit)
    toolkit.remove_tool_function("say")
    return [
        [list(deep.tools), list(flat.tools), deep.groups],
        await called(deep, "say"),
        await called(flat, "say"),
    ]


@TABLE.scenario
def a_toolkit_is_derived_from(its: Any) -> Any:
    class Own(its.Toolkit):
        def __init__(self) -> None:
            super().__init__()
            self.calls: list[str] = []

        async def call_tool_function(self, tool_call: Any) -> Any:
            self.calls.append(tool_call["name"])
            return await super().call_tool_function(tool_call)

    toolkit = Own()

    async def go() -> Any:
        return await called(toolkit, "nothing"), toolkit.calls

    return go()


@TABLE.scenario
def unknown_parameters_are_refused(its: Any) -> Any:
    toolkit = its.Toolkit()
    return [
        caught(toolkit.register_tool_function, plain, nonsense=1),
        caught(toolkit.register_tool_function),
        caught(toolkit.create_tool_group),
        caught(its.Toolkit, nonsense=1),
    ]


# groups


@TABLE.scenario
def a_group_is_created(its: Any) -> Any:
    toolkit = its.Toolkit()
    toolkit.create_tool_group("a", "A.")
    toolkit.create_tool_group("b", "B.", True)
    toolkit.create_tool_group(group_name="c", description="C.", active=True, notes="Beware.")
    return [
        toolkit.groups,
        caught(toolkit.create_tool_group, "a", "A."),
        caught(toolkit.create_tool_group, "basic", "B."),
    ]


@TABLE.scenario
def a_tool_of_a_group_is_there_while_it_is_active(its: Any) -> Any:
    def inside() -> Any:
        """Be inside."""
        return text(its, "in")

    toolkit = its.Toolkit()
    missing = caught(toolkit.register_tool_function, inside, "g")
    toolkit.create_tool_group("g", "d")
    toolkit.register_tool_function(inside, "g")

    async def go() -> Any:
        found = [missing, toolkit.get_json_schemas(), await called(toolkit, "inside")]
        toolkit.update_tool_groups(["g"], True)
        found += [toolkit.get_json_schemas(), await called(toolkit, "inside")]
        toolkit.groups["g"].active = False
        return [*found, tool_names(toolkit), await called(toolkit, "inside")]

    return go()


@TABLE.scenario
def groups_that_cannot_be_switched(its: Any) -> Any:
    toolkit = toolkit_with(its, plain)
    with warnings_of(its) as heard:
        toolkit.update_tool_groups(["basic", "nothing"], False)
        toolkit.update_tool_groups(group_names=["nothing"], active=True)
    return [heard, tool_names(toolkit), toolkit.groups]


@TABLE.scenario
def groups_are_removed_with_their_tools(its: Any) -> Any:
    toolkit = toolkit_with(its, plain)
    for name, function in (("a", typed), ("b", keyword_only), ("c", waiting)):
        toolkit.create_tool_group(name, name)
        toolkit.register_tool_function(function, name)
    toolkit.remove_tool_groups("a")
    toolkit.remove_tool_groups(["b", "nothing"])
    return [
        list(toolkit.tools),
        list(toolkit.groups),
        caught(toolkit.remove_tool_groups, "basic"),
        caught(toolkit.remove_tool_groups, ["c", "basic"]),
        caught(toolkit.remove_tool_groups, 5),
        caught(toolkit.remove_tool_groups, [5]),
        list(toolkit.groups),
    ]


@TABLE.scenario
def the_notes_of_the_active_groups(its: Any) -> Any:
    toolkit = its.Toolkit()
    empty = toolkit.get_activated_notes()
    toolkit.create_tool_group("a", "A", True, "First a.\nThen b.")
    toolkit.create_tool_group("b", "B", True)
    toolkit.create_tool_group("c", "C", False, "Never.")
    toolkit.create_tool_group("d", "D", True, "Last.")
    return empty, toolkit.get_activated_notes()


@TABLE.scenario
def an_agent_chooses_its_groups(its: Any) -> Any:
    toolkit = its.Toolkit()
    toolkit.register_tool_function(toolkit.reset_equipped_tools)
    toolkit.create_tool_group("web", "Browse.", notes="1. Click.\n")
    toolkit.create_tool_group("file", "Read files.", active=True)
    toolkit.register_tool_function(plain, "web")
    toolkit.register_tool_function(typed, "file")
    shown = toolkit.get_json_schemas()[0]["function"]["parameters"]

    async def go() -> Any:
        found: list[Any] = [shown, tool_names(toolkit)]
        for chosen in ({"web": True}, {"web": True, "file": True}, {"file": False}, {}, {"web": 1}):
            found.append(await called(toolkit, "reset_equipped_tools", chosen))
            found.append(tool_names(toolkit))
        return [
            *found,
            await called(toolkit, "plain"),
            await called(toolkit, "reset_equipped_tools", {"no": True}),
        ]

    return go()


@TABLE.scenario
def the_description_of_the_meta_tool(its: Any) -> Any:
    toolkit = its.Toolkit()
    toolkit.register_tool_function(toolkit.reset_equipped_tools)
    return toolkit.get_json_schemas()


@TABLE.scenario
def the_state_of_a_toolkit(its: Any) -> Any:
    toolkit = its.Toolkit()
    for name in "abc":
        toolkit.create_tool_group(name, name, name == "b")
    state = toolkit.state_dict()
    toolkit.load_state_dict({"active_groups": ["a", "c", "nothing"]})
    return [state, toolkit.state_dict(), toolkit.load_state_dict(state), toolkit.state_dict()]


@TABLE.scenario
def states_that_are_none(its: Any) -> Any:
    toolkit = its.Toolkit()
    more = {"active_groups": [], "more": 1}
    return [
        *(
            caught(toolkit.load_state_dict, it)
            for it in ({}, [], None, {"active_groups": "a"}, more)
        ),
        caught(toolkit.load_state_dict, more, False),
        caught(toolkit.register_state, "groups"),
        caught(toolkit.register_state, "nothing"),
        caught(toolkit.register_state, "call_tool_function"),
    ]


# calls


@TABLE.scenario
async def functions_of_every_kind_are_called(its: Any) -> Any:
    def sync(a: int) -> Any:
        return text(its, str(a))

    async def later(a: int) -> Any:
        await asyncio.sleep(0)
        return text(its, str(a), metadata={"a": a})

    def chunks(a: int) -> Any:
        for number in range(a):
            yield text(its, str(number), stream=True, is_last=number == a - 1)

    async def later_chunks(a: int) -> Any:
        for number in range(a):
            yield text(its, str(number), stream=True)

    async def gives_chunks(a: int) -> Any:
        return chunks(a)

    async def gives_later_chunks(a: int) -> Any:
        return later_chunks(a)

    functions = [sync, later, chunks, later_chunks, gives_chunks, gives_later_chunks]
    toolkit = toolkit_with(its, *functions)
    return [await called(toolkit, it.__name__, {"a": 2}) for it in functions]


@TABLE.scenario
async def the_response_is_the_very_object(its: Any) -> Any:
    response = text(its, "a")
    toolkit = toolkit_with(its, plain_tool := (lambda: response), func_name="a")
    found = [it async for it in await toolkit.call_tool_function(use("a"))]
    return [plain_tool() is it for it in found]


@TABLE.scenario
async def arguments_arrive_as_the_model_sent_them(its: Any) -> Any:
    def show(item: Item, day: datetime.date, number: int) -> Any:
        return text(its, repr([item, day, number]))

    toolkit = toolkit_with(its, show)
    return await called(
        toolkit, "show", {"item": {"name": "a"}, "day": "2026-01-01", "number": "5"}
    )


@TABLE.scenario
async def a_call_without_input(its: Any) -> Any:
    toolkit = toolkit_with(its, lambda: text(its, "a"), func_name="a")
    asked = [
        {"type": "tool_use", "id": "1", "name": "a"},
        {"type": "tool_use", "id": "1", "name": "a", "input": None},
        {"name": "a"},
    ]
    return [[seen(it) async for it in await toolkit.call_tool_function(one)] for one in asked]


@TABLE.scenario
async def a_call_of_nothing(its: Any) -> Any:
    toolkit = its.Toolkit()
    return [await called(toolkit, "nothing"), await called(toolkit, "")]


@TABLE.scenario
async def calls_with_wrong_arguments(its: Any) -> Any:
    def take(a: int) -> Any:
        return text(its, str(a))

    def give(a: int) -> Any:
        yield text(its, str(a))

    async def give_later(a: int) -> Any:
        yield text(its, str(a))

    toolkit = toolkit_with(its, take, give, give_later)
    wrong: list[dict[str, int]] = [{}, {"a": 1, "b": 2}, {"c": 1}]
    return [await called(toolkit, name, it) for name in toolkit.tools for it in wrong]


@TABLE.scenario
async def a_tool_fails(its: Any) -> Any:
    def at_once() -> Any:
        raise ZeroDivisionError("by zero")

    async def later() -> Any:
        await asyncio.sleep(0)
        raise KeyError("k")

    def chunks() -> Any:
        yield text(its, "first")
        raise ValueError("second")

    async def later_chunks() -> Any:
        yield text(its, "first")
        raise OSError("second")

    toolkit = toolkit_with(its, at_once, later, chunks, later_chunks)
    return [await called(toolkit, name) for name in toolkit.tools]


@TABLE.scenario
async def a_tool_is_interrupted(its: Any) -> Any:
    async def later() -> Any:
        raise asyncio.CancelledError

    async def at_once() -> Any:
        raise asyncio.CancelledError
        yield

    async def chunks() -> Any:
        yield text(its, "first", stream=True, is_last=False)
        yield text(its, "second", stream=True, is_last=False)
        raise asyncio.CancelledError

    async def gives_chunks() -> Any:
        return chunks()

    toolkit = toolkit_with(its, later, at_once, chunks, gives_chunks)
    return [await called(toolkit, name) for name in toolkit.tools]


@TABLE.scenario
async def the_task_of_a_call_is_cancelled(its: Any) -> Any:
    begun = asyncio.Event()

    async def hang() -> Any:
        begun.set()
        await asyncio.Event().wait()

    async def chunks() -> Any:
        yield text(its, "first", stream=True)
        begun.set()
        await asyncio.Event().wait()

    toolkit = toolkit_with(its, hang, chunks)
    found: list[Any] = []
    for name in toolkit.tools:
        begun.clear()
        task = asyncio.ensure_future(called(toolkit, name))
        await begun.wait()
        task.cancel()
        found.append(await task)
    return found


@TABLE.scenario
async def a_tool_starts_when_the_first_response_is_asked_for(its: Any) -> Any:
    ran: list[str] = []

    def note() -> Any:
        ran.append("note")
        return text(its, "a")

    toolkit = toolkit_with(its, note)
    stream = await toolkit.call_tool_function(use("note"))
    before = list(ran)
    found = [seen(it) async for it in stream]
    return [before, ran, found]


@TABLE.scenario
async def a_tool_runs_in_the_thread_of_the_agent(its: Any) -> Any:
    here, loop = threading.get_ident(), asyncio.get_running_loop()

    def where() -> Any:
        return text(its, str([threading.get_ident() == here, asyncio.get_running_loop() is loop]))

    def chunks() -> Any:
        yield text(its, str(threading.get_ident() == here))

    toolkit = toolkit_with(its, where, chunks)
    return [await called(toolkit, name) for name in toolkit.tools]


@TABLE.scenario
async def a_reader_that_stops_early(its: Any) -> Any:
    async def chunks() -> Any:
        for number in range(3):
            yield text(its, str(number))

    stream = await toolkit_with(its, chunks).call_tool_function(use("chunks"))
    first = [seen(await anext(stream))]
    await stream.aclose()
    return [*first, [it async for it in stream]]


@TABLE.scenario
async def calls_run_side_by_side(its: Any) -> Any:
    both = asyncio.Event()
    running: list[str] = []

    async def meet() -> Any:
        running.append("one")
        if len(running) == 2:
            both.set()
        await both.wait()
        return text(its, "met")

    toolkit = toolkit_with(its, meet)
    return await asyncio.gather(called(toolkit, "meet"), called(toolkit, "meet"))


@TABLE.scenario
async def responses_are_postprocessed(its: Any) -> Any:
    asked: list[Any] = []

    def louder(call: Any, response: Any) -> Any:
        asked.append(call)
        return text(its, response.content[0]["text"] + "!")

    async def later(call: Any, response: Any) -> Any:
        return louder(call, response)

    def changing(_call: Any, response: Any) -> None:
        response.content.append(its.TextBlock(type="text", text="more"))

    def say() -> Any:
        return text(its, "a")

    def chunks() -> Any:
        yield text(its, "a")
        yield text(its, "b")

    def fail() -> Any:
        raise ValueError("no")

    toolkit = its.Toolkit()
    for number, seer in enumerate((louder, later, changing)):
        for function in (say, chunks, fail):
            name = f"{function.__name__}{number}"
            toolkit.register_tool_function(function, func_name=name, postprocess_func=seer)
    return [await called(toolkit, name) for name in toolkit.tools], asked


@TABLE.scenario
async def a_postprocess_that_fails(its: Any) -> Any:
    def bad(_call: Any, _response: Any) -> Any:
        raise ValueError("no")

    toolkit = its.Toolkit()
    toolkit.register_tool_function(lambda: text(its, "a"), func_name="a", postprocess_func=bad)
    return await called(toolkit, "a")


@TABLE.scenario
async def middlewares_are_layers(its: Any) -> Any:
    def layer(name: str) -> Any:
        async def around(kwargs: dict[str, Any], next_handler: Any) -> Any:
            call = kwargs["tool_call"]
            call = {**call, "input": {"a": f"{call['input']['a']}<{name}"}}
            async for response in await next_handler(tool_call=call):
                response.content[0]["text"] += f"{name}>"
                yield response
            yield text(its, f"{name} is done")

        return around

    def say(a: str) -> Any:
        return text(its, a)

    toolkit = toolkit_with(its, say)
    toolkit.register_middleware(layer("1"))
    toolkit.register_middleware(layer("2"))
    return await called(toolkit, "say", {"a": "a"})


@TABLE.scenario
async def a_middleware_answers_by_itself(its: Any) -> Any:
    async def refuse(kwargs: dict[str, Any], _next_handler: Any) -> Any:
        yield text(its, f"no {kwargs['tool_call']['name']}")

    toolkit = its.Toolkit()
    toolkit.register_middleware(refuse)
    return await called(toolkit, "anything")


@TABLE.scenario
async def a_middleware_fails(its: Any) -> Any:
    async def bad(kwargs: dict[str, Any], next_handler: Any) -> Any:
        async for response in await next_handler(**kwargs):
            yield response
        raise PermissionError("after")

    toolkit = toolkit_with(its, lambda: text(its, "a"), func_name="a")
    toolkit.register_middleware(bad)
    return await called(toolkit, "a")


# tools that are only started


async def started(toolkit: Any, name: str) -> str:
    """Start a tool, and return the id of its task."""
    (response,) = await called(toolkit, name)
    return response["content"][0]["text"].split("Task ID: ")[1].split(".")[0]


def without(task: str, response: Any) -> Any:
    return json.loads(json.dumps(seen(response)).replace(task, "ID"))


@TABLE.scenario
async def a_tool_is_started_and_awaited(its: Any) -> Any:
    go_on = asyncio.Event()

    async def slow() -> Any:
        await go_on.wait()
        return text(its, "done", metadata={"a": 1})

    toolkit = toolkit_with(its, slow, async_execution=True)
    (response,) = [it async for it in await toolkit.call_tool_function(use("slow"))]
    task = response.content[0]["text"].split("Task ID: ")[1].split(".")[0]
    found = [without(task, response), without(task, await toolkit.view_task(task))]
    found.append(without(task, await toolkit.wait_task(task, timeout=0.01)))
    go_on.set()
    found.append(without(task, await toolkit.wait_task(task)))
    return [*found, without(task, await toolkit.view_task(task))]


@TABLE.scenario
async def tools_of_every_kind_are_started(its: Any) -> Any:
    def sync() -> Any:
        return text(its, "sync")

    def chunks() -> Any:
        yield text(its, "a", stream=True)
        yield text(its, "b", stream=True)

    async def later_chunks() -> Any:
        yield text(its, "a", stream=True)
        yield text(its, "b", stream=True)

    async def fail() -> Any:
        raise ValueError("no")

    async def fail_within() -> Any:
        yield text(its, "a")
        raise ValueError("no")

    toolkit = toolkit_with(its, sync, chunks, later_chunks, fail, fail_within, async_execution=True)
    tasks = [await started(toolkit, name) for name in toolkit.tools]
    return [without(it, await toolkit.wait_task(it, 5)) for it in tasks]


@TABLE.scenario
async def a_started_tool_is_cancelled(its: Any) -> Any:
    begun = asyncio.Event()

    async def hang() -> Any:
        begun.set()
        await asyncio.Event().wait()

    toolkit = toolkit_with(its, hang, async_execution=True)
    task = await started(toolkit, "hang")
    await begun.wait()
    found = [without(task, await toolkit.cancel_task(task))]
    for _ in range(5):
        await asyncio.sleep(0)
    found.append(without(task, await toolkit.view_task(task)))
    return [*found, without(task, await toolkit.cancel_task(task))]


@TABLE.scenario
async def a_finished_tool_cannot_be_cancelled(its: Any) -> Any:
    async def quick() -> Any:
        return text(its, "done")

    toolkit = toolkit_with(its, quick, async_execution=True)
    task = await started(toolkit, "quick")
    for _ in range(5):
        await asyncio.sleep(0)
    found = [without(task, await toolkit.cancel_task(task))]
    return [*found, without(task, await toolkit.view_task(task))]


@TABLE.scenario
async def tasks_that_do_not_exist(its: Any) -> Any:
    toolkit = its.Toolkit()
    return [
        seen(await toolkit.view_task("a")),
        seen(await toolkit.cancel_task("a")),
        seen(await toolkit.wait_task("a")),
        seen(await toolkit.wait_task("a", 1)),
    ]


# skills


def skill(folder: str, name: str, page: str) -> str:
    path = Path(folder) / name
    path.mkdir()
    (path / "SKILL.md").write_text(page, "utf-8")
    return str(path)


PAGES = {
    "plain": "---\nname: one\ndescription: Do one thing.\n---\n# One\n",
    "quoted": "---\nname: \"two\"\ndescription: 'It''s: quoted'\nlicense: MIT\n---\n",
    "folded": "---\nname: three\ndescription: >-\n  Over\n  two lines.\n---\nText\n",
    "literal": "---\nname: four # a remark\ndescription: |-\n  First\n  second\n---\n",
    "wrapped": "---\nname: five\ndescription: It goes\n  on here.\nmetadata:\n  name: inner\n---\n",
    "paragraphs": "---\nname: eight\ndescription: >\n  One\n  line.\n\n  Another.\n---\n",
    "clipped": "---\nname: nine\ndescription: |\n  First\n    deeper\n---\n",
    "escaped": '---\nname: ten\ndescription: "a \\"b\\"\\n  c: d # e"\n---\n',
    "windows": "---\r\nname: eleven\r\ndescription: It works.\r\n---\r\n",
    "long quote": '---\nname: twelve\ndescription: "It goes\n  on: here."\ntools: [a]\n---\n',
    "comment": "---\n# a remark\nname: thirteen\n\ndescription: a#b\n---\n",
    "chinese": "---\nname: 六\ndescription: 技能\n---\n",
    "number": "---\nname: 7\ndescription: 7\n---\n",
    "no head": "# A page\nname: a\n",
    "no name": "---\ndescription: a\n---\n",
    "empty": "---\nname:\ndescription: a\n---\n",
    "again": "---\nname: one\ndescription: Again.\n---\n",
}


@TABLE.scenario
def skills_are_registered(its: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        toolkit = its.Toolkit("Instructions", "{name}: {description} in {dir}")
        outcomes = {
            name: caught(toolkit.register_agent_skill, skill(folder, name, page))
            for name, page in PAGES.items()
        }
        outcomes["no folder"] = caught(toolkit.register_agent_skill, f"{folder}/nothing")
        outcomes["no page"] = caught(toolkit.register_agent_skill, folder)
        known = json.loads(json.dumps(toolkit.skills).replace(folder, "HERE"))
        prompt = toolkit.get_agent_skill_prompt().replace(folder, "HERE")
    return [outcomes, known, prompt]


@TABLE.scenario
def skills_are_removed(its: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder, warnings_of(its) as heard:
        toolkit = its.Toolkit()
        none = toolkit.get_agent_skill_prompt()
        toolkit.register_agent_skill(skill(folder, "a", PAGES["plain"]))
        toolkit.remove_agent_skill("one")
        toolkit.remove_agent_skill("one")
    return [none, toolkit.skills, toolkit.get_agent_skill_prompt(), heard]


@TABLE.scenario
def the_prompt_of_a_skill_in_the_default_words(its: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        toolkit = its.Toolkit()
        toolkit.register_agent_skill(skill(folder, "a", PAGES["plain"]))
        return toolkit.get_agent_skill_prompt().replace(folder, "HERE")


# clients


@TABLE.scenario
def clients_by_position(its: Any) -> Any:
    stateless = its.HttpStatelessClient("a", "sse", "https://example.com/sse", {"x": "y"}, 3, 4)
    stateful = its.HttpStatefulClient("b", "streamable_http", "https://example.com", None, 1.5, 2)
    stdio = its.StdIOStatefulClient("c", "x", ["a"], {"A": "b"}, ".", "utf-8", "replace")
    return [
        [stateless.name, stateless.transport, stateless.client_config, stateless.stateful],
        [stateful.name, stateful.transport, stateful.is_connected],
        [stdio.name, stdio.is_connected],
    ]


@TABLE.scenario
def a_stateless_client_with_defaults(its: Any) -> Any:
    client = its.HttpStatelessClient(name="a", transport="streamable_http", url="https://a.example")
    return client.client_config, its.HttpStatelessClient.stateful


@TABLE.scenario
def a_transport_that_is_none(its: Any) -> Any:
    return [
        caught(kind, "a", transport, "https://a.example")
        for kind in (its.HttpStatelessClient, its.HttpStatefulClient)
        for transport in ("stdio", "", None)
    ]


@TABLE.scenario
def the_base_of_clients(its: Any) -> Any:
    class Own(its.MCPClientBase):
        async def get_callable_function(self, func_name: str, *_: Any, **__: Any) -> Any:
            return func_name

    base = its.MCPClientBase("base")
    kinds = (its.StatefulClientBase, its.HttpStatelessClient)
    return [
        base.name,
        Own("own").name,
        its.StatefulClientBase("kept").is_connected,
        [issubclass(it, its.MCPClientBase) for it in kinds],
        [
            issubclass(it, its.StatefulClientBase)
            for it in (its.HttpStatefulClient, its.StdIOStatefulClient)
        ],
        its.MCPClientBase.get_callable_function.__isabstractmethod__,
    ]


@TABLE.scenario
async def a_stateful_client_lives(its: Any) -> Any:
    client = its.StdIOStatefulClient("shop", sys.executable, ["-c", SERVER])
    found = [client.is_connected]
    await client.connect()
    found.append(client.is_connected)
    found.append([it.name for it in await client.list_tools()])
    await client.close(False)
    return [*found, client.is_connected]


@TABLE.scenario
async def a_client_that_was_closed(its: Any) -> Any:
    async with shop(its) as client:
        echo = await client.get_callable_function("echo")
    found: list[Any] = [client.is_connected]
    for action in (client.list_tools(), client.get_callable_function("echo")):
        try:
            found.append(await action)
        except Exception as error:
            found.append(raised(error))
    return [*found, echo.name]


@TABLE.scenario
async def a_program_that_does_not_exist(its: Any) -> Any:
    client = its.StdIOStatefulClient("none", "/no/such/program")
    try:
        await client.connect()
    except FileNotFoundError:
        return ["FileNotFoundError", client.is_connected]
    return client.is_connected


@TABLE.scenario
async def objects_of_the_sdk_are_read(its: Any) -> Any:
    async with shop(its) as client:
        tools = {it.name: it for it in await client.list_tools()}
        echo = await client.get_callable_function("echo", wrap_tool_result=False)
        done = await echo(text="a")
        return [
            tools["echo"].inputSchema["required"],
            tools["echo"].outputSchema is None,
            [done.isError, [it.text for it in done.content], type(done).__name__],
            hasattr(done, "structuredContent"),
        ]


@TABLE.scenario
async def objects_of_the_sdk_are_dumped(its: Any) -> Any:
    async with shop(its) as client:
        return "inputSchema" in (await client.list_tools())[0].model_dump()


@TABLE.scenario
async def a_tool_as_a_function(its: Any) -> Any:
    async with shop(its) as client:
        echo = await client.get_callable_function("echo")
        raw = await client.get_callable_function("echo", False)
        timed = await client.get_callable_function("echo", True, 5)
        return [
            [echo.mcp_name, echo.name, echo.description, echo.json_schema, echo.wrap_tool_result],
            [echo.timeout, str(timed.timeout), echo.client_gen, callable(echo)],
            seen(await echo(text="hi", times=2)),
            [it.text for it in (await raw(text="hi")).content],
            seen(await timed(text="ü")),
        ]


@TABLE.scenario
async def a_tool_without_description_as_a_function(its: Any) -> Any:
    async with shop(its) as client:
        bare = await client.get_callable_function(func_name="bare", wrap_tool_result=True)
        return [bare.description, bare.json_schema, seen(await bare())]


@TABLE.scenario
async def a_tool_that_the_server_does_not_have(its: Any) -> Any:
    async with shop(its) as client:
        return await client.get_callable_function("nothing")


@TABLE.scenario
async def the_content_of_results(its: Any) -> Any:
    async with shop(its) as client:
        found: list[Any] = []
        for name in ("media", "resource", "fail", "noted", "bare"):
            function = await client.get_callable_function(name)
            found.append(seen(await function()))
        with warnings_of(its) as heard:
            blob = await client.get_callable_function("blob")
            found.append(seen(await blob()))
        return [*found, len(heard)]


@TABLE.scenario
async def a_response_of_a_server_equals_one_made_by_hand(its: Any) -> Any:
    async with shop(its) as client:
        echo = await client.get_callable_function("echo")
        response = await echo(text="hi")
        return response == text(its, "hi", id=response.id)


@TABLE.scenario
async def the_tools_of_a_client_are_registered(its: Any) -> Any:
    async with shop(its) as client:
        toolkit = its.Toolkit()
        await toolkit.register_mcp_client(mcp_client=client)
        tool = toolkit.tools["echo"]
        return [
            toolkit.get_json_schemas(),
            [tool.mcp_name, tool.source, tool.group, tool.original_name, tool.preset_kwargs],
            await called(toolkit, "echo", {"text": "a"}),
            await called(toolkit, "fail"),
        ]


@TABLE.scenario
async def some_tools_of_a_client_are_registered(its: Any) -> Any:
    async with shop(its) as client:
        found: list[Any] = []
        for options in (
            {"enable_funcs": ["echo", "bare"]},
            {"disable_funcs": ["echo", "bare"]},
            {"enable_funcs": ["echo", "bare"], "disable_funcs": ["media"]},
            {"enable_funcs": []},
            {"enable_funcs": ["echo"], "preset_kwargs_mapping": {"echo": {"times": 3}}},
        ):
            toolkit = its.Toolkit()
            await toolkit.register_mcp_client(client, **options)
            schema = toolkit.get_json_schemas()
            found.append(
                [tool_names(toolkit), schema[:1], await called(toolkit, "echo", {"text": "a"})]
            )
        return found


@TABLE.scenario
async def a_client_is_registered_by_position(its: Any) -> Any:
    def louder(_call: Any, response: Any) -> Any:
        return text(its, response.content[0]["text"] + "!")

    async with shop(its) as client:
        toolkit = its.Toolkit()
        toolkit.create_tool_group("g", "d", True)
        await toolkit.register_mcp_client(
            *(client, "g", ["echo"], ["bare"], {"echo": {"times": 2}}, louder, "raise", 5)
        )
        return [tool_names(toolkit), await called(toolkit, "echo", {"text": "a"})]


@TABLE.scenario
async def a_client_that_cannot_be_registered(its: Any) -> Any:
    async with shop(its) as client:
        toolkit = its.Toolkit()
        found: list[Any] = []
        for options in (
            {"enable_funcs": ["echo"], "disable_funcs": ["echo"]},
            {"preset_kwargs_mapping": [1]},
            {"group_name": "nothing"},
        ):
            try:
                found.append(await toolkit.register_mcp_client(client, **options))
            except Exception as error:
                found.append(raised(error))
        await toolkit.register_mcp_client(client, enable_funcs=["echo"])
        try:
            await toolkit.register_mcp_client(client, enable_funcs=["echo"])
        except Exception as error:
            found.append(raised(error))
        await toolkit.register_mcp_client(client, enable_funcs=["echo"], namesake_strategy="rename")
        return [*found, len(toolkit.tools)]


@TABLE.scenario
async def one_function_of_a_client_is_registered(its: Any) -> Any:
    async with shop(its) as client:
        echo = await client.get_callable_function("echo")
        toolkit = toolkit_with(its, echo, func_name="say", preset_kwargs={"times": 2})
        tool = toolkit.tools["say"]
        return [
            toolkit.get_json_schemas(),
            [tool.original_name, tool.mcp_name],
            await called(toolkit, "say", {"text": "a"}),
        ]


@TABLE.scenario
async def clients_are_removed(its: Any) -> Any:
    async with shop(its) as client:
        found: list[Any] = []
        for given in (["shop"], "shop", ["nothing"], [], [5]):
            toolkit = toolkit_with(its, plain)
            await toolkit.register_mcp_client(client, enable_funcs=["echo", "bare"])
            try:
                await toolkit.remove_mcp_clients(client_names=given)
            except Exception as error:
                found.append(raised(error))
            found.append(tool_names(toolkit))
        return found


@TABLE.scenario
async def a_remote_tool_fails(its: Any) -> Any:
    async with shop(its) as client:
        toolkit = its.Toolkit()
        await toolkit.register_mcp_client(client, execution_timeout=0.2)
        found: list[Any] = []
        for name in ("refuse", "hang"):
            (response,) = await called(toolkit, name)
            # The words after the prefix are those of the SDK.
            words = response["content"][0].pop("text")
            found.append([response, words.partition(":")[0]])
        return found


@TABLE.scenario
async def a_function_of_a_client_raises(its: Any) -> Any:
    async with shop(its) as client:
        refuse = await client.get_callable_function("refuse")
        try:
            return await refuse()
        except Exception:
            return "The class is the SDK's."


@TABLE.scenario
async def a_stateless_client_asks_each_time(its: Any) -> Any:
    with on_http() as url:
        client = its.HttpStatelessClient("shop", "streamable_http", url)
        first = [it.name for it in await client.list_tools()]
        _Page.served["TOOLS"].append({"name": "new", "inputSchema": {"type": "object"}})
        try:
            second = [it.name for it in await client.list_tools()]
        finally:
            _Page.served["TOOLS"].pop()
        new = await client.get_callable_function("new")
        return [first, second, new.name]


@TABLE.scenario
async def a_stateless_client_serves_a_toolkit(its: Any) -> Any:
    with on_http() as url:
        client = its.HttpStatelessClient("shop", "streamable_http", url, {"x-team": "a"}, 10)
        echo = await client.get_callable_function("echo")
        toolkit = its.Toolkit()
        await toolkit.register_mcp_client(client)
        return [
            seen(await echo(text="a")),
            tool_names(toolkit),
            await called(toolkit, "echo", {"text": "a", "times": 2}),
            await called(toolkit, "resource"),
        ]


@TABLE.scenario
async def a_stateful_client_on_http(its: Any) -> Any:
    with on_http() as url:
        client = its.HttpStatefulClient("shop", "streamable_http", url)
        await client.connect()
        echo = await client.get_callable_function("echo")
        found = [client.is_connected, seen(await echo(text="a"))]
        await client.close()
        return [*found, client.is_connected]


@TABLE.scenario
async def a_server_that_is_not_there(its: Any) -> Any:
    with on_http() as url:
        pass  # it is closed by now
    client = its.HttpStatelessClient("none", "streamable_http", url, None, 2)
    try:
        return await client.list_tools()
    except Exception:
        return "Ours is one error, that of the SDK a group of them."


@TABLE.scenario
def a_function_that_needs_a_session(its: Any) -> Any:
    tool = types.SimpleNamespace(name="a", description="A.", inputSchema={"type": "object"})
    session, opened = object(), object
    function = its.MCPToolFunction("one", tool, True, opened, None, 2)
    kept = its.MCPToolFunction("one", tool, wrap_tool_result=False, session=session)
    return [
        caught(its.MCPToolFunction, "one", tool, True),
        caught(its.MCPToolFunction, "one", tool, True, opened, session),
        [function.client_gen is opened, function.session, str(function.timeout)],
        [kept.session is session, kept.client_gen, kept.timeout, kept.wrap_tool_result],
        function.json_schema,
    ]


@TABLE.scenario
def what_a_stateful_client_holds(its: Any) -> Any:
    client = its.StatefulClientBase("a")
    return [hasattr(client, it) for it in ("client", "session", "stack")]


@TABLE.scenario
async def what_the_client_context_gives(its: Any) -> Any:
    with on_http() as url:
        client = its.HttpStatelessClient("shop", "streamable_http", url)
        async with client.get_client() as opened:
            return isinstance(opened, tuple)


@TABLE.scenario
def a_client_with_options_of_the_old_sdk(its: Any) -> Any:
    client = its.HttpStatelessClient(
        "a", "streamable_http", "https://a.example", terminate_on_close=False, auth=None
    )
    return client.name
