"""When segments are put together, and how that goes on while the catalogue changes."""

from collections.abc import Sequence

import numpy as np

from pegboard.search.postings import as_ints
from pegboard.search.segment import Segment
from pegboard.search.view import SegmentView

__all__ = ["caught_up", "to_merge"]

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
