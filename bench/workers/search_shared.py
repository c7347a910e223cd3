"""What every searching engine is asked, and how its answers and its costs are written down."""

import gc
import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shared import resident_bytes

DEPTH = 10
Definition = dict[str, Any]
Search = Callable[[str], list[int]]
"""Takes a text, and gives the places of the tools in the catalogue, best first."""

_BORDERS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def run(engines: dict[str, Callable[[list[Definition]], Search]]) -> None:
    """Do the job that the command line names, and print what came of it."""
    job = json.loads(sys.argv[1])
    tools: list[Definition] = json.loads(Path(job["tools"]).read_text("utf-8"))
    texts: list[str] = json.loads(Path(job["texts"]).read_text("utf-8"))
    gc.collect()
    before = resident_bytes()
    began = time.perf_counter()
    search = engines[job["engine"]](tools)
    build = time.perf_counter() - began
    gc.collect()
    size = resident_bytes() - before
    search(texts[0])
    answers: list[list[int]] = []
    seconds: list[float] = []
    for text in texts:
        began = time.perf_counter()
        answer = search(text)
        seconds.append(time.perf_counter() - began)
        answers.append(answer)
    json.dump({"build": build, "bytes": size, "seconds": seconds, "answers": answers}, sys.stdout)


def document(tool: Definition) -> str:
    """Everything that is written about a tool, for engines that know no fields."""
    names, descriptions = parameters(tool)
    return " ".join([words(tool["name"]), tool["description"], words(names), descriptions])


def parameters(tool: Definition) -> tuple[str, str]:
    """The names of the parameters of a tool, and what is said of them."""
    properties = tool["input_schema"].get("properties")
    if not isinstance(properties, dict):
        return "", ""
    said = [it.get("description") for it in properties.values() if isinstance(it, dict)]
    return " ".join(properties), " ".join(it for it in said if isinstance(it, str))


def words(name: str) -> str:
    """A name as words, for engines that would take `createIssue` or `create_issue` for one."""
    return _BORDERS.sub(" ", name.replace("_", " ").replace(".", " "))


def best(scores: Any, *, above: float = 0.0) -> list[int]:
    """The places of the highest scores of a numpy array, best first."""
    depth = min(DEPTH, len(scores))
    places = scores.argpartition(-depth)[-depth:]
    return [int(it) for it in places[(-scores[places]).argsort()] if scores[it] > above]


def alternatives(text: str) -> str:
    """A request as a pattern: any of its six longest words. A sentence would match nothing."""
    found = sorted(set(re.findall(r"[^\W_]+", text.lower())), key=lambda it: (-len(it), it))
    return "|".join(re.escape(it) for it in found[:6]) or re.escape(text)
