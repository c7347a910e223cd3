"""search_tools: find the tools that do what somebody wants, each in one line."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from pegboard.gateway.list_tools_by_category import categories_of
from pegboard.gateway.own_tool import OwnTool, Visit, answer
from pegboard.gateway.pace import Pace
from pegboard.gateway.sight import Sight
from pegboard.gateway.signatures import first_sentence, one_line, signature
from pegboard.gateway.tool_list import ToolList
from pegboard.model import Annotations, Tool
from pegboard.registry import Registry
from pegboard.registry.heat import Heat
from pegboard.search import Answer, Hit
from pegboard.search.options import query_of

__all__ = ["search_tools"]

_SHOWN = 5
_FALLBACK = "hybrid"
_BY_MEANING = "(No tool has these words; these were found by their meaning, with hybrid.)"
_METHODS = ["bm25", "hybrid", "embedding", "regex"]

DEFINITION = Tool(
    name="search_tools",
    description="Find tools by what they do. Gives one line for each: name(arguments) — purpose. "
    "[score]. Then call_tool runs one; get_tool_definition shows its full schema. bm25 goes by "
    "words; hybrid understands meaning and other languages, and is tried when you name no method "
    "and bm25 finds nothing.",
    input_schema={
        "type": "object",
        "properties": {
            "query": {
                "type": "string",
                "minLength": 1,
                "maxLength": 1000,
                "description": "What the tool should do, or a regular expression with regex.",
            },
            "search_method": {"type": "string", "enum": _METHODS, "default": "bm25"},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 5},
            "method": {"type": "string", "enum": _METHODS, "description": "Same as search_method."},
        },
        "required": ["query"],
        "additionalProperties": False,
    },
    annotations=Annotations(read_only=True, open_world=False),
)


def search_tools(registry: Registry, tools: ToolList) -> OwnTool:
    """Return the tool that searches a registry."""
    heat = Heat(registry.usage)
    pace = Pace(tools)

    def search(text: str, method: str, limit: int, sight: Sight) -> Answer:
        used = dict[str, float]() if registry.storage is None else heat.current()

        def boost(name: str) -> float:
            return used.get(name, 0.0)

        query = query_of(text, {"limit": limit}, visible=sight.visible, boost=boost)
        return registry.search_engine.search(query, method=method)

    async def run(visit: Visit, arguments: dict[str, Any]) -> dict[str, Any]:
        async def found_by(method: str) -> Answer:
            work = partial(search, arguments["query"], method, arguments["limit"], visit.sight)
            return await pace.run(method, work)

        method = arguments.get("method") or arguments["search_method"]
        found = await found_by(method)
        falls_back = not found.hits and not _names_method(visit)
        if falls_back:
            method = _FALLBACK
            found = await found_by(method)
        if not found.hits:
            nothing = partial(_nothing, found.hints, tools, visit.sight)
            words, hints = await pace.run("nothing", nothing)
            return answer(words, {"tools": [], "hints": hints, "method": method})
        lines = [f"{one_line(hit.tool)} [{hit.score:.2f}]" for hit in found.hits]
        if falls_back:
            lines.append(_BY_MEANING)
        data = {"tools": [_as_data(hit) for hit in found.hits], "method": method}
        return answer("\n".join(lines), data)

    return OwnTool(DEFINITION, run)


def _names_method(visit: Visit) -> bool:
    said: object = visit.exchange.params.get("arguments")
    return isinstance(said, Mapping) and ("method" in said or "search_method" in said)


def _as_data(hit: Hit) -> dict[str, Any]:
    tool = hit.tool
    return {
        "name": tool.name,
        "signature": signature(tool),
        "description": first_sentence(tool.description),
        "score": round(hit.score, 3),
    }


def _nothing(hints: Sequence[str], tools: ToolList, sight: Sight) -> tuple[str, list[str]]:
    """Return words for an empty answer, and where to look instead.

    That is what was near, or else the largest categories; only what exists for whoever asks.
    """
    seen = list(tools.seen(sight))
    known = {f"server: {tool.server}" for tool in seen}
    known |= {f"category: {tool.category}" for tool in seen}
    known |= {f"tag: {tag}" for tool in seen for tag in tool.tags}
    shown = [hint for hint in hints if hint in known]
    if not shown:
        counts = categories_of(seen)
        largest = sorted(counts, key=lambda category: -counts[category])[:_SHOWN]
        shown = [f"category: {category}" for category in largest]
    # Not "nearest": something is the nearest to nonsense, too.
    where = f" There is: {', '.join(shown)}." if shown else ""
    words = (
        f"No tool here does that.{where} Try other words, or list_tools_by_category "
        '(category="all") to see what there is.'
    )
    return words, shown
