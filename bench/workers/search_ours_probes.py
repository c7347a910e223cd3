"""Pegboard: whether names are found in any spelling, and whether it says that nothing fits."""

import json
import random
import sys
from collections import defaultdict
from pathlib import Path
from statistics import fmean
from typing import Any

from search_ours import tool_of
from search_probes import nonsense, one_edit_apart, spellings, squashed, with_a_typo

from pegboard.search import Hit, SearchEngine
from pegboard.search.evaluation import Definitions
from pegboard.search.options import query_of

NONSENSE_OF_EACH_KIND = 200


class Board:
    """Tools that come and go, and a search over them."""

    def __init__(self, job: dict[str, Any]) -> None:
        given = json.loads(Path(job["tools"]).read_text("utf-8"))
        self.tools = [tool_of(it) for it in given]
        self.definitions = Definitions(self.tools)
        self._engine = SearchEngine(lambda: self.definitions)
        self._method = job["engine"]

    def search(self, text: str, *, limit: int = 5, abstain: bool = True) -> tuple[Hit, ...]:
        query = query_of(text, {"limit": limit, "abstain": abstain})
        return self._engine.search(query, method=self._method).hits


def names(job: dict[str, Any]) -> dict[str, Any]:
    """How often the first hit is the tool whose name was given, by spelling."""
    board = Board(job)
    chance = random.Random(20_240)
    right: dict[str, list[bool]] = defaultdict(list)
    missed: dict[str, list[str]] = defaultdict(list)
    for tool in chance.sample(board.tools, min(job["sample"], len(board.tools))):
        name = tool.name.rstrip(".")
        ways = spellings(name)
        typo = with_a_typo(name, chance)
        if typo is not None:
            ways["one typo"] = typo
        for way, text in ways.items():
            hits = board.search(text, limit=1)
            found, wanted = squashed(hits[0].tool.name if hits else ""), squashed(text)
            # Several may share the name or be as near to the typo: each of them is right.
            same = found == wanted or (way == "one typo" and one_edit_apart(found, wanted))
            right[way].append(same)
            if not same:
                missed[way].append(text)
    return {"shares": {way: fmean(it) for way, it in right.items()}, "missed": missed}


def abstention(job: dict[str, Any]) -> dict[str, Any]:
    """Empty answers to nonsense and to questions whose tools were taken out, and their price."""
    board = Board(job)
    texts = json.loads(Path(job["texts"]).read_text("utf-8"))
    places = json.loads(Path(job["relevant"]).read_text("utf-8"))
    asked = [
        (text, {board.tools[it].name for it in found})
        for text, found in zip(texts, places, strict=True)
    ]
    by_name = {tool.name: tool for tool in board.tools}
    taken_out: list[bool] = []
    for text, right in asked:
        board.definitions.remove(right)
        taken_out.append(not board.search(text))
        board.definitions.add(by_name[name] for name in right)
    empty: dict[str, list[bool]] = defaultdict(list)
    for kind, text in nonsense(NONSENSE_OF_EACH_KIND):
        empty[kind].append(not board.search(text))
    return {
        "recall": fmean(_recall(board.search(text), right) for text, right in asked),
        "recall_always": fmean(
            _recall(board.search(text, abstain=False), right) for text, right in asked
        ),
        "taken_out": fmean(taken_out),
        "nonsense": {kind: fmean(it) for kind, it in empty.items()},
    }


def _recall(hits: tuple[Hit, ...], right: set[str]) -> float:
    return len(right & {hit.tool.name for hit in hits}) / len(right)


_job = json.loads(sys.argv[1])
print(json.dumps({"names": names, "abstention": abstention}[_job["probe"]](_job)))
