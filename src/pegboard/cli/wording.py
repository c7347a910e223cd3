"""Words that commands say."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pegboard.config import Problem

__all__ = ["NOT_ON_WINDOWS", "counted", "placed", "sentence"]

NOT_ON_WINDOWS = "`pegboard serve` runs on Linux and macOS; on Windows use WSL."


def sentence(words: str) -> str:
    """Return words as a sentence; capital letters in them stay."""
    return f"{words[:1].upper()}{words[1:]}."


def counted(number: int, noun: str) -> str:
    """Return ``1 tool`` or ``2 tools``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def placed(problem: "Problem", file: "Path | str | None") -> str:
    """Return a problem and where it is, as editors understand it: ``mcp.json:24:20: error: …``."""
    if file is None:
        return str(problem)
    return f"{file}:{'' if problem.line is not None else ' '}{problem}"
