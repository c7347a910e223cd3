"""search_tools: find tools by what they do, as `Hub.search` ranks them, one line for each."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

from anyio.lowlevel import checkpoint
from anyio.to_thread import run_sync

from pegboard.errors import InvalidArgumentsError, InvalidPatternError, Violation
from pegboard.gateway.builtin_tool import BuiltinTool, CallerContext, respond
from pegboard.gateway.catalog.startup_wait import StartupWait
from pegboard.gateway.catalog.tool_list import ToolList
from pegboard.gateway.catalog.unavailable import data_of
from pegboard.gateway.request import object_in
from pegboard.gateway.skills.catalog import SkillLine
from pegboard.gateway.skills.tenant_skills import TenantSkills
from pegboard.gateway.tool_lines import ToolLine, ToolLines
from pegboard.gateway.visibility import Visibility
from pegboard.hub import Hub
from pegboard.model import Annotations, Principal, Tool
from pegboard.model.tool import categories_of
from pegboard.search.methods.regex_patterns import compile_pattern
from pegboard.search.options import DEFAULT_METHOD

__all__ = ["definition_with", "search_tools"]

_SHOWN = 5
_BY_WORDS = "bm25"
_BY_MEANING = "hybrid"
_FELL_BACK = "(No tool has these words; hybrid found these tools by meaning.)"
_AS_TEXT = "(This is not a valid regular expression, so it was searched for as plain text.)"
_PATTERNS = "regex"
_PLURALS = {"server": "servers", "category": "categories", "tag": "tags"}
_METHODS = ("bm25", "hybrid", "embedding", "regex")
_MOST_CALLERS = 256
_TURN = 10
"""So many lines are written at a stretch: that of a large schema takes milliseconds."""


def definition_with(methods: Iterable[str] = (), *, default: str = DEFAULT_METHOD) -> Tool:
    """Return the definition, with the methods besides the built-in ones, and the default."""
    offered = list(dict.fromkeys((*_METHODS, *methods)))
    fallback = " When you name no method and bm25 finds nothing, hybrid is tried."
    return Tool(
        name="search_tools",
        description="Find tools by what they do. Returns one line for each: name(arguments) — "
        "purpose. [score]. Then call_tool runs one; get_tool_definition shows its full schema. "
        "hybrid compares words and meaning, also across languages; bm25 compares only words."
        f"{fallback if default == _BY_WORDS else ''}",
        input_schema={
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 1000,
                    "description": "What the tool should do, or a regular expression with regex.",
                },
                "search_method": {"type": "string", "enum": offered, "default": default},
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
    hub: Hub,
    startup_wait: StartupWait,
    skills: TenantSkills,
    *,
    methods: Iterable[str],
    default: str = DEFAULT_METHOD,
) -> BuiltinTool:
    """Return the tool that searches the tools and the skills of a hub.

    Args:
        hub: whose `search` ranks the tools.
        startup_wait: waits for servers that are still starting, and knows those that
            have no known tool.
        skills: the skills that are found, too.
        methods: the search methods that a caller may name.
        default: the method of a call that names none.
    """
    tools, lines = startup_wait.tools, ToolLines()
    search_hints = _SearchHints(tools)

    async def run(caller: CallerContext, arguments: dict[str, Any]) -> dict[str, Any]:
        text, visibility = arguments["query"], caller.visibility
        if monotonic() >= skills.quiet_until:
            await skills.learn()
        by_document = skills.catalog.by_document
        has_skills = bool(by_document)
        found_by = partial(
            hub.search,
            text,
            where=skills.catalog.finds(visibility) if has_skills else visibility.visible,
            limit=arguments["limit"],
            matches=False,
            documents=has_skills,
        )
        method = _method_of(caller, arguments)
        is_plain = method == _PATTERNS and not _is_pattern(text)
        found = await startup_wait.search(partial(found_by, method=method), visibility)
        falls_back = method == _BY_WORDS and not found.hits and not _named_methods(caller)
        if falls_back:
            method = _BY_MEANING
            found = await found_by(method=method)
        unavailable = startup_wait.unavailable(text, visibility)
        also = data_of(unavailable) if unavailable else {}
        if not found.hits:
            words, hints = _nothing(found.hints, *await search_hints.around(caller))
            words += startup_wait.words(visibility) + (f"\n{_AS_TEXT}" if is_plain else "")
            # Of the servers that are starting, these words have told already.
            words += "".join(f"\n{it}" for it in unavailable if not it.is_starting)
            data = {"tools": [], "hints": hints, "method": method}
            return respond(words, {**data, **also})
        shown: list[tuple[ToolLine | SkillLine, float]] = []
        for number, hit in enumerate(found.hits, 1):
            if number % _TURN == 0:
                await checkpoint()
            skill = by_document.get(hit.tool.name)
            shown.append((skill.line if skill else lines.of(hit.tool), hit.score))
        said = [f"{line.whole}{_mark(line, tools)} [{score:.2f}]" for line, score in shown]
        if falls_back:
            said.append(_FELL_BACK)
        if is_plain:
            said.append(_AS_TEXT)
        said += [f"({it})" for it in unavailable]
        data = [_data(line, score, tools) for line, score in shown]
        return respond(
            "\n".join(said),
            {"tools": data, "method": method, **also},
        )

    return BuiltinTool(definition_with(methods, default=default), run)


def _mark(line: ToolLine | SkillLine, tools: ToolList) -> str:
    return tools.mark(line.tool) if isinstance(line, ToolLine) else ""


def _data(line: ToolLine | SkillLine, score: float, tools: ToolList) -> dict[str, Any]:
    if isinstance(line, ToolLine):
        return line.data(score, is_definition=bool(tools.mark(line.tool)))
    return line.data(score)


class _Seen(NamedTuple):
    """The servers, categories and tags that exist for one caller."""

    hints: frozenset[str]
    """Written as a search writes them: ``server: github``, ``tag: code``."""
    categories: list[str]
    """The largest first."""


class _SearchHints:
    """Lists what a caller may be pointed to, once for each caller and change of the catalogue."""

    def __init__(self, tools: ToolList) -> None:
        self._tools = tools
        self._known: dict[tuple[Principal, str | None], tuple[int, _Seen]] = {}

    async def around(self, caller: CallerContext) -> _Seen:
        """Return what exists for a caller."""
        client, revision = caller.client, self._tools.revision
        key = (client.principal, client.face.group)
        known = self._known.get(key)
        if known is not None and known[0] == revision:
            return known[1]
        seen = await run_sync(self._look, caller.visibility)
        if len(self._known) >= _MOST_CALLERS:
            self._known.clear()
        self._known[key] = (revision, seen)
        return seen

    def _look(self, visibility: Visibility) -> _Seen:
        tools = list(self._tools.seen(visibility))
        hints = {f"server: {tool.server}" for tool in tools}
        hints |= {f"category: {tool.category}" for tool in tools}
        hints |= {f"tag: {tag}" for tool in tools for tag in tool.tags}
        counts = categories_of(tools)
        return _Seen(frozenset(hints), sorted(counts, key=lambda it: -counts[it]))


def _named_methods(caller: CallerContext) -> dict[str, Any]:
    said = object_in(caller.request.params.get("arguments"))
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
    """Return the text of an empty answer, and where to look instead.

    The hints are what was near, or else the largest categories. They name only what exists for
    the caller.
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
