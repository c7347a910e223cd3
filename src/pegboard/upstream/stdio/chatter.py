"""Chatter: what a launcher prints of itself, which tells nothing about the server."""

import re
from collections.abc import Iterable

__all__ = ["without_chatter"]

_CHATTER = re.compile(r"npm (?:notice|warn)\b", re.IGNORECASE)


def without_chatter(lines: Iterable[str]) -> list[str]:
    """Return the lines that say something; if all is chatter, that."""
    said = [it for it in lines if it.strip()]
    return [it for it in said if not _CHATTER.match(it)] or said
