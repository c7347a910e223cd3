"""ResultView: a result as a page shows it: texts, tables, images, sounds and trees of JSON.

A result is hostile: whatever it has, what is made of it here has a limited size.
"""

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast

import msgspec

from pegboard.console.trials.result_media import ResultMedia
from pegboard.gateway.calls.result_cache import json_of, repetition_in
from pegboard.model.json_values import object_in

__all__ = ["ResultPart", "ResultTable", "ResultView", "TreeNode", "view_of"]

_MOST_PARTS = 200
_MOST_TEXT = 200_000
"""How many characters of one part a page shows."""
_MOST_ROWS, _MOST_COLUMNS, _MOST_CELL = 200, 30, 300
_MOST_NODES, _MOST_CHILDREN, _DEEPEST = 2_000, 200, 24
_MORE = re.compile(r'read_result\(handle="(r_[\w-]{8,64})"(?:, offset=(\d{1,12}))?')
_GOES_ON = re.compile(r"^\[Characters \d+ to \d+[^\n]*; offset=(\d{1,12}) goes on")

PartKind = Literal["text", "image", "audio", "structured", "other"]


class ResultTable(msgspec.Struct, frozen=True, kw_only=True):
    """A list of objects as a table."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    total: int
    has_more_columns: bool = False


class TreeNode(msgspec.Struct, frozen=True, kw_only=True):
    """One value in a tree of JSON."""

    key: str
    text: str
    """The value, or how many it holds."""
    children: tuple["TreeNode", ...] = ()
    left_out: int = 0
    """How many of its children are not shown."""


class ResultPart(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a result."""

    kind: PartKind
    title: str
    text: str = ""
    left_out: int = 0
    """How many characters are not shown."""
    url: str = ""
    """The address of an image or a sound."""
    table: ResultTable | None = None
    tree: TreeNode | None = None
    is_repeated: bool = False
    """Whether the structured content says the same."""


class ResultView(msgspec.Struct, frozen=True, kw_only=True):
    """A result as a page shows it."""

    is_error: bool = False
    parts: tuple[ResultPart, ...] = ()
    left_out: int = 0
    """How many parts are not shown."""
    handle: str = ""
    """The handle by which the rest of a long result can be read."""
    offset: int = 0
    """Where the rest begins; 0 if this is the end."""


def view_of(result: Mapping[str, Any], media: ResultMedia, *, handle: str = "") -> ResultView:
    """Return what a page shows of a result.

    Args:
        result: the raw result.
        media: keeps its images and sounds.
        handle: the handle of the long result of which this is a part.
    """
    blocks = [object_in(it) for it in _list(result.get("content"))]
    texts = [it["text"] for it in blocks if _is_text(it)]
    structured: object = result.get("structuredContent")
    repeats = structured is not None and repetition_in(texts, structured) is not None
    # Texts that say the same as the structured content are shown together, after all else.
    others = [it for it in blocks if not (repeats and _is_text(it))]
    parts = [_part_of(it, media) for it in others[:_MOST_PARTS]]
    if structured is not None:
        parts.insert(0, _structured(structured))
    if repeats and texts:
        parts.append(_text("text", "\n".join(texts), is_repeated=True))
    last = texts[-1] if texts else ""
    offset = 0
    if handle:
        goes_on = _GOES_ON.search(last)
        offset = int(goes_on[1]) if goes_on else 0
    elif (found := _MORE.search(last[-2_000:])) is not None:
        handle, offset = found[1], int(found[2] or 0)
    return ResultView(
        is_error=result.get("isError") is True,
        parts=tuple(parts),
        left_out=max(0, len(others) - _MOST_PARTS),
        handle=handle,
        offset=offset,
    )


def _part_of(block: Mapping[str, Any], media: ResultMedia) -> ResultPart:
    kind, resource = block.get("type"), object_in(block.get("resource"))
    if _is_text(block):
        return _text("text", block["text"])
    if kind == "resource" and isinstance(resource.get("text"), str):
        return _text(f"resource {resource.get('uri', '')}", resource["text"])
    if kind == "resource" and "blob" in resource:
        return _medium(block, resource.get("mimeType"), resource["blob"], media)
    if kind in ("image", "audio"):
        return _medium(block, block.get("mimeType"), block.get("data"), media)
    words, left_out = _cut(_pretty(block))
    return ResultPart(kind="other", title=str(kind)[:100], text=words, left_out=left_out)


def _medium(
    block: Mapping[str, Any], mime_type: object, data: object, media: ResultMedia
) -> ResultPart:
    """Return an image or a sound that a browser shows safely; else say what it is."""
    title = f"{str(block.get('type'))[:100]} {str(mime_type)[:100]}"
    if not isinstance(mime_type, str) or not isinstance(data, str):
        return ResultPart(kind="other", title=title, text="This part has no data.")
    plain = mime_type.split(";")[0].strip().lower()
    try:
        decoded = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return ResultPart(kind="other", title=title, text="Its data is not base64.")
    url = media.keep(plain, decoded)
    if url is None:
        words = f"{len(decoded):,} bytes, which a page does not show."
        return ResultPart(kind="other", title=title, text=words)
    kind: PartKind = "image" if plain.startswith("image/") else "audio"
    return ResultPart(kind=kind, title=title, url=url, text=f"{len(decoded):,} bytes")


def _text(title: str, text: str, *, is_repeated: bool = False) -> ResultPart:
    words, left_out = _cut(text)
    tree = table = None
    if not is_repeated and not left_out and text.lstrip()[:1] in ("{", "["):
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            pass
        else:
            tree, table = _Tree().of(value), _table(value)
    return ResultPart(
        kind="text",
        title=title[:300],
        text=words,
        left_out=left_out,
        tree=tree,
        table=table,
        is_repeated=is_repeated,
    )


def _structured(value: object) -> ResultPart:
    words, left_out = _cut(_pretty(value))
    return ResultPart(
        kind="structured",
        title="structured content",
        text=words,
        left_out=left_out,
        table=_table(value),
        tree=_Tree().of(value),
    )


def _table(value: object) -> ResultTable | None:
    """Return a list of objects as a table, also one that is all that an object has."""
    members = object_in(value)
    rows = _list(next(iter(members.values())) if len(members) == 1 else value)
    if not rows or not all(object_in(it) for it in rows):
        return None
    shown = [object_in(it) for it in rows[:_MOST_ROWS]]
    names = list(dict.fromkeys(name for it in shown for name in it))
    columns = names[:_MOST_COLUMNS]
    return ResultTable(
        columns=tuple(it[:_MOST_CELL] for it in columns),
        rows=tuple(tuple(_cell(it[key]) if key in it else "" for key in columns) for it in shown),
        total=len(rows),
        has_more_columns=len(names) > len(columns),
    )


def _cell(value: object) -> str:
    text = value if isinstance(value, str) else json_of(value)
    return text if len(text) <= _MOST_CELL else f"{text[:_MOST_CELL]}…"


class _Tree:
    """Makes the tree of one value, up to a number of nodes."""

    def __init__(self) -> None:
        self._room = _MOST_NODES

    def of(self, value: object, key: str = "", depth: int = 0) -> TreeNode:
        self._room -= 1
        key = key[:_MOST_CELL]
        if isinstance(value, Mapping):
            members = object_in(cast("object", value))
            return self._group(key, f"{{{len(members)}}}", members.items(), len(members), depth)
        if isinstance(value, list):
            items = _list(cast("object", value))
            pairs = ((str(at), it) for at, it in enumerate(items))
            return self._group(key, f"[{len(items)}]", pairs, len(items), depth)
        text = json_of(value)
        return TreeNode(key=key, text=text if len(text) <= 1000 else f"{text[:1000]}…")

    def _group(
        self,
        key: str,
        text: str,
        pairs: Iterable[tuple[str, object]],
        count: int,
        depth: int,
    ) -> TreeNode:
        children: list[TreeNode] = []
        for name, it in pairs:
            if self._room <= 0 or depth >= _DEEPEST or len(children) >= _MOST_CHILDREN:
                break
            children.append(self.of(it, name, depth + 1))
        left_out = count - len(children)
        return TreeNode(key=key, text=text, children=tuple(children), left_out=left_out)


def _is_text(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "text" and isinstance(block.get("text"), str)


def _cut(text: str) -> tuple[str, int]:
    return text[:_MOST_TEXT], max(0, len(text) - _MOST_TEXT)


def _pretty(value: object) -> str:
    return msgspec.json.format(json_of(value), indent=2)


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
