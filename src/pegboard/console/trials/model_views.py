"""Model views: a tool as a model sees it at each address, and by each provider, with its tokens."""

from typing import TYPE_CHECKING, Any

import msgspec

from pegboard.console.request import PageRequest
from pegboard.gateway.tool_lines import one_line
from pegboard.model import Tool
from pegboard.registry import Registry
from pegboard.reports.cost import estimated
from pegboard.toolsets import Toolset

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ModelView", "model_views"]

_LONGEST = 100_000
_WITHOUT = "No model is offered this tool: only the app of its server calls it."


class ModelView(msgspec.Struct, frozen=True, kw_only=True):
    """What a model reads of a tool."""

    title: str
    where: str
    """The address, or the method of `Toolset`."""
    text: str = ""
    tokens: int | None = None
    why_not: str = ""
    """Why no model reads it there."""


def model_views(page: PageRequest, tool: Tool) -> list[ModelView]:
    """Return what models read of a tool; takes a while for a large definition.

    The tokens are estimated as everywhere: at four letters a token.
    """
    listed = page.tenant.tools.definition(tool)
    line = one_line(tool)
    found = [
        ModelView(
            title="MCP, by search",
            where="/mcp-search: search_tools",
            text=line,
            tokens=estimated(line),
        ),
        _view("MCP, all tools", "/mcp-full: tools/list", listed),
    ]
    if tool.app_only:
        return [msgspec.structs.replace(it, why_not=_WITHOUT, tokens=None) for it in found]
    # By itself: a view of all tools takes as long as there are many.
    registry = Registry()
    registry.register(tool)
    tools = Toolset(registry)
    providers: list[tuple[str, str, Callable[[], list[dict[str, Any]]]]] = [
        ("OpenAI Chat Completions", "openai()", tools.openai),
        ("OpenAI strict", "openai(strict=True)", lambda: tools.openai(strict=True)),
        ("OpenAI Responses", 'openai(api="responses")', lambda: tools.openai(api="responses")),
        ("Anthropic", "anthropic()", tools.anthropic),
        ("Gemini", "gemini()", tools.gemini),
    ]
    for title, where, render in providers:
        made = render()
        if made:
            found.append(_view(title, f"Toolset.{where}", made[0]))
        else:
            why = tools.skipped.get(tool.name, "It cannot be expressed for this provider.")
            found.append(ModelView(title=title, where=f"Toolset.{where}", why_not=why))
    return found


def _view(title: str, where: str, definition: object) -> ModelView:
    text = msgspec.json.format(msgspec.json.encode(definition), indent=2)
    shown = text.decode()
    if len(shown) > _LONGEST:
        shown = f"{shown[:_LONGEST]}\n… ({len(shown) - _LONGEST:,} more characters)"
    return ModelView(title=title, where=where, text=shown, tokens=estimated(definition))
