"""read_result: read on in a result that was too large, by place, by path or by words."""

from collections.abc import Iterator
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from pegboard.errors import InvalidArgumentsError, Violation
from pegboard.gateway.json_path import select
from pegboard.gateway.own_tool import OwnTool, Visit, answer
from pegboard.gateway.shelf import Shelf, Shelved
from pegboard.model import Annotations, Tool
from pegboard.search.patterns import compile_pattern

__all__ = ["read_result"]

_THREADS = 4
"""So many look through long results at once."""

DEFINITION = Tool(
    name="read_result",
    description="Read on in a result that was cut: from an offset, only a part of its JSON (path), "
    "or only the lines that match a regular expression (grep).",
    input_schema={
        "type": "object",
        "properties": {
            "handle": {"type": "string", "maxLength": 100},
            "offset": {"type": "integer", "minimum": 0, "default": 0},
            "path": {"type": "string", "maxLength": 1000, "description": "Such as items[0].name"},
            "grep": {"type": "string", "minLength": 1, "maxLength": 1000},
        },
        "required": ["handle"],
        "additionalProperties": False,
    },
    annotations=Annotations(read_only=True, open_world=False),
)


def read_result(shelf: Shelf, *, page: int) -> OwnTool:
    """Return the tool that pages through what is on a shelf, so many characters at once."""
    threads = anyio.CapacityLimiter(_THREADS)

    async def run(visit: Visit, arguments: dict[str, Any]) -> dict[str, Any]:
        kept = shelf.find(arguments["handle"], owner=visit.owner)
        visit.sight.check_call(kept.tool)
        text = await anyio.to_thread.run_sync(_document, kept, arguments, limiter=threads)
        start = arguments["offset"]
        shown = text[start : start + page]
        result = answer(shown)
        note = {"type": "text", "text": _place(start, start + len(shown), len(text))}
        return {"content": [*result["content"], note]}

    return OwnTool(DEFINITION, run)


def _document(kept: Shelved, arguments: dict[str, Any]) -> str:
    text = kept.text
    path, grep = arguments.get("path"), arguments.get("grep")
    if path is not None:
        text = _part(kept, path)
    if grep is not None:
        text = "\n".join(_matching(text, grep))
    return text


def _part(kept: Shelved, path: str) -> str:
    try:
        part = select(kept.data(), path)
    except (ValueError, RecursionError) as error:
        words = str(error)
        if isinstance(error, msgspec.DecodeError | RecursionError):
            words = "the result is no JSON; read it by offset or grep"
        raise InvalidArgumentsError(DEFINITION.name, [Violation("path", words)]) from None
    if isinstance(part, str):
        return part
    return msgspec.json.format(msgspec.json.encode(part), indent=1).decode()


def _matching(text: str, grep: str) -> Iterator[str]:
    pattern = compile_pattern(grep)
    for number, line in enumerate(text.splitlines(), 1):
        if pattern.first(line) is not None:
            yield f"{number}: {line}"


def _place(start: int, end: int, total: int) -> str:
    if start >= total:
        return f"[There is nothing at {start}: it has {total} characters.]"
    rest = f"; offset={end} goes on" if end < total else "; this is the end"
    return f"[Characters {start} to {end} of {total}{rest}.]"
