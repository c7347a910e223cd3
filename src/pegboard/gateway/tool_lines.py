"""ToolLines: tools as search_tools shows them, each written once."""

from typing import Any, NamedTuple

from pegboard.gateway.signatures import first_sentence, signature
from pegboard.model import Tool

__all__ = ["ToolLine", "ToolLines"]

_MOST = 4096


class ToolLine(NamedTuple):
    """A tool in one line."""

    tool: Tool
    signature: str
    sentence: str
    whole: str

    def data(self, score: float, *, is_definition: bool) -> dict[str, Any]:
        """Return the same as data, with how well it fits, and whether nothing could run it."""
        data: dict[str, Any] = {
            "name": self.tool.name,
            "signature": self.signature,
            "description": self.sentence,
            "score": round(score, 3),
        }
        return {**data, "definition_only": True} if is_definition else data


class ToolLines:
    """Remembers the lines of tools that were found: the same ones are found again and again."""

    def __init__(self) -> None:
        self._lines: dict[str, ToolLine] = {}

    def of(self, tool: Tool) -> ToolLine:
        """Return the line of a tool."""
        known = self._lines.get(tool.name)
        if known is not None and known.tool is tool:
            return known
        if len(self._lines) >= _MOST:
            self._lines.clear()
        call, words = signature(tool), first_sentence(tool.description)
        line = ToolLine(tool, call, words, f"{call} — {words}" if words else call)
        self._lines[tool.name] = line
        return line
