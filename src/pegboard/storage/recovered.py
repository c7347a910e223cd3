"""Recovered: what could be saved of a damaged store."""

from pathlib import Path

import msgspec

__all__ = ["Recovered"]


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """What a recovery kept, and where the damaged file is now."""

    kept: tuple[str, ...]
    """Names of the tools that are in the new file."""
    lost: tuple[str, ...]
    """Sentences about what could not be read."""
    saved_as: Path | None
    """The damaged file, as it was, under its new name; ``None`` when nothing was damaged, and
    nothing changed."""
