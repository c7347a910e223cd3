"""AgentScope's message blocks, and conversion of MCP results to its ToolResponse."""

import json
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, cast

import msgspec
from pydantic import AnyUrl, ValidationError

from pegboard.model import (
    Audio,
    Content,
    EmbeddedResource,
    Image,
    Other,
    ResourceContents,
    ResourceLink,
    Text,
    ToolResult,
)
from pegboard.model.result import result_of

__all__ = [
    "AudioBlock",
    "Base64Source",
    "Block",
    "ContentBlock",
    "ImageBlock",
    "TextBlock",
    "ThinkingBlock",
    "ToolResponse",
    "ToolResultBlock",
    "ToolUseBlock",
    "URLSource",
    "VideoBlock",
    "blocks_of",
    "response_of",
    "saying",
    "wire_of",
]

logger: logging.Logger = logging.getLogger("pegboard.compat")

_PROTOCOL = "io.modelcontextprotocol/"


class TextBlock(TypedDict):
    """Text for the model."""

    type: Literal["text"]
    text: str


class ThinkingBlock(TypedDict):
    """What a model thought before it answered."""

    type: Literal["thinking"]
    thinking: str


class Base64Source(TypedDict):
    """Binary data as base64 text."""

    type: Literal["base64"]
    media_type: str
    data: str


class URLSource(TypedDict):
    """Binary data behind an address."""

    type: Literal["url"]
    url: str


class ImageBlock(TypedDict):
    """An image for the model."""

    type: Literal["image"]
    source: Base64Source | URLSource


class AudioBlock(TypedDict):
    """Audio for the model."""

    type: Literal["audio"]
    source: Base64Source | URLSource


class VideoBlock(TypedDict):
    """A video for the model."""

    type: Literal["video"]
    source: Base64Source | URLSource


class ToolUseBlock(TypedDict):
    """A model's request to call a tool."""

    type: Literal["tool_use"]
    id: str
    name: str
    input: dict[str, Any]
    raw_input: NotRequired[str]
    """The arguments as the model wrote them."""


Block: TypeAlias = TextBlock | ImageBlock | AudioBlock | VideoBlock
"""Any block of a tool's response."""


class ToolResultBlock(TypedDict):
    """The response of a tool, as a message carries it to the model."""

    type: Literal["tool_result"]
    id: str
    output: str | list[Block]
    name: str


ContentBlock: TypeAlias = ToolUseBlock | ToolResultBlock | ThinkingBlock | Block
"""Any block of a message."""


def _response_id() -> str:
    now = datetime.now().strftime("%Y-%m-%d %H:%M:%S.%f")  # noqa: DTZ005 - local time, as people read it
    return f"{now[:-3]}_{os.urandom(3).hex()}"


@dataclass
class ToolResponse:
    """The response of a tool, local or remote; in a stream, one chunk of it."""

    content: list[Block]
    metadata: dict[str, Any] | None = None
    stream: bool = False
    is_last: bool = True
    is_interrupted: bool = False
    id: str = field(default_factory=_response_id)

    def __post_init__(self) -> None:
        # Not fields: two responses are equal whatever is known besides.
        self.is_error: bool = False
        """True when the tool failed, by its own report or by an error."""
        self.structured_content: Any = None
        """The tool's structured output, if there is any."""


def blocks_of(content: Iterable[object]) -> list[Block]:
    """Return MCP content as message blocks; unsupported content is logged and left out."""
    blocks: list[Block] = []
    for found in map(_content, content):
        block = _message_block(found)
        if block is not None:
            blocks.append(block)
        elif isinstance(found, Other):
            kind = found.block.get("type", "unknown")
            logger.warning("content_skipped: blocks of type %r are not supported", kind)
        else:
            logger.warning("content_skipped: resources of this type are not supported")
    return blocks


def response_of(answer: ToolResult | Mapping[str, Any]) -> ToolResponse:
    """Return a result, ours or as a server sent it, as a ToolResponse.

    Raises:
        TypeError, ValueError: when it is not a result.
    """
    if isinstance(answer, ToolResult):
        result, blocks = answer, blocks_of(answer.content)
    else:
        content: object = answer.get("content") or []
        if not isinstance(content, list):
            raise TypeError(f"The content must be a list, not {type(content).__name__!r}.")
        result = result_of({**answer, "content": ()})
        blocks = blocks_of(cast("list[object]", content))
    if result.structured_content is not None and all(block["type"] != "text" for block in blocks):
        words = msgspec.json.encode(result.structured_content).decode("utf-8")
        blocks.append(TextBlock(type="text", text=words))
    response = ToolResponse(blocks, metadata=_metadata(result.wire or {}))
    response.is_error = result.is_error
    response.structured_content = result.structured_content
    return response


def saying(text: str, **fields: Any) -> ToolResponse:
    """Return a response that holds one text."""
    return ToolResponse([TextBlock(type="text", text=text)], **fields)


def wire_of(answer: object) -> dict[str, Any]:
    """Return a result, the SDK's or the JSON of one, as a server sends it.

    Raises:
        TypeError: when it is not a result.
    """
    if isinstance(answer, Mapping) or hasattr(answer, "model_dump"):
        return _wire(cast("object", answer))
    raise TypeError(f"A tool must return a `CallToolResult`, not {type(answer).__name__!r}.")


def _metadata(wire: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the tool said besides, without what every server of today says of itself."""
    given: Mapping[str, Any] | None = wire.get("_meta")
    own = {key: it for key, it in (given or {}).items() if not key.startswith(_PROTOCOL)}
    return own if own or given == {} else None


def _message_block(block: Content) -> Block | None:
    match block:
        case Text():
            return TextBlock(type="text", text=block.text)
        case Image():
            return ImageBlock(type="image", source=_base64(block.mime_type, block.data))
        case Audio():
            return AudioBlock(type="audio", source=_base64(block.mime_type, block.data))
        case EmbeddedResource():
            return _embedded(block)
        case ResourceLink():
            return TextBlock(type="text", text=ToolResult(content=(block,)).text())
        case _:
            return None


def _embedded(block: EmbeddedResource) -> Block | None:
    held = block.resource
    if held.text is not None:
        return TextBlock(type="text", text=_resource_text(held))
    kind, data = held.mime_type or "", held.blob or ""
    if kind.startswith("image/"):
        return ImageBlock(type="image", source=_base64(kind, data))
    if kind.startswith("audio/"):
        return AudioBlock(type="audio", source=_base64(kind, data))
    return None


def _resource_text(held: ResourceContents) -> str:
    """Return a text resource as JSON, so that the model learns where it comes from."""
    try:
        uri = str(AnyUrl(held.uri))
    except ValidationError:
        uri = held.uri
    fields = {"uri": uri, "mimeType": held.mime_type, "meta": held.meta or None, "text": held.text}
    return json.dumps(fields, indent=2, ensure_ascii=False)


def _base64(media_type: str, data: str) -> Base64Source:
    return Base64Source(type="base64", media_type=media_type, data=data)


def _content(block: object) -> Content:
    if isinstance(block, Content):
        return block
    return result_of({"content": [_wire(block)]}).content[0]


def _wire(value: object) -> dict[str, Any]:
    """Return an object of any version of the SDK as its JSON object."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[str, Any]", value))
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return cast("dict[str, Any]", dump(by_alias=True, mode="json", exclude_none=True))
    return {"type": getattr(value, "type", type(value).__name__)}
