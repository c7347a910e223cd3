"""Token budget: estimate tokens, describe a tool in one line, and cut a response to a budget."""

import re
from collections.abc import Iterable, Mapping
from math import ceil
from typing import Any

import msgspec

from pegboard.model import Tool
from pegboard.search.searcher import SearchResponse

__all__ = ["brief", "tokens_of", "within_budget"]

_SENTENCE_END = re.compile(r"(?<=[.!?])\s|(?<=[\u3002\uff01\uff1f])|\n")
_LONGEST_SENTENCE = 300
_MOST_PARAMETERS = 20
_DENSE = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ud7ff\uf900-\ufaff\U0001f000-\U0003ffff]"
)
_LETTERS_A_TOKEN = 4


def tokens_of(text: str) -> int:
    """Estimate the tokens of a text: one for four letters, one for each Chinese character."""
    dense = len(_DENSE.findall(text))
    return dense + ceil((len(text) - dense) / _LETTERS_A_TOKEN)


def brief(tool: Tool) -> str:
    """Return a tool in one line: its name, its parameters, and the first sentence about it."""
    sentence = _SENTENCE_END.split(tool.description.strip(), 1)[0]
    if len(sentence) > _LONGEST_SENTENCE:
        sentence = f"{sentence[: _LONGEST_SENTENCE - 1]}…"
    signature = f"{tool.name}({', '.join(_parameters(tool.input_schema))})"
    return f"{signature}: {sentence}" if sentence else signature


def within_budget(answer: SearchResponse, budget: int) -> SearchResponse:
    """Return a response with as many first hits as fit the budget, one `brief` a line."""
    kept = spent = 0
    for hit in answer.hits:
        # The line break is a token, too.
        spent += tokens_of(brief(hit.tool)) + 1
        if spent > budget:
            break
        kept += 1
    if kept == 0 and answer.hits:
        return SearchResponse(hints=(f"budget: the first hit needs {spent} tokens",))
    return msgspec.structs.replace(answer, hits=answer.hits[:kept])


def _parameters(schema: Mapping[str, Any]) -> Iterable[str]:
    properties: Any = schema.get("properties")
    required: Any = schema.get("required")
    names: list[str] = list(properties) if isinstance(properties, Mapping) else []  # pyright: ignore[reportUnknownArgumentType]
    for name in names[:_MOST_PARAMETERS]:
        needed = isinstance(required, list | tuple) and name in required
        yield name if needed else f"{name}?"
    if len(names) > _MOST_PARAMETERS:
        yield "…"
