"""Shelf: results that are too large for a model, kept whole for whoever made the call."""

import json
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

import msgspec

from pegboard.errors import HandleNotFoundError
from pegboard.gateway.objects import object_in
from pegboard.model import Tool

__all__ = ["Shelf", "Shelved"]


class Shelved(msgspec.Struct, frozen=True, kw_only=True):
    """One result that is kept."""

    owner: str
    tool: Tool
    text: str
    """All texts of the result, in full."""
    structured: Any
    """Its structured content; ``None`` when it has none."""
    size: int
    expires: float

    def data(self) -> Any:
        """Return the result as JSON: its structured content, or what its text says.

        Raises:
            ValueError: when it is no JSON.
        """
        if self.structured is not None:
            return self.structured
        return msgspec.json.decode(self.text)


class Shelf:
    """Keeps results for a while: so many for each caller, so many characters for all.

    Args:
        seconds: how long a result is kept.
        each: how many results one caller may have here.
        chars: how many characters of all callers together.
        now: the time, in seconds.
    """

    def __init__(
        self,
        *,
        seconds: float,
        each: int,
        chars: int,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self.seconds = seconds
        self._each = each
        self._most = chars
        self._now = now
        self._kept: OrderedDict[str, Shelved] = OrderedDict()
        self._chars = 0

    def __len__(self) -> int:
        return len(self._kept)

    def shortened(
        self, result: dict[str, Any], *, owner: str, tool: Tool, limit: int
    ) -> dict[str, Any]:
        """Return a result as it is if it fits; else its beginning, and how to read the rest.

        Images, sounds and links stay as they are: only text counts, and structured content.
        """
        texts = [text for block in _blocks(result) if (text := _text_of(block)) is not None]
        text, structured = "\n".join(texts), result.get("structuredContent")
        if structured is None and len(text) <= limit:
            return result
        written = "" if structured is None else _written(structured)
        # Servers say the same twice, as text and as structured content: that counts once.
        if len(text) + len(written) <= limit or (len(text) <= limit and _says(text, structured)):
            return result
        handle = self._keep(owner, tool, text or written, structured, len(text) + len(written))
        kept = {key: value for key, value in result.items() if key != "structuredContent"}
        others = [block for block in _blocks(result) if _text_of(block) is None]
        preview = (text or written)[:limit]
        note = _note(handle, shown=len(preview), text=text, written=written, shelf=self)
        words = [{"type": "text", "text": it} for it in (preview, note) if it]
        return {**kept, "content": [*words, *others]}

    def find(self, handle: object, *, owner: str) -> Shelved:
        """Return what is kept for this caller under a handle.

        Raises:
            HandleNotFoundError: when nothing is, or it is somebody else's.
        """
        self._expire()
        found = self._kept.get(handle) if isinstance(handle, str) else None
        if found is None or found.owner != owner:
            raise HandleNotFoundError(handle)
        return found

    def _keep(self, owner: str, tool: Tool, text: str, structured: Any, size: int) -> str | None:
        self._expire()
        if size > self._most:
            return None
        # Whoever needs room gives up what is theirs first.
        theirs = [handle for handle, it in self._kept.items() if it.owner == owner]
        while theirs and (len(theirs) >= self._each or self._chars + size > self._most):
            self._forget(theirs.pop(0))
        while self._chars + size > self._most:
            self._forget(next(iter(self._kept)))
        handle = f"r_{secrets.token_urlsafe(12)}"
        expires = self._now() + self.seconds
        self._kept[handle] = Shelved(
            owner=owner, tool=tool, text=text, structured=structured, size=size, expires=expires
        )
        self._chars += size
        return handle

    def _expire(self) -> None:
        now = self._now()
        while self._kept and next(iter(self._kept.values())).expires <= now:
            self._forget(next(iter(self._kept)))

    def _forget(self, handle: str) -> None:
        self._chars -= self._kept.pop(handle).size


def _blocks(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [block for block in result.get("content") or () if isinstance(block, Mapping)]


def _text_of(block: Mapping[str, Any]) -> str | None:
    kind = block.get("type")
    text: object = block.get("text") if kind == "text" else None
    if kind == "resource":
        text = object_in(block.get("resource")).get("text")
    return text if isinstance(text, str) else None


def _written(structured: Any) -> str:
    try:
        return msgspec.json.encode(structured).decode()
    except (TypeError, ValueError):
        # Halves of characters, from a tool of this process.
        return json.dumps(structured, default=str)


def _says(text: str, structured: object) -> bool:
    try:
        return bool(msgspec.json.decode(text) == structured)
    except (ValueError, RecursionError):
        return False


def _note(handle: str | None, *, shown: int, text: str, written: str, shelf: Shelf) -> str:
    total = len(text or written)
    parts: list[str] = []
    if total > shown:
        parts.append(f"Cut: {shown} of {total} characters are shown.")
    if text and written and total <= shown:
        parts.append(f"Structured content of {len(written)} characters is not shown.")
    if handle is None:
        parts.append("The rest is too large to be kept; ask the tool for less at once.")
    else:
        minutes = max(1, round(shelf.seconds / 60))
        way = f"offset={shown}) goes on" if total > shown else 'path="$") shows it'
        parts.append(
            f'Everything is kept for {minutes} minutes: read_result(handle="{handle}", {way}, '
            "path picks a part of JSON (items[0].name), grep finds lines."
        )
    return f"[{' '.join(parts)}]"
