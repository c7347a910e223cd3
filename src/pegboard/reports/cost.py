"""Cost: the tokens that a model reads for each server, tool and address."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeAlias

import msgspec

from pegboard.errors import ConfigError
from pegboard.errors.extras import install_extra
from pegboard.model import Tool
from pegboard.model.tool_names import name_matcher
from pegboard.search.budget import tokens_of

__all__ = [
    "Cost",
    "SurfaceCost",
    "ToolCost",
    "by_server",
    "cost_as_json",
    "counting",
    "estimated",
    "largest_first",
    "surface_costs",
    "tool_costs",
]

_ENCODING = "o200k_base"

Cost: TypeAlias = Callable[[object], int]
"""Returns the tokens of a definition as a client hands it to a model: JSON on one line."""


class ToolCost(msgspec.Struct, frozen=True):
    """The tokens of the definition of one tool."""

    name: str
    server: str | None
    tokens: int


class SurfaceCost(msgspec.Struct, frozen=True):
    """The tokens of all that a client loads at one address."""

    address: str
    what: str
    tools: int
    tokens: int


def tool_costs(definitions: Iterable[tuple[Tool, object]], cost_of: Cost) -> list[ToolCost]:
    """Return the cost of each tool by the definition that clients get of it."""
    return [ToolCost(tool.name, tool.server, cost_of(it)) for tool, it in definitions]


def surface_costs(
    tools: Sequence[ToolCost],
    lists: Iterable[tuple[str, str, Sequence[object]]],
    *,
    pinned: Sequence[str],
    cost_of: Cost,
) -> Iterator[SurfaceCost]:
    """Give the cost of each address: with all tools, with a few that find others, and by server.

    Args:
        tools: the tools of all servers.
        lists: the short lists: the address, what is there, and the gateway's own definitions.
        pinned: glob patterns of the tools that the short lists have as well.
        cost_of: counts the tokens of a definition.
    """
    is_pinned = name_matcher("pinned", pinned)
    kept = [it.tokens for it in tools if pinned and is_pinned(it.name)]
    yield SurfaceCost("/mcp-full", "all definitions", len(tools), sum(it.tokens for it in tools))
    for address, what, own in lists:
        tokens = sum(cost_of(it) for it in own) + sum(kept)
        yield SurfaceCost(address, what, len(own) + len(kept), tokens)
    for server, theirs in by_server(tools).items():
        if server is not None:
            tokens = sum(it.tokens for it in theirs)
            yield SurfaceCost(f"/mcp-full/{server}", f"all of {server}", len(theirs), tokens)


def cost_as_json(
    tools: Sequence[ToolCost], surfaces: Sequence[SurfaceCost], *, counted: bool
) -> dict[str, Any]:
    """Return all costs as ``--json`` prints them: one object.

    ``counted`` (false if tokens are estimated); ``servers`` (``server``, ``tools``,
    ``tokens``), ``tools`` (``name``, ``server``, ``tokens``; the largest first) and ``surfaces``
    (``address``, ``what``, ``tools``, ``tokens``: what a client loads there).
    """
    return {
        "counted": counted,
        "servers": [
            {"server": server, "tools": len(own), "tokens": sum(it.tokens for it in own)}
            for server, own in by_server(tools).items()
        ],
        "tools": largest_first(tools),
        "surfaces": surfaces,
    }


def by_server(tools: Sequence[ToolCost]) -> Mapping[str | None, list[ToolCost]]:
    """Return the tools of each server, the dearest server first; ``None`` has registered tools."""
    found: dict[str | None, list[ToolCost]] = {}
    for tool in tools:
        found.setdefault(tool.server, []).append(tool)
    return dict(sorted(found.items(), key=lambda it: -sum(tool.tokens for tool in it[1])))


def largest_first(tools: Sequence[ToolCost]) -> list[ToolCost]:
    """Return the tools in the order of their cost."""
    return sorted(tools, key=lambda it: (-it.tokens, it.name))


def estimated(definition: object) -> int:
    """Return about how many tokens a definition has, at four letters a token."""
    return tokens_of(_written(definition))


def counting() -> Cost:
    """Return what counts tokens with a tokenizer of OpenAI's; it takes seconds to load.

    Raises:
        ConfigError: when it is not installed.
    """
    try:
        with warnings.catch_warnings():
            # It reads its tables in a way that Python frowns at.
            warnings.simplefilter("ignore", DeprecationWarning)
            encoding: Any = import_module("bpe_openai").get_encoding(_ENCODING)
    except ImportError as error:
        raise ConfigError(
            f"Counting needs a tokenizer: `{install_extra('tokens')}`. Without `--count`, "
            "tokens are estimated."
        ) from error
    return lambda definition: len(encoding.encode_ordinary(_written(definition)))


def _written(definition: object) -> str:
    return msgspec.json.encode(definition).decode()
