"""Which kinds of content a client sends and takes, by its headers."""

from functools import lru_cache

__all__ = ["accepts", "is_json"]


@lru_cache(256)
def accepts(header: str) -> tuple[bool, bool]:
    """Tell of an ``Accept`` header whether JSON is taken, and whether event streams are."""
    kinds = {part.split(";")[0].strip().lower() for part in header.split(",")}
    anything = "*/*" in kinds
    return (
        anything or not kinds.isdisjoint({"application/json", "application/*"}),
        anything or not kinds.isdisjoint({"text/event-stream", "text/*"}),
    )


@lru_cache(256)
def is_json(header: str) -> bool:
    """Tell of a ``Content-Type`` header whether it announces JSON."""
    return header.split(";")[0].strip().lower() == "application/json"
