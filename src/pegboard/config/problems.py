"""Problem: something in a configuration file that a person should look at."""

from typing import Literal

import msgspec

__all__ = ["Problem", "ProblemKind", "Severity"]

Severity = Literal["error", "warning"]
"""An ``error`` costs the entry; a ``warning`` costs nothing."""

ProblemKind = Literal["entry", "variable", "unknown_field", "plain_secret", "doubt"]
"""What it is about: the entry itself, a variable that nobody defined, a field that nobody reads, a
secret in plain text, or something that hardly means what it says."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong, where, and with which server. It never holds a value out of the file."""

    message: str
    server: str | None = None
    """``None`` when it is about the file as a whole."""
    line: int | None = None
    column: int | None = None
    severity: Severity = "error"
    kind: ProblemKind = "entry"

    def __str__(self) -> str:
        place = "" if self.line is None else f"{self.line}:{self.column}: "
        return f"{place}{self.severity}: {self.message}"
