"""ResultMedia: images and sounds of results, each at an address that only its page knows."""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

import msgspec

__all__ = ["PLAYABLE", "Medium", "ResultMedia"]

SECONDS = 300.0
"""How long an address can be read."""
MOST_BYTES, MOST_AT_ONCE = 64 * 1024 * 1024, 500
PLAYABLE = frozenset(
    (
        *(f"image/{it}" for it in ("png", "jpeg", "gif", "webp", "avif", "bmp")),
        *(f"audio/{it}" for it in ("mpeg", "mp4", "ogg", "wav", "x-wav", "webm", "flac", "aac")),
    )
)
"""The media types that a browser shows, and in which no program can be."""


class Medium(msgspec.Struct, frozen=True, kw_only=True):
    """An image or a sound."""

    mime_type: str
    data: bytes
    ends: float


class ResultMedia:
    """Keeps what pages show, for minutes and in memory; the oldest go when there are too many.

    Args:
        clock: tells the time in seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[str, Medium] = OrderedDict()
        self._bytes = 0

    def keep(self, mime_type: str, data: bytes) -> str | None:
        """Return the address of new data; ``None`` if a page does not show such data."""
        if mime_type not in PLAYABLE or len(data) > MOST_BYTES // 4:
            return None
        key = secrets.token_urlsafe(24)
        self._kept[key] = Medium(mime_type=mime_type, data=data, ends=self._clock() + SECONDS)
        self._bytes += len(data)
        while self._bytes > MOST_BYTES or len(self._kept) > MOST_AT_ONCE or self._is_first_over():
            _, gone = self._kept.popitem(last=False)
            self._bytes -= len(gone.data)
        return f"/console/results/{key}"

    def find(self, key: str) -> Medium | None:
        """Return what is at an address, unless it is gone."""
        found = self._kept.get(key)
        return found if found is not None and self._clock() < found.ends else None

    def _is_first_over(self) -> bool:
        return next(iter(self._kept.values())).ends <= self._clock()
