"""search_tools: find the tools that do what somebody wants, each in one line."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import anyio
from anyio.to_thread import run_sync

from pegboard.errors import InvalidArgumentsError, InvalidPatternError, Violation
from pegboard.gateway.builtin_tool import BuiltinTool, CallerContext, respond
from pegboard.gateway.catalog.search_hints import SearchHints
from pegboard.gateway.catalog.startup_wait import StartupWait
from pegboard.gateway.catalog.tool_list import ToolList
from pegboard.gateway.request import object_in
from pegboard.gateway.tool_lines import ToolLines
from pegboard.gateway.visibility import Visibility
from pegboard.model import Annotations, Tool
from pegboard.registry import Registry
from pegboard.registry.usage_boost import UsageBoost
from pegboard.search import SearchResponse
from pegboard.search.methods.regex_patterns import compile_pattern
from pegboard.search.options import query_of

__all__ = ["definition_with", "search_tools"]

_SHOWN = 5
_FALLBACK = "hybrid"
_BY_MEANING = "(No tool has these words; these were found by their meaning, with hybrid.)"
_AS_TEXT = "(This is no valid regular expression; it was looked for as text.)"
_PATTERNS = "regex"
_PLURALS = {"server": "servers", "category": "categories", "tag": "tags"}
_METHODS = ("bm25", "hybrid", "embedding", "regex")
_QUICK = frozenset({"bm25", "hybrid", "embedding"})
_SHORT, _FEW = 300, 50_000
"""A query of so many characters over so many tools takes about a millisecond."""
_THREADS = 4
"""So many slow searches at once; whoever searches in floods keeps no thread from anybody else."""


def definition_with(methods: Iterable[str] = ()) -> Tool:
    """Return the definition, with the methods that there are besides the built-in ones."""
    offered = list(dict.fromkeys((*_METHODS, *methods)))
    return Tool(
        name="search_tools",
        description="Find tools by what they do. Gives one line for each: name(arguments) — "
        "purpose. [score]. Then call_tool runs one; get_tool_definition shows its full schema. "
        "bm25 goes by words; hybrid understands meaning and other languages, and is tried when you "
        "name no method and bm25 finds nothing.",
        input_schema={
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1000,
                    "description": "What the tool should do, or a regular expression with regex.",
                },
                "search_method": {"type": "string", "enum": offered, "default": "bm25"},
                "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 5},
                "method": {
                    "type": "string",
                    "enum": offered,
                    "description": "Same as search_method.",
                },
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        annotations=Annotations(read_only=True, open_world=False),
    )


DEFINITION = definition_with()


def search_tools(
    registry: Registry, tools: ToolList, arrivals: StartupWait, *, methods: Iterable[str]
) -> BuiltinTool:
    """Return the tool that searches a registry by the methods that there are."""
    searches, lines, landmarks = _Searches(registry, tools), ToolLines(), SearchHints(tools)

    async def run(caller: CallerContext, arguments: dict[str, Any]) -> dict[str, Any]:
        text, limit = arguments["query"], arguments["limit"]
        found_by = partial(searches.find, text, limit=limit, visibility=caller.visibility)
        method = _method_of(caller, arguments)
        is_plain = method == _PATTERNS and not _is_pattern(text)
        found = await arrivals.search(partial(found_by, method), caller.visibility)
        falls_back = not found.hits and not _named_methods(caller)
        if falls_back:
            method = _FALLBACK
            found = await found_by(method)
        if not found.hits:
            words, hints = _nothing(found.hints, *await landmarks.around(caller))
            words += arrivals.words(caller.visibility) + (f"\n{_AS_TEXT}" if is_plain else "")
            return respond(words, {"tools": [], "hints": hints, "method": method})
        shown = [(lines.of(hit.tool), hit.score, tools.mark(hit.tool)) for hit in found.hits]
        said = [f"{line.whole}{mark} [{score:.2f}]" for line, score, mark in shown]
        if falls_back:
            said.append(_BY_MEANING)
        if is_plain:
            said.append(_AS_TEXT)
        data = [line.data(score, is_definition=bool(mark)) for line, score, mark in shown]
        return respond("\n".join(said), {"tools": data, "method": method})

    return BuiltinTool(definition_with(methods), run)


class _Searches:
    """Searches of a registry: quick ones are made at once, others in a thread."""

    def __init__(self, registry: Registry, tools: ToolList) -> None:
        self._registry = registry
        self._tools = tools
        self._used = UsageBoost(registry.usage)
        self._threads = anyio.CapacityLimiter(_THREADS)

    async def find(
        self, text: str, method: str, *, limit: int, visibility: Visibility
    ) -> SearchResponse:
        search = partial(self._search, text, method, limit=limit, visibility=visibility)
        if self._is_quick(text, method):
            return search()
        return await run_sync(search, limiter=self._threads)

    def _search(
        self, text: str, method: str, *, limit: int, visibility: Visibility
    ) -> SearchResponse:
        counts = self._registry.storage is not None
        heat: Mapping[str, float] = self._used.current() if counts else {}
        query = query_of(
            text,
            {"limit": limit, "matches": False},
            visible=visibility.visible,
            boost=(lambda name: heat.get(name, 0.0)) if heat else None,
        )
        return self._registry.search_engine.search(query, method=method)

    def _is_quick(self, text: str, method: str) -> bool:
        if method not in _QUICK or len(text) > _SHORT or len(self._tools) > _FEW:
            return False
        # The first time, its use has to be read from the storage.
        is_ready = self._registry.storage is None or self._used.is_known
        return is_ready and self._registry.search_engine.is_warm(method)


def _named_methods(caller: CallerContext) -> dict[str, Any]:
    said = object_in(caller.exchange.params.get("arguments"))
    return {name: said[name] for name in ("method", "search_method") if name in said}


def _method_of(caller: CallerContext, arguments: Mapping[str, Any]) -> str:
    named = _named_methods(caller)
    if len(set(named.values())) > 1:
        words = f"is {named['method']!r}, but `search_method` {named['search_method']!r}; give one"
        raise InvalidArgumentsError(DEFINITION.name, [Violation("method", words)])
    return arguments.get("method") or arguments["search_method"]


def _is_pattern(text: str) -> bool:
    try:
        compile_pattern(text)
    except InvalidPatternError:
        return False
    return True


def _nothing(
    hints: Sequence[str], known: frozenset[str], largest: Sequence[str]
) -> tuple[str, list[str]]:
    """Return words for an empty answer, and where to look instead.

    That is what was near, or else the largest categories; only what exists for whoever asks.
    """
    shown = [hint for hint in hints if hint in known]
    shown = shown or [f"category: {category}" for category in largest[:_SHOWN]]
    words = (
        f"No tool here does that.{_where(shown)} Try other words, or list_tools_by_category "
        '(category="all") to see what there is.'
    )
    return words, shown


def _where(hints: Sequence[str]) -> str:
    """Return hints such as ``server: notes`` in words."""
    names: dict[str, list[str]] = {}
    for hint in hints:
        kind, _, name = hint.partition(": ")
        names.setdefault(kind, []).append(name)
    # Not "nearest": something is the nearest to nonsense, too.
    said = [
        f"the {kind if len(of) == 1 else _PLURALS[kind]} {', '.join(of)}"
        for kind, of in names.items()
    ]
    return f" There {'is' if len(hints) == 1 else 'are'} {'; '.join(said)}." if said else ""
