"""list_tools_by_category: the categories, and the tools of each, without a search."""

from collections.abc import Sequence
from typing import Any

from anyio.lowlevel import checkpoint

from pegboard.gateway.builtin_tool import BuiltinTool, CallerContext, respond
from pegboard.gateway.catalog.startup_wait import StartupWait
from pegboard.gateway.catalog.tool_list import ToolList
from pegboard.gateway.catalog.unavailable import Unavailable, data_of
from pegboard.gateway.errors import error_result
from pegboard.gateway.tool_lines import one_line
from pegboard.model import Annotations, Tool
from pegboard.model.tool import categories_of, category_of
from pegboard.model.tool_names import nearest_names

__all__ = ["categories_of", "category_of", "list_tools_by_category"]

EVERYTHING = "all"
_SHOWN, _NAMED = 200, 10

DEFINITION = Tool(
    name="list_tools_by_category",
    description='List the tools of a category, or with "all" the categories. Tools without a '
    "category are listed under the name of their server.",
    input_schema={
        "type": "object",
        "properties": {
            "category": {"type": "string", "minLength": 1, "maxLength": 1000},
            "limit": {"type": "integer", "minimum": 1, "maximum": 100, "default": 20},
        },
        "required": ["category"],
        "additionalProperties": False,
    },
    annotations=Annotations(read_only=True, open_world=False),
)


def list_tools_by_category(tools: ToolList, startup_wait: StartupWait) -> BuiltinTool:
    """Return the tool that lists others."""

    async def run(caller: CallerContext, arguments: dict[str, Any]) -> dict[str, Any]:
        await startup_wait.wait(caller.visibility)
        category, seen = arguments["category"], list(tools.seen(caller.visibility))
        starting = startup_wait.words(caller.visibility)
        if category == EVERYTHING:
            unavailable = startup_wait.all_unavailable(caller.visibility)
            return _categories(categories_of(seen), starting, unavailable)
        found = [tool for tool in seen if category_of(tool) == category or tool.server == category]
        if not found:
            unavailable = startup_wait.unavailable(category, caller.visibility)
            return _unknown(category, categories_of(seen), starting, unavailable)
        shown = found[: arguments["limit"]]
        lines: list[str] = []
        for tool in shown:
            # A schema may be so large that its line takes milliseconds.
            await checkpoint()
            lines.append(f"{one_line(tool)}{tools.mark(tool)}")
        if len(found) > len(shown):
            lines.append(f"… and {len(found) - len(shown)} more; raise limit, or search_tools.")
        names = [tool.name for tool in shown]
        return respond("\n".join(lines), {"tools": names, "total": len(found)})

    return BuiltinTool(DEFINITION, run)


def _categories(
    counts: dict[str, int], starting: str, unavailable: Sequence[Unavailable]
) -> dict[str, Any]:
    told = [str(it) for it in unavailable[:_SHOWN] if not it.is_starting]
    if len(unavailable) > _SHOWN:
        told.append(f"… and {len(unavailable) - _SHOWN} more servers without any known tool.")
    if not counts:
        words = "\n".join([f"There are no tools here.{starting}", *told])
        return respond(words, {"categories": {}, **data_of(unavailable[:_SHOWN])})
    shown = list(counts.items())[:_SHOWN]
    lines = [f"{name}: {count} tool{'' if count == 1 else 's'}" for name, count in shown]
    if len(counts) > len(shown):
        lines.append(f"… and {len(counts) - len(shown)} more categories.")
    return respond(
        "\n".join([*lines, *told]), {"categories": dict(shown), **data_of(unavailable[:_SHOWN])}
    )


def _unknown(
    category: str, counts: dict[str, int], starting: str, unavailable: Sequence[Unavailable]
) -> dict[str, Any]:
    near = nearest_names(category, counts)
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    if counts and not near:
        more = ", …" if len(counts) > _NAMED else ""
        hint = f" There are: {', '.join(list(counts)[:_NAMED])}{more}."
    told = "".join(f" {it}" for it in unavailable if not it.is_starting)
    words = f'No category is named {category!r}.{told}{hint} "all" lists them.{starting}'
    result = error_result(words)
    return {**result, "structuredContent": data_of(unavailable)} if unavailable else result
