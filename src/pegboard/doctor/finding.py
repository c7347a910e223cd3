"""Finding: one thing that is wrong or could be better, and what to do about it."""

import msgspec

from pegboard.doctor.codes import CODES, Severity

__all__ = ["Finding", "found", "shown"]

_LONGEST = 240


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What is the matter, in one sentence; and the remedy in the next. It never holds a secret."""

    code: str
    """One of `CODES`; these stay what they are."""
    severity: Severity
    what: str
    remedy: str
    server: str | None = None
    """``None`` when it is about no single server."""
    tool: str | None = None
    """The name that the server has for it."""
    place: str | None = None
    """The file, and the line and column in it, as far as there are."""


def found(
    code: str,
    what: str,
    remedy: str,
    *,
    server: str | None = None,
    tool: str | None = None,
) -> Finding:
    """Return a finding, as bad as its code is."""
    severity = CODES[code].severity
    return Finding(code=code, severity=severity, what=what, remedy=remedy, server=server, tool=tool)


def shown(text: str, limit: int = _LONGEST) -> str:
    """Return a text that somebody else wrote, on one line and printable, cut where it is long."""
    start = text[: 4 * limit]
    line = " ".join("".join(it if it.isprintable() else " " for it in start).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
