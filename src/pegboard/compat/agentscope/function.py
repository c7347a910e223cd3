"""AgentScope's tool functions: definitions for a model, and `MCPToolFunction` for remote tools."""

import copy
import inspect
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, TypeAlias, cast

import anyio
from docstring_parser import parse
from pydantic import ConfigDict, Field, create_model

from pegboard.compat.agentscope.blocks import response_of, wire_of
from pegboard.compat.server_calls import reading_result
from pegboard.errors import ToolTimeoutError, UpstreamError
from pegboard.upstream import OnProgress

__all__ = [
    "ClientGenerator",
    "JsonSchema",
    "MCPToolFunction",
    "SchemaForm",
    "ToolSession",
    "check_options",
    "checked_schema",
    "extract_json_schema",
    "function_schema",
    "without_arguments",
    "without_titles",
]


JsonSchema: TypeAlias = dict[str, Any]
"""A tool's definition for a model, or a part of it."""


@dataclass(frozen=True)
class SchemaForm:
    """What of a function its schema tells."""

    long_description: bool = True
    var_positional: bool = False
    var_keyword: bool = False


class ToolSession(Protocol):
    """An object that can call a tool: one of our clients, or a session of the SDK."""

    async def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """Call a tool and return its result: the SDK's object, or its JSON."""
        ...


ClientGenerator: TypeAlias = Callable[[], AbstractAsyncContextManager[Any]]
"""Opens a client, or the streams of a transport, for one call, and closes it afterwards.

On streams such as those of ``stdio_client``, a session is opened for the call.
"""


class MCPToolFunction:
    """A tool of a server that is awaited like any local function.

    Args:
        mcp_name: the name of the client that the tool comes from.
        tool: the definition, an SDK ``Tool``.
        wrap_tool_result: return a `ToolResponse` instead of the SDK's ``CallToolResult``.
        client_gen: opens a new session, or the streams for one, for each call.
        session: a session to use for all calls.
        timeout: after this many seconds, a call ends with `ToolTimeoutError`.
        on_progress: receives the progress that the server reports; a session of the SDK does not
            support it.

    Raises:
        ValueError: unless exactly one of ``client_gen`` and ``session`` is given.
    """

    name: str
    description: str | None
    json_schema: dict[str, Any]
    """The definition for a model."""

    def __init__(  # noqa: PLR0913 - AgentScope's signature
        self,
        mcp_name: str,
        tool: Any,
        wrap_tool_result: bool = True,  # noqa: FBT001, FBT002
        client_gen: ClientGenerator | None = None,
        session: ToolSession | None = None,
        timeout: float | None = None,
        *,
        on_progress: OnProgress | None = None,
    ) -> None:
        if (client_gen is None) == (session is None):
            raise ValueError("Give either `client_gen` or `session`, but not both.")
        self.mcp_name: str = mcp_name
        self.name = tool.name
        self.description = tool.description
        self.json_schema = extract_json_schema(tool)
        self.wrap_tool_result: bool = wrap_tool_result
        self.client_gen: ClientGenerator | None = client_gen
        self.session: ToolSession | None = session
        self.timeout: timedelta | None = timedelta(seconds=timeout) if timeout else None
        self._on_progress = on_progress
        self.__name__: str = self.name
        self.__doc__ = self.description

    def __repr__(self) -> str:
        return f"<MCPToolFunction {self.name!r} of {self.mcp_name!r}>"

    async def __call__(self, /, **kwargs: Any) -> Any:
        """Call the tool.

        Raises:
            ToolTimeoutError: when the tool did not answer in time.
            ServerAuthenticationError: when the server requires other credentials.
            UpstreamError: when the call fails for another reason.
        """
        limit = None if self.timeout is None else self.timeout.total_seconds()
        with anyio.move_on_after(limit):
            return self._finished(await self._call(kwargs))
        raise ToolTimeoutError(
            self.name, seconds=limit or 0.0, remedy="raise its `execution_timeout`"
        )

    async def _call(self, arguments: dict[str, Any]) -> object:
        if self.session is not None:
            return await self._call_on(self.session, arguments)
        assert self.client_gen is not None
        async with self.client_gen() as given:
            if not isinstance(given, tuple):
                return await self._call_on(given, arguments)
            answer = await self._call_on_streams(cast("tuple[Any, ...]", given), arguments)
        if isinstance(answer, UpstreamError):
            raise answer
        return answer

    async def _call_on_streams(self, streams: tuple[Any, ...], arguments: dict[str, Any]) -> object:
        # The SDK is imported only for a caller that passes streams of the SDK.
        from pegboard.upstream.session.sdk_sessions import call_on_streams  # noqa: PLC0415

        return await call_on_streams(
            streams, self.name, arguments, server=self.mcp_name, on_progress=self._on_progress
        )

    async def _call_on(self, session: Any, arguments: dict[str, Any]) -> object:
        told = {} if self._on_progress is None else {"on_progress": self._on_progress}
        return await session.call_tool(self.name, arguments, **told)

    def _finished(self, answer: object) -> object:
        if not self.wrap_tool_result and not isinstance(answer, Mapping):
            return answer
        wire = wire_of(cast("object", answer))
        with reading_result(server=self.mcp_name, tool=self.name):
            if self.wrap_tool_result:
                return response_of(wire)
            # The SDK is imported only for a caller that wants the SDK's objects.
            from pegboard.upstream.session.sdk_sessions import sdk_result  # noqa: PLC0415

            return sdk_result({**wire, "content": wire.get("content") or []})


def extract_json_schema(tool: Any) -> dict[str, Any]:
    """Return the definition of an SDK ``Tool`` for a model, with the whole schema."""
    # SDK 2.x has the one, SDK 1.x the other.
    schema = tool.input_schema if hasattr(tool, "input_schema") else tool.inputSchema
    given: dict[str, Any] = copy.deepcopy(schema) or {}
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": {"type": "object", "properties": {}, "required": [], **given},
        },
    }


class _SchemaError(AssertionError, KeyError, ValueError):
    """AgentScope fails with one of these when a definition is malformed."""

    def __str__(self) -> str:
        # A KeyError would put its message in quotes.
        return str(self.args[0])


def checked_schema(given: object) -> JsonSchema:
    """Return a copy of the definition that a caller gives for a tool.

    Raises:
        ValueError: when it is not the definition of a function.
    """
    form = '{"type": "function", "function": {"name": ..., "parameters": {"properties": ...}}}'
    fault = ""
    if not isinstance(given, dict):
        fault = f"it is {type(given).__name__!r}"
    elif cast("JsonSchema", given).get("type") != "function":
        fault = "its `type` is not 'function'"
    elif not isinstance(words := cast("JsonSchema", given).get("function"), dict):
        fault = "its `function` is not an object"
    elif not isinstance(cast("JsonSchema", words).get("parameters"), dict):
        fault = "its function has no `parameters`"
    if fault:
        raise _SchemaError(f"`json_schema` must have the form {form}, but {fault}.")
    return copy.deepcopy(cast("JsonSchema", given))


def function_schema(function: Callable[..., Any], form: SchemaForm) -> JsonSchema:
    """Return the definition of a function of this process: signature, types and docstring.

    Raises:
        PydanticUserError: when a parameter's type has no JSON schema.
    """
    docs = parse(function.__doc__ or "")
    described = {it.arg_name: it.description for it in docs.params}
    fields: dict[str, Any] = {}
    for name, parameter in _signature(function).parameters.items():
        if name in ("self", "cls"):
            continue
        if made := _field(parameter, described, form):
            fields[name] = made
    config = ConfigDict(arbitrary_types_allowed=True)
    parameters = create_model("Arguments", __config__=config, **fields).model_json_schema()
    schema: JsonSchema = {
        "type": "function",
        "function": {"name": function.__name__, "parameters": without_titles(parameters)},
    }
    long = docs.long_description if form.long_description else None
    if text := "\n".join(it for it in (docs.short_description, long) if it is not None):
        schema["function"]["description"] = text
    return schema


def without_arguments(schema: JsonSchema, names: Mapping[str, Any]) -> None:
    """Take arguments out of a definition; nothing is ``required`` rather than an empty list."""
    parameters = schema["function"]["parameters"]
    for name in names:
        parameters["properties"].pop(name, None)
    if "required" in parameters:
        parameters["required"] = [it for it in parameters["required"] if it not in names]
        if not parameters["required"]:
            del parameters["required"]


def check_options(given: Mapping[str, Any], known: type) -> None:
    """Refuse options that a TypedDict does not have.

    Raises:
        TypeError: when an option is unknown; the message lists the known ones.
    """
    unknown = set(given) - known.__annotations__.keys()
    if unknown:
        listed = ", ".join(known.__annotations__)
        raise TypeError(
            f"Unknown options: {', '.join(sorted(unknown))}; the known ones are {listed}."
        )


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except (NameError, SyntaxError, AttributeError, TypeError):
        # Pydantic says which annotation it cannot understand.
        return inspect.signature(function)


def _field(
    parameter: inspect.Parameter, described: Mapping[str, str | None], form: SchemaForm
) -> tuple[Any, Any] | None:
    name, kind = parameter.name, parameter.kind
    known = parameter.annotation is not parameter.empty
    annotation: Any = parameter.annotation if known else Any
    default: Any = ... if parameter.default is parameter.empty else parameter.default
    stars = ""
    if kind is parameter.VAR_KEYWORD:
        stars, annotation, default = "**", dict[str, annotation], {}
    elif kind is parameter.VAR_POSITIONAL:
        stars, annotation, default = "*", list[annotation], []
    if (stars == "**" and not form.var_keyword) or (stars == "*" and not form.var_positional):
        return None
    text = described.get(stars + name, described.get(name))
    return annotation, Field(description=text, default=default)


def without_titles(schema: JsonSchema) -> JsonSchema:
    """Return a schema without the titles that pydantic makes of names."""
    kept = {key: it for key, it in schema.items() if key != "title"}
    for key in ("properties", "$defs"):
        if isinstance(parts := kept.get(key), dict):
            kept[key] = {name: _plain(it) for name, it in cast("JsonSchema", parts).items()}
    for key in ("items", "additionalProperties"):
        if key in kept:
            kept[key] = _plain(kept[key])
    return kept


def _plain(part: Any) -> Any:
    return without_titles(cast("JsonSchema", part)) if isinstance(part, dict) else part
