"""Pegboard: the methods of its search, everything at its default."""

from typing import Any

from search_shared import Definition, Search, alternatives, run

from pegboard import Tool
from pegboard.search.evaluation import build_by

METHODS = ("regex", "bm25", "embedding", "hybrid")


def tool_of(definition: Definition) -> Tool:
    """A definition as we want it."""
    return Tool(**{**definition, "server": definition["server"] or None})


def shipped_meaning() -> Any:
    """What knows the meaning of tools, from the table that ships with the package."""
    from pegboard.search.vectors.meaning import open_meaning

    return open_meaning()


def _ready(method: str):
    def build(tools: list[Definition]) -> Search:
        search = build_by(method)([tool_of(it) for it in tools])
        places = {it["name"]: place for place, it in enumerate(tools)}
        asked = alternatives if method == "regex" else str
        return lambda text: [places[name] for name in search(asked(text))]

    return build


if __name__ == "__main__":
    run({method: _ready(method) for method in METHODS})
