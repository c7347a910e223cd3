"""FastMCP: the search of its two transforms, without the protocol around it."""

import asyncio

from fastmcp.server.transforms.search import BM25SearchTransform, RegexSearchTransform
from fastmcp.tools.base import Tool
from search_shared import DEPTH, Definition, Search, alternatives, run


def bm25(tools: list[Definition]) -> Search:
    return _ready(BM25SearchTransform(max_results=DEPTH), tools, lambda text: text)


def regex(tools: list[Definition]) -> Search:
    return _ready(RegexSearchTransform(max_results=DEPTH), tools, alternatives)


def _ready(transform, tools: list[Definition], asked) -> Search:
    catalogue = [
        Tool(name=it["name"], description=it["description"], parameters=it["input_schema"])
        for it in tools
    ]
    places = {it["name"]: place for place, it in enumerate(tools)}
    loop = asyncio.new_event_loop()

    def search(text: str) -> list[int]:
        found = loop.run_until_complete(transform._search(catalogue, asked(text)))
        return [places[it.name] for it in found]

    search("a first question makes it build its index")
    return search


run({"bm25": bm25, "regex": regex})
