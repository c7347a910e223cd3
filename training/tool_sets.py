"""The sets of tools and queries that we may learn from, because their licences are permissive."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pegboard.model import Tool
from pegboard.search.evaluation import read_evaluation_set
from pegboard.search.text.fields import ToolText, read_text
from training.places import CATALOGS, RETRIEVAL

WITH_QUERIES = ("toole", "sealtools", "bfcl", "mcpproxy_golden")
"""Sets whose queries we may learn from."""
WITHOUT_QUERIES = ("mcpflow",)
"""Sets of which only the tools may be used."""

_WORD_BORDERS = re.compile(r"[_\-./]|(?<=[a-z0-9])(?=[A-Z])")


class ToolSet(NamedTuple):
    """Tools, and which of them answer a query."""

    name: str
    tools: tuple[Tool, ...]
    texts: list[ToolText]
    queries: list[str]
    relevant: list[list[int]]
    """The positions of the right tools, for each query."""


def read_tool_set(name: str) -> ToolSet:
    """Return a set; that of ToolE with its further queries for training."""
    if not (RETRIEVAL / name).is_dir():
        raise SystemExit(
            f"There is no set `{name}` in {RETRIEVAL}: set PEGBOARD_RETRIEVAL to the folder that "
            "holds the sets (`training/README.md` says which)."
        )
    found = read_evaluation_set(RETRIEVAL / name)
    place = {tool.name: at for at, tool in enumerate(found.tools)}
    asked = [(it.text, [place[one] for one in sorted(it.relevant)]) for it in found.questions]
    place_of_id = {found.ids[tool]: at for tool, at in place.items()}
    asked += _training_queries(name, place_of_id)
    asked = [(text, relevant) for text, relevant in asked if relevant and name in WITH_QUERIES]
    return ToolSet(
        name,
        found.tools,
        [read_text(tool) for tool in found.tools],
        [text for text, _ in asked],
        [relevant for _, relevant in asked],
    )


def read_catalogs() -> list[Tool]:
    """Return the tools of real servers, if somebody has collected them."""
    return [
        Tool(
            name=it["name"],
            description=it.get("description") or "",
            input_schema=it.get("inputSchema") or {},
        )
        for path in sorted(CATALOGS.glob("*.json"))
        for it in json.loads(path.read_text("utf-8"))
    ]


def texts_of(tools: Iterable[Tool]) -> list[str]:
    """Return the names, descriptions and descriptions of parameters, each once."""
    return sorted({text for tool in tools for text in _texts(tool) if text})


def _texts(tool: Tool) -> Iterator[str]:
    yield _WORD_BORDERS.sub(" ", tool.name).strip()
    yield tool.description[:400]
    properties = tool.input_schema.get("properties")
    for parameter in properties.values() if isinstance(properties, dict) else ():
        description = parameter.get("description") if isinstance(parameter, dict) else None
        if isinstance(description, str) and len(description) > 8:
            yield description[:200]


def _training_queries(name: str, places: dict[str, int]) -> list[tuple[str, list[int]]]:
    path = RETRIEVAL / "train.jsonl"
    lines = path.read_text("utf-8").split("\n") if path.exists() else []
    return [
        (it["query"], [places[one] for one in it["relevant"] if one in places])
        for it in map(json.loads, filter(None, lines))
        if it["set"] == name
    ]
