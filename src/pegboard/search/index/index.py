"""ToolIndex: the search index; it applies catalogue changes and publishes a snapshot for each."""

import logging
import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from pegboard.model import CatalogChange, Tool
from pegboard.model.fork_guard import GuardedLock
from pegboard.search.index.index_file import save_index, take_saved
from pegboard.search.index.segment import Segment, build_segment, merge_segments
from pegboard.search.index.snapshot import Snapshot
from pegboard.search.index.tail import Tail
from pegboard.search.index.view import SegmentView, TailView
from pegboard.search.text.fields import ToolText, read_text
from pegboard.search.text.postings import Floats, Postings, as_ints, join_postings, weigh
from pegboard.search.text.tool_runs import ToolRuns
from pegboard.search.vectors.meaning import QueryMeaning
from pegboard.search.vectors.space import Space, ToolVectors, join_vectors

__all__ = ["Meaning", "ToolIndex", "caught_up", "to_merge"]

# A segment stays when it has more than this many times the tools of all smaller ones together; so
# there are never many, and each tool is moved only a few times.
_RATIO = 2
# A segment is laid out anew when more than this share of it is dead.
_DEAD_SHARE = 0.3


def to_merge(segments: Sequence[SegmentView]) -> list[SegmentView]:
    """Return the segments that should become one, if any."""
    ordered = sorted(segments, key=lambda view: view.living)
    smaller = worth = 0
    for place, view in enumerate(ordered):
        if place and view.living <= _RATIO * smaller:
            worth = place + 1
        smaller += view.living
    if worth:
        return ordered[:worth]
    return [view for view in ordered if len(view.dead_rows) > _DEAD_SHARE * view.size][:1]


def caught_up(
    merged: Segment, parts: Sequence[SegmentView], segments: Sequence[SegmentView]
) -> list[SegmentView]:
    """Return the segments of now with a merged one in the place of its parts.

    Args:
        merged: what the parts were put together to,
        parts: as they were then.
        segments: those of now; tools of the parts may have gone meanwhile.
    """
    now = {id(view.segment): view for view in segments}
    gone: list[int] = []
    for part in parts:
        current = now.pop(id(part.segment), None)
        dead = np.arange(part.size) if current is None else current.dead_rows
        lost = as_ints(np.setdiff1d(dead, part.dead_rows))
        gone.extend(merged.rows_by_name[part.segment.tools[row].name] for row in lost)
    view = SegmentView(merged, len(merged.tools))
    if gone:
        view = view.without(gone)
    return [*now.values(), view] if view.living else list(now.values())


logger: logging.Logger = logging.getLogger("pegboard.search")

TAIL = 512
# So many tools at once are a segment of their own.
BATCH = 128
# So many are read at once.
SLICE = 16_384

AView = TypeVar("AView", SegmentView, TailView)


class Meaning(Protocol):
    """Turns tools and queries into vectors (embeddings)."""

    @property
    def version(self) -> str:
        """Differs where the same tool would get another vector."""
        ...

    @property
    def space(self) -> Space:
        """Where tools are by their vectors."""
        ...

    def of_tools(self, texts: Sequence[ToolText]) -> Floats:
        """Return a unit row for each tool; zeros for what means nothing."""
        ...

    def of_query(self, text: str) -> QueryMeaning:
        """Return what a query means, as a whole and then clause by clause."""
        ...


class ToolIndex:
    """All tools of a catalogue, ready to be searched. Readers take the snapshot and never wait.

    Args:
        meaning: turns tools and queries into vectors; without it only words count.
        saved: the file of a saved index. Tools that have not changed since are read from it.
    """

    def __init__(self, meaning: Meaning | None = None, *, saved: Path | None = None) -> None:
        self.meaning = meaning
        self._saved = saved
        self._merger: threading.Thread | None = None
        self._torn = False
        """True while the tail may hold a part of a change that was not published."""
        self._space = None if meaning is None else meaning.space
        self.snapshot: Snapshot = self._snapshot((), _new_tail(), revision=-1)
        """Everything up to the last change."""
        self.kept_in: Path | None = None
        """The file from which all of it was read, so that it need not be saved there again."""
        self._writing = GuardedLock("search index", threading.Lock())

    def apply(self, change: CatalogChange) -> None:
        """Apply a change, unless it is an old one; added tools are found from now on."""
        with self._writing:
            now = self.snapshot
            if change.revision <= now.revision:
                return
            coming = {tool.name: tool for tool in (*change.added, *change.changed)}
            leaving = coming.keys() | {tool.name for tool in change.removed}
            segments, tail = now.segments, now.tail
            if self._torn:
                segments, tail = (*segments, *_sealed(tail)), _new_tail()
            self._torn = True
            self.kept_in = None
            left = [view for it in segments if (view := _without(it, leaving)).living]
            segments, tail = self._with(left, _without(tail, leaving), list(coming.values()))
            self.snapshot = self._snapshot(segments, tail, revision=change.revision)
            self._torn = False
            self._merge_if_worth_it()

    def settle(self) -> None:
        """Wait until no segments are left to merge."""
        while (merger := self._merger) is not None:
            self._writing.check()
            merger.join()

    def save(self, path: Path) -> bool:
        """Save the index for the next start, and tell whether that was possible."""
        return save_index(path, self.snapshot, self._version)

    def _with(
        self, segments: list[SegmentView], tail: TailView, tools: list[Tool]
    ) -> tuple[list[SegmentView], TailView]:
        if self._saved is not None and tools:
            segment, tools = take_saved(self._saved, tools, self._version, self._space)
            self.kept_in = None if tools or segments else self._saved
            self._saved = None
            segments += [] if segment is None else [SegmentView(segment, len(segment.tools))]
        if not tools:
            return segments, tail
        postings, meaning = self._read(tools)
        if len(tools) >= BATCH:
            segment = build_segment(tools, postings, meaning)
            return [*segments, SegmentView(segment, len(tools))], tail
        if tail.size + len(tools) > tail.tail.capacity:
            segments, tail = [*segments, *_sealed(tail)], _new_tail()
        tail.tail.append(tools, postings, meaning)
        return segments, tail.grown()

    def _read(self, tools: Sequence[Tool]) -> tuple[Postings, ToolVectors | None]:
        """Return the words and the meaning of tools.

        They are read slice by slice: a step over all of many tools would keep the interpreter from
        every other thread for too long. Words and meaning of a tool depend on this tool alone.
        """
        postings: list[Postings] = []
        meanings: list[ToolVectors] = []
        for first in range(0, len(tools), SLICE):
            texts = ToolRuns([read_text(tool) for tool in tools[first : first + SLICE]])
            postings.append(weigh(texts))
            meaning = self._mean(texts)
            if meaning is not None:
                meanings.append(meaning)
        if len(postings) == 1:
            return postings[0], meanings[0] if meanings else None
        return join_postings(postings), join_vectors(meanings)

    @property
    def _version(self) -> str:
        return "" if self.meaning is None else self.meaning.version

    def _mean(self, texts: Sequence[ToolText]) -> ToolVectors | None:
        if self.meaning is None or self._space is None:
            return None
        try:
            return self._space.place(self.meaning.of_tools(texts), size=len(texts))
        except Exception:
            # They are still found by their words.
            logger.exception("tools_without_meaning", extra={"tools": len(texts)})
            return self._space.place(np.zeros((len(texts), self._space.width)), size=len(texts))

    def _snapshot(
        self, segments: Sequence[SegmentView], tail: TailView, *, revision: int
    ) -> Snapshot:
        return Snapshot(segments, tail, space=self._space, revision=revision)

    def _merge_if_worth_it(self) -> None:
        if self._merger is not None or not to_merge(self.snapshot.segments):
            return
        merger = threading.Thread(target=self._merge, name="pegboard-search-merger", daemon=True)
        try:
            merger.start()
        except RuntimeError:
            # No more threads, or the interpreter is ending: searches are only slower.
            return
        self._merger = merger

    def _merge(self) -> None:
        try:
            while parts := self._next_parts():
                merged = merge_segments([(part.segment, part.alive) for part in parts])
                with self._writing:
                    now = self.snapshot
                    segments = caught_up(merged, parts, now.segments)
                    self.snapshot = self._snapshot(segments, now.tail, revision=now.revision)
        except Exception:
            # The segments can be searched as they are.
            logger.exception("segments_not_merged")
            with self._writing:
                self._merger = None

    def _next_parts(self) -> list[SegmentView]:
        with self._writing:
            parts = to_merge(self.snapshot.segments)
            if not parts:
                self._merger = None
            return parts


def _new_tail() -> TailView:
    return TailView(Tail(TAIL), 0, np.zeros(0, np.bool_))


def _without(view: AView, names: Collection[str]) -> AView:
    if not view.living:
        return view
    rows = [row for name in names if (row := view.row_of(name)) is not None]
    return view.without(rows) if rows else view


def _sealed(tail: TailView) -> list[SegmentView]:
    rows = np.flatnonzero(tail.alive).tolist()
    return [SegmentView(tail.tail.as_segment(rows), len(rows))] if rows else []
