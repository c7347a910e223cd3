"""ToolResult: the result of a tool, kept whole, as blocks, as text or as a Python value."""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from pegboard.errors import ToolExecutionError
from pegboard.model.call import NO_META
from pegboard.model.content import (
    Content,
    EmbeddedResource,
    Image,
    Other,
    ResourceContents,
    ResourceLink,
    Text,
)
from pegboard.model.json_values import freeze

__all__ = ["ToolResult"]


class _Absent(msgspec.Struct, frozen=True):
    pass


_ABSENT = _Absent()


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a tool: content blocks, structured content and the error flag.

    It keeps everything. `blocks()` gives all content, `text()` gives every text in full and names
    the rest, `value()` gives the most direct Python value.
    """

    content: tuple[Content, ...] = ()
    structured_content: Any = None
    """Any JSON value; ``None`` when the tool gave none."""
    is_error: bool = False
    meta: Mapping[str, Any] = NO_META
    native: Any = _ABSENT
    """The Python value that a tool of this process returned; absent for the result of a server."""
    wire: Mapping[str, Any] | None = None
    """The result as a server sent it, with the fields that Pegboard does not know."""

    def __post_init__(self) -> None:
        fix = msgspec.structs.force_setattr
        fix(self, "content", tuple(self.content))
        if self.wire is None:
            # What a server sent belongs to this result alone, and may have millions of values.
            fix(self, "structured_content", freeze(self.structured_content))
        fix(self, "meta", freeze(self.meta))

    @classmethod
    def of(cls, value: object) -> "ToolResult":
        """Make a result of what a tool returned; a `ToolResult` stays as it is."""
        if type(value) is ToolResult or isinstance(value, ToolResult):
            return value
        blocks = _blocks_of(value)
        if blocks is not None:
            return cls(content=blocks, native=value)
        plain = _as_json(value)
        if isinstance(plain, str):
            return cls(content=(Text(text=plain),), native=value)
        return cls(content=(Text(text=_dumps(plain)),), structured_content=plain, native=value)

    def value(self) -> Any:
        """Return the most direct Python value.

        That is the tool's own value if it ran in this process; else the structured content; else
        the text, if there is only text; else the list of blocks. An empty result is ``None``.
        """
        if not isinstance(self.native, _Absent):
            return self.native
        if self.structured_content is not None:
            return self.structured_content
        if not self.content:
            return None
        if all(isinstance(block, Text) for block in self.content):
            return self.text()
        return list(self.content)

    def text(self) -> str:
        """Return everything as text: all texts in full, other blocks named in brackets."""
        if not self.content and self.structured_content is not None:
            return _dumps(self.structured_content)
        return "\n".join(_block_text(block) for block in self.content)

    def blocks(self) -> list[dict[str, Any]]:
        """Return the content as the protocol writes it: a list of JSON objects."""
        return [
            msgspec.to_builtins(block.block if isinstance(block, Other) else block)
            for block in self.content
        ]

    def raise_for_error(self) -> "ToolResult":
        """Return itself, or raise `ToolExecutionError` with the text of a reported failure."""
        if self.is_error:
            words = self.text() or "The tool reported a failure without a message."
            raise ToolExecutionError(words, result=self)
        return self


def _blocks_of(value: object) -> tuple[Content, ...] | None:
    """Return the blocks a value already consists of, or ``None`` if it is plain data."""
    if value is None:
        return ()
    if isinstance(value, bytes | bytearray):
        return (_blob(bytes(value)),)
    items = cast("Sequence[object]", value) if isinstance(value, list | tuple) else (value,)
    blocks = tuple(item for item in items if isinstance(item, Content))
    return blocks if blocks and len(blocks) == len(items) else None


def _blob(data: bytes) -> EmbeddedResource:
    contents = ResourceContents(
        uri="data:application/octet-stream",
        mime_type="application/octet-stream",
        blob=base64.b64encode(data).decode("ascii"),
    )
    return EmbeddedResource(resource=contents)


def _as_json(value: object) -> Any:
    """Return the JSON a value stands for, or text when it stands for none."""
    try:
        return freeze(msgspec.json.decode(msgspec.json.encode(value, enc_hook=_foreign)))
    except Exception:  # noqa: BLE001 - cyclic, too deep, too large, or failing in its own code
        try:
            return str(value)
        except Exception:  # noqa: BLE001
            return f"<{type(value).__name__}>"


def _foreign(value: object) -> object:
    # Without importing pydantic: its models, and those that imitate them.
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else str(value)


def _dumps(value: object) -> str:
    return msgspec.json.encode(value).decode("utf-8")


def _block_text(block: Content) -> str:
    match block:
        case Text():
            return block.text
        case EmbeddedResource():
            held = block.resource
            if held.text is not None:
                return held.text
            kind = held.mime_type or "unknown type"
            return f"[resource {held.uri}: {kind}, {_size(held.blob or '')}]"
        case ResourceLink():
            return f"[link {block.uri}: {block.title or block.name}]"
        case Other():
            return f"[{block.block.get('type', 'unknown block')}: {_dumps(block.block)}]"
        case _:
            kind = "image" if isinstance(block, Image) else "audio"
            return f"[{kind}: {block.mime_type}, {_size(block.data)}]"


def _size(data: str) -> str:
    return f"{len(data) * 3 // 4 - data[-2:].count('=')} bytes"
