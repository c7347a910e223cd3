"""Which kinds of content a client sends and takes, by its headers."""

from functools import lru_cache

__all__ = ["accepts", "is_json"]


LONGEST_REMEMBERED = 300


def accepts(header: str) -> tuple[bool, bool]:
    """Tell of an ``Accept`` header whether JSON is taken, and whether event streams are."""
    return _accepts(header) if len(header) <= LONGEST_REMEMBERED else _accepts.__wrapped__(header)


def is_json(header: str) -> bool:
    """Tell of a ``Content-Type`` header whether it announces JSON."""
    return header == "application/json" or _kind_of(header) == "application/json"


@lru_cache(256)
def _accepts(header: str) -> tuple[bool, bool]:
    kinds = {_kind_of(part) for part in header.split(",")}
    anything = "*/*" in kinds
    return (
        anything or not kinds.isdisjoint({"application/json", "application/*"}),
        anything or not kinds.isdisjoint({"text/event-stream", "text/*"}),
    )


def _kind_of(part: str) -> str:
    return part.split(";")[0].strip().lower()
