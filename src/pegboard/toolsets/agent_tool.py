"""AgentTool: a tool as an agent framework needs it, and what its model is told of a failed call."""

from collections.abc import Callable, Coroutine
from typing import Any, Literal, NamedTuple

import msgspec

from pegboard.errors import (
    CallRefusedError,
    NotConnectedError,
    PegboardError,
    ToolExecutionError,
    ToolNotFoundError,
    ToolTimeoutError,
    UpstreamError,
    WouldDeadlockError,
)
from pegboard.model import Audio, Content, EmbeddedResource, Image, Text, ToolResult
from pegboard.toolsets.live_view import ExposedTool

__all__ = ["FAILED_CALLS", "AgentTool", "BinaryPart", "explain", "parts_of", "plain_json"]

FAILED_CALLS = (
    CallRefusedError,
    ToolExecutionError,
    ToolNotFoundError,
    ToolTimeoutError,
    UpstreamError,
)
"""What a call of Pegboard raises that is no fault of the program; the model may go another way."""


class AgentTool(NamedTuple):
    """A tool of a view, which calls the current version of itself.

    Both ways to call it raise `ToolExecutionError` when the tool reports a failure.
    """

    name: str
    """A name that every provider takes."""
    description: str
    input_schema: dict[str, Any]
    """The tool's own schema, as the tool declares it; it belongs to the reader."""
    call: Callable[[Any], Coroutine[Any, Any, ToolResult]]
    call_sync: Callable[[Any], ToolResult]

    @classmethod
    def of(
        cls,
        exposed: ExposedTool,
        *,
        call: Callable[[ExposedTool, Any], Coroutine[Any, Any, ToolResult]],
        call_sync: Callable[[ExposedTool, Any], ToolResult],
    ) -> "AgentTool":
        """Make one of a tool of a view.

        Raises:
            DialectError: when its schema describes no object, so that no model could call it.
        """
        # Its only use is the check; what the framework gets is the schema as it is.
        _ = exposed.root

        async def run(arguments: Any) -> ToolResult:
            return (await call(exposed, arguments)).raise_for_error()

        def run_sync(arguments: Any) -> ToolResult:
            return call_sync(exposed, arguments).raise_for_error()

        schema = plain_json(exposed.source.input_schema)
        name, description = exposed.words
        # The same meaning, made explicit: OpenAI and LangChain look for both.
        whole: dict[str, Any] = {"type": "object", "properties": {}, **schema}
        return cls(name, description, whole, run, run_sync)


class BinaryPart(NamedTuple):
    """A part of a result that is no text: base64, and what it is."""

    kind: Literal["image", "audio", "file"]
    data: str
    mime_type: str
    words: str
    """What stands in its place where only text can be."""


def explain(error: PegboardError) -> str:
    """Return what a model is told of a failed call.

    Raises:
        PegboardError: the error itself, when it is one of the program, which no model can mend.
    """
    if isinstance(error, WouldDeadlockError):
        raise error
    if isinstance(error, NotConnectedError) and not error.server:
        # The hub is closed.
        raise error
    return str(error)


def parts_of(result: ToolResult) -> list[str | BinaryPart]:
    """Return the texts and the binary parts of a result, in order."""
    if not result.content:
        return [result.text()]
    return [_part(block) for block in result.content]


def plain_json(value: Any) -> Any:
    """Return JSON without frozen parts: a copy of all its dicts and lists."""
    return msgspec.to_builtins(value)


def _part(block: Content) -> str | BinaryPart:
    words = ToolResult(content=(block,)).text()
    match block:
        case Text():
            return words
        case Image():
            return BinaryPart("image", block.data, block.mime_type, words)
        case Audio():
            return BinaryPart("audio", block.data, block.mime_type, words)
        case EmbeddedResource() if block.resource.blob is not None:
            held = block.resource
            kind = held.mime_type or "application/octet-stream"
            return BinaryPart("file", block.resource.blob, kind, words)
        case _:
            return words
