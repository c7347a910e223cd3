"""ResultCache: cut long results for the model, and keep them whole for the caller for a while."""

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from time import monotonic
from typing import Any, cast

import msgspec

from pegboard.errors import HandleNotFoundError
from pegboard.gateway.request import object_in
from pegboard.model import Tool
from pegboard.model.json_limits import has_more_values, has_slow_numbers
from pegboard.policies.fair_share import FairShare, Holder

__all__ = ["CachedResult", "DuplicateContent", "ResultCache", "json_of", "repetition_in"]

_KEY = "result"
"""The key under which the SDKs wrap structured content that is not an object."""
_MINUTES_FROM = 120
_LONGEST_COMPARED, _MOST_COMPARED = 4_000_000, 200_000
"""Characters and values up to which a text is compared with the structured content."""


class DuplicateContent(Enum):
    """How structured content repeats the texts of a result."""

    JSON = "the text is its JSON"
    WRAPPED_JSON = "the text is the JSON of what it wraps"
    WRAPPED_TEXT = "it wraps the text"
    WRAPPED_LIST = "it wraps a list, and each item is a text"

    def restored(self, text: bytes) -> bytes:
        """Return the structured content as JSON, restored from the single text that it repeats."""
        # A wrapped text stays a text: it may be JSON itself, and a path never means the wrapper.
        return (
            b'{"%s":%s}' % (_KEY.encode(), text) if self is DuplicateContent.WRAPPED_JSON else text
        )


class CachedResult(msgspec.Struct, frozen=True, kw_only=True):
    """One cached result, as bytes, because objects would take many times the memory."""

    owner: Holder
    """The tenant and the subject of its caller."""
    tool: Tool
    written: bytes
    """All texts of the result, in full."""
    structured: bytes
    """Its structured content as JSON; empty if it has none, or the text restores it."""
    says_more: bool
    """Whether the structured content has something that is not in the texts."""
    repeats: DuplicateContent | None
    """How the text restores the structured content."""
    heading: int
    """How many bytes at the start of the text are a heading for an embedded resource."""
    expires: float

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return len(self.written) + len(self.structured)

    def text(self) -> str:
        """Return the text to read page by page: the texts, or else the structured content."""
        return (self.written or self.structured).decode("utf-8", "surrogatepass")

    @property
    def json(self) -> bytes:
        """The structured content, or else the text, which may be JSON."""
        if self.structured:
            return self.structured
        text = self.written[self.heading :]
        return text if self.repeats is None else self.repeats.restored(text)

    def data(self) -> Any:
        """Return the decoded JSON.

        Raises:
            ValueError: when it is not JSON.
        """
        return msgspec.json.decode(self.json)


class ResultCache:
    """Keeps long results for a while, with limits for each caller and for all callers together.

    One caller may use at most half of the bytes. When the cache is full, it drops the oldest result
    of the caller with the most bytes. So a caller with a few results keeps them.

    Args:
        seconds: how long the cache keeps a result.
        each: how many results it keeps for one caller.
        most: how many bytes it keeps for all callers together.
        now: returns the time, in seconds.
    """

    def __init__(
        self,
        *,
        seconds: float,
        each: int,
        most: int,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self.seconds = seconds
        self.shares: FairShare = FairShare(
            "cached bytes", most, setting="gateway.result_cache_bytes"
        )
        """The bytes of each caller."""
        self._each = each
        self._most = most
        self._now = now
        self._kept: dict[str, CachedResult] = {}
        self._handles: dict[Holder | None, dict[str, None]] = {}
        """The results of each caller, the oldest first."""

    def __len__(self) -> int:
        self._expire()
        return len(self._kept)

    def has_results_of(self, tenant: str) -> bool:
        """Tell whether it keeps results for a tenant."""
        self._expire()
        return self.shares.held((tenant,)) > 0

    def shortened(
        self, result: dict[str, Any], *, owner: Holder, tool: Tool, limit: int
    ) -> dict[str, Any]:
        """Return a result unchanged if it fits; else its start, and how to read the rest.

        Only text and structured content count. Images, sounds and links stay.
        """
        blocks = _blocks(result)
        texts = [_text_of(block) for block in blocks]
        text = "\n".join(it for it in texts if it is not None)
        structured = result.get("structuredContent")
        if structured is None and len(text) <= limit:
            return result
        written = "" if structured is None else json_of(structured)
        if len(text) + len(written) <= limit:
            return result
        repeats = repetition_in([it for it in texts if it is not None], structured)
        # A server may send the same as text and as structured content; that counts once.
        if len(text) <= limit and repeats is not None:
            return result
        # The cut result is one text, so headings mark where each resource starts.
        parts = [
            (_heading_of(block), it)
            for block, it in zip(blocks, texts, strict=True)
            if it is not None
        ]
        is_said = structured is None or repeats is not None
        is_restored = len(parts) == 1 and repeats not in (None, DuplicateContent.WRAPPED_LIST)
        text = "\n".join(heading + it for heading, it in parts)
        shown = text or written
        new = CachedResult(
            owner=owner,
            tool=tool,
            written=_bytes(text),
            structured=b"" if is_restored else _bytes(written),
            says_more=not is_said,
            repeats=repeats if is_restored else None,
            # A single text may be JSON, but the heading before it is not.
            heading=len(_bytes(parts[0][0])) if len(parts) == 1 else 0,
            expires=self._now() + self.seconds,
        )
        handle = self._keep(new)
        kept = {key: value for key, value in result.items() if key != "structuredContent"}
        others = [block for block, it in zip(blocks, texts, strict=True) if it is None]
        preview = shown[:limit]
        unseen = len(written) if text and not is_said else 0
        note = _note(handle, shown=len(preview), total=len(shown), unseen=unseen, result_cache=self)
        words = [{"type": "text", "text": it} for it in (preview, note) if it]
        return {**kept, "content": [*words, *others]}

    def find(self, handle: object, *, owner: Holder) -> CachedResult:
        """Return the cached result of this caller with a handle.

        Raises:
            HandleNotFoundError: when there is none, or it belongs to another caller.
        """
        self._expire()
        found = self._kept.get(handle) if isinstance(handle, str) else None
        if found is None or found.owner != owner:
            raise HandleNotFoundError(handle)
        return found

    def _keep(self, new: CachedResult) -> str | None:
        self._expire()
        owner, shares, half = new.owner, self.shares, self._most // 2
        if new.size > half:
            return None
        while len(self._handles.get(owner, ())) >= self._each or (
            shares.held(owner) + new.size > half
        ):
            self._forget_oldest_of(owner)
        while not shares.fits(new.size):
            self._forget_oldest_of(shares.largest(owner))
        handle = f"r_{secrets.token_urlsafe(12)}"
        self._kept[handle] = new
        self._handles.setdefault(owner, {})[handle] = None
        shares.add(owner, new.size)
        return handle

    def _expire(self) -> None:
        now = self._now()
        while self._kept and next(iter(self._kept.values())).expires <= now:
            self._forget(next(iter(self._kept)))

    def _forget_oldest_of(self, owner: Holder | None) -> None:
        self._forget(next(iter(self._handles[owner])))

    def _forget(self, handle: str) -> None:
        gone = self._kept.pop(handle)
        self.shares.remove(gone.owner, gone.size)
        handles = self._handles[gone.owner]
        del handles[handle]
        if not handles:
            del self._handles[gone.owner]


def repetition_in(texts: Sequence[str], structured: object) -> DuplicateContent | None:
    """Return how structured content repeats the texts of its result; ``None`` if it has more.

    JSON that takes long to decode counts as no repetition.
    """
    text = "\n".join(texts)
    members = object_in(structured)
    is_wrapped = list(members) == [_KEY]
    wrapped: object = members[_KEY] if is_wrapped else None
    if wrapped == text:
        return DuplicateContent.WRAPPED_TEXT
    if structured is None or not _is_quickly_read(text):
        return None
    if _is_json_of(text, structured):
        return DuplicateContent.JSON
    if is_wrapped and _is_json_of(text, wrapped):
        return DuplicateContent.WRAPPED_JSON
    if not isinstance(wrapped, list):
        return None
    items = cast("list[object]", wrapped)
    is_each_said = len(items) == len(texts) and all(
        item == it or _is_json_of(it, item) for item, it in zip(items, texts, strict=True)
    )
    return DuplicateContent.WRAPPED_LIST if is_each_said else None


def _is_quickly_read(text: str) -> bool:
    """Tell whether a text takes little time to decode: it was not counted as JSON when it came."""
    if len(text) > _LONGEST_COMPARED:
        return False
    data = _bytes(text)
    return not has_more_values(data, _MOST_COMPARED) and not has_slow_numbers(data)


def json_of(structured: Any) -> str:
    """Return structured content as JSON."""
    try:
        return msgspec.json.encode(structured).decode()
    except (TypeError, ValueError):
        # A tool of this process returned lone surrogates.
        return json.dumps(structured, default=str)


def _is_json_of(text: str, value: object) -> bool:
    try:
        return bool(msgspec.json.decode(text) == value)
    except (ValueError, RecursionError):
        return False


def _blocks(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [block for block in result.get("content") or () if isinstance(block, Mapping)]


def _text_of(block: Mapping[str, Any]) -> str | None:
    kind = block.get("type")
    text: object = block.get("text") if kind == "text" else None
    if kind == "resource":
        text = object_in(block.get("resource")).get("text")
    return text if isinstance(text, str) else None


def _heading_of(block: Mapping[str, Any]) -> str:
    """Return the heading of an embedded resource; empty for other blocks."""
    resource = object_in(block.get("resource"))
    said = [it for key in ("uri", "mimeType") if isinstance(it := resource.get(key), str) and it]
    return f"[Resource {' '.join(said)}]\n" if said else ""


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _note(
    handle: str | None, *, shown: int, total: int, unseen: int, result_cache: ResultCache
) -> str:
    parts: list[str] = []
    is_cut = total > shown
    if is_cut:
        parts.append(f"Cut: {shown} of {total} characters are shown.")
    if unseen:
        where = '; path="$" shows it' if is_cut and handle is not None else ""
        parts.append(f"Structured content of {unseen} characters is not shown{where}.")
    if handle is None:
        parts.append("The rest is too large to be kept; ask the tool for less at once.")
    else:
        way = f"offset={shown}) goes on" if is_cut else 'path="$") shows it'
        parts.append(
            f"Everything is kept for {_duration(result_cache.seconds)}: "
            f'read_result(handle="{handle}", {way}, '
            "path picks a part of JSON (items[0].name), grep finds lines."
        )
    return f"[{' '.join(parts)}]"


def _duration(seconds: float) -> str:
    count, unit = (seconds / 60, "minute") if seconds >= _MINUTES_FROM else (seconds, "second")
    whole = max(1, round(count))
    return f"{whole} {unit}" if whole == 1 else f"{whole} {unit}s"
