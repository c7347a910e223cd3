"""RegistryTools: its registry with its BM25 (jieba, rank-bm25) and regex search."""

import logging

import jieba
from registrytools.registry.models import SearchMethod, ToolMetadata
from registrytools.registry.registry import ToolRegistry
from registrytools.search import BM25Search, RegexSearch
from search_shared import DEPTH, Definition, Search, alternatives, run

jieba.setLogLevel(logging.WARNING)
jieba.initialize()  # its dictionary is no part of the index, as the models of others are none


def registry_of(tools: list[Definition]) -> ToolRegistry:
    """Its registry, with its two searchers and all tools."""
    registry = ToolRegistry()
    registry.register_searcher(SearchMethod.BM25, BM25Search())
    registry.register_searcher(SearchMethod.REGEX, RegexSearch())
    registry.register_many([metadata(it) for it in tools])
    return registry


def metadata(tool: Definition) -> ToolMetadata:
    """A definition as it wants it."""
    return ToolMetadata(
        name=tool["name"],
        description=tool["description"],
        tags=set(tool["tags"]),
        mcp_server=tool["server"] or None,
        input_schema=tool["input_schema"],
    )


def bm25(tools: list[Definition]) -> Search:
    return _ready(tools, SearchMethod.BM25, lambda text: text)


def regex(tools: list[Definition]) -> Search:
    return _ready(tools, SearchMethod.REGEX, alternatives)


def _ready(tools: list[Definition], method: SearchMethod, asked) -> Search:
    registry = registry_of(tools)
    places = {it["name"]: place for place, it in enumerate(tools)}

    def search(text: str) -> list[int]:
        found = registry.search(asked(text), method, DEPTH)
        return [places[it.tool_name] for it in found]

    search("a first question makes it build its index")
    return search


if __name__ == "__main__":
    run({"bm25": bm25, "regex": regex})
