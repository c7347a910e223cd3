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

__all__ = ["MOST_BLOCKS", "LazyResult", "ToolResult", "result_of"]


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


MOST_BLOCKS = 10_000
"""The most content blocks of one result: each is checked while all other calls wait."""

_CONTENT: Any = ToolResult.__dict__["content"]
"""Where the content really is: the property of `LazyResult` hides it."""


class LazyResult(ToolResult, frozen=True, kw_only=True):
    """The result of a server, whose content blocks are parsed when they are first read.

    The gateway passes most results on as they came, and reads no block. In every other way it is a
    `ToolResult`, and equal to one with the same content.
    """

    def __post_init__(self) -> None:
        """Leave everything as the server sent it."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ToolResult):
            return NotImplemented
        return all(getattr(self, it) == getattr(other, it) for it in ToolResult.__struct_fields__)

    def __hash__(self) -> int:
        return hash((self.is_error, self.text()))

    def __repr__(self) -> str:
        fields = ", ".join(f"{it}={getattr(self, it)!r}" for it in ToolResult.__struct_fields__)
        return f"ToolResult({fields})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _plain_result, ({it: getattr(self, it) for it in ToolResult.__struct_fields__},)


def result_of(raw: Mapping[str, Any]) -> ToolResult:
    """Return the result of `tools/call` as a `ToolResult` that keeps all its fields.

    Raises:
        TypeError, ValueError: when it is not such a result.
    """
    found: object = raw.get("content") or ()
    said: object = raw.get("_meta") or NO_META
    if not isinstance(found, list | tuple):
        raise ValueError(f"Its content is a list of objects, not {type(found).__name__!r}.")  # noqa: TRY004 - documented
    if not isinstance(said, dict):
        raise ValueError(f"Its `_meta` is an object, not {type(said).__name__!r}.")  # noqa: TRY004 - documented
    blocks = cast("tuple[Any, ...]", found)
    if len(blocks) > MOST_BLOCKS:
        raise ValueError(f"It has {len(blocks)} content blocks; the limit is {MOST_BLOCKS}.")
    for block in blocks:
        if not isinstance(block, dict):
            kind = type(cast("object", block)).__name__
            raise ValueError(f"A content block is an object, not {kind!r}.")  # noqa: TRY004 - documented
    return LazyResult(
        content=blocks,
        structured_content=raw.get("structuredContent"),
        is_error=bool(raw.get("isError")),
        # Not frozen, as little as the rest: it may have many values.
        meta=cast("dict[str, Any]", said),
        wire=raw,
    )


def _plain_result(fields: dict[str, Any]) -> ToolResult:
    return ToolResult(**fields)


def _read_content(self: LazyResult) -> tuple[Content, ...]:
    content: object = _CONTENT.__get__(self)
    if isinstance(content, tuple):
        return cast("tuple[Content, ...]", content)
    parsed = tuple(_block_of(it) for it in cast("list[dict[str, Any]]", content))
    _CONTENT.__set__(self, parsed)
    return parsed


def _block_of(block: dict[str, Any]) -> Content:
    try:
        return msgspec.convert(block, Content)
    except msgspec.ValidationError:
        return Other(block=block)


# Not in the class: there it would be taken for the default of the field.
LazyResult.content = property(_read_content)  # pyright: ignore[reportAttributeAccessIssue]
