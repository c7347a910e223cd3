"""search_tools: find the tools that do what somebody wants, each in one line."""

from collections.abc import Sequence
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
_METHODS = ["bm25", "hybrid", "embedding", "regex"]

DEFINITION = Tool(
    name="search_tools",
    description="Find tools by what they do. Gives one line for each: name(arguments) — purpose. "
    "[score]. Then call_tool runs one; get_tool_definition shows its full schema.",
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
        found = registry.search_engine.search(query, method=method)
        return found if found.hits else Answer(hints=_nearest(found.hints, tools, sight))

    async def run(visit: Visit, arguments: dict[str, Any]) -> dict[str, Any]:
        method = arguments.get("method") or arguments["search_method"]
        work = partial(search, arguments["query"], method, arguments["limit"], visit.sight)
        found = await pace.run(method, work)
        if not found.hits:
            return _nothing(found.hints)
        lines = [f"{one_line(hit.tool)} [{hit.score:.2f}]" for hit in found.hits]
        return answer("\n".join(lines), {"tools": [_as_data(hit) for hit in found.hits]})

    return OwnTool(DEFINITION, run)


def _as_data(hit: Hit) -> dict[str, Any]:
    tool = hit.tool
    return {
        "name": tool.name,
        "signature": signature(tool),
        "description": first_sentence(tool.description),
        "score": round(hit.score, 3),
    }


def _nothing(hints: Sequence[str]) -> dict[str, Any]:
    nearest = f" Nearest: {', '.join(hints)}." if hints else ""
    words = (
        f"No tool here does that.{nearest} Try other words, or list_tools_by_category "
        '(category="all") to see what there is.'
    )
    return answer(words, {"tools": [], "hints": list(hints)})


def _nearest(hints: Sequence[str], tools: ToolList, sight: Sight) -> tuple[str, ...]:
    """Return where to look instead: what was near, or else the largest categories.

    Only what exists for whoever asks is hinted at.
    """
    seen = list(tools.seen(sight))
    known = {f"server: {tool.server}" for tool in seen}
    known |= {f"category: {tool.category}" for tool in seen}
    known |= {f"tag: {tag}" for tool in seen for tag in tool.tags}
    near = tuple(hint for hint in hints if hint in known)
    if near:
        return near
    counts = categories_of(seen)
    largest = sorted(counts, key=lambda category: -counts[category])[:_SHOWN]
    return tuple(f"category: {category}" for category in largest)
