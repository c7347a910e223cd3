"""read_result: read on in a result that was too large, by place, by path or by words."""

import threading
from functools import partial
from typing import Any

import anyio
import msgspec
from anyio.to_thread import run_sync

from pegboard.errors import InvalidArgumentsError, Violation
from pegboard.gateway.json_path import select
from pegboard.gateway.own_tool import OwnTool, Visit, answer
from pegboard.gateway.shelf import Shelf, Shelved
from pegboard.model import Annotations, Tool
from pegboard.search.patterns import compile_pattern

__all__ = ["read_result"]

_THREADS = 4
"""So many read in long results at once, and so many search in them."""
_SECONDS = 5.0
"""How long one may take; no expression explodes, but some are slow."""
_PIECE = 2048
"""So many characters of a long line are searched between two looks at whether it was given up."""

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
    readers = anyio.CapacityLimiter(_THREADS)
    searches = anyio.CapacityLimiter(_THREADS)

    async def run(visit: Visit, arguments: dict[str, Any]) -> dict[str, Any]:
        kept = shelf.find(arguments["handle"], owner=visit.owner)
        visit.sight.check_call(kept.tool)
        path, grep = arguments.get("path"), arguments.get("grep")
        text = await run_sync(_document, kept, path, limiter=readers)
        if grep is not None:
            text = await _found(text, grep, searches)
        start = arguments["offset"]
        shown = text[start : start + page]
        result = answer(shown)
        note = {"type": "text", "text": _place(start, start + len(shown), len(text))}
        return {"content": [*result["content"], note]}

    return OwnTool(DEFINITION, run)


def _document(kept: Shelved, path: str | None) -> str:
    return kept.text() if path is None else _part(kept, path)


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


async def _found(text: str, grep: str, limiter: anyio.CapacityLimiter) -> str:
    is_over = threading.Event()
    search = partial(_matching, text, grep, is_over=is_over)
    try:
        with anyio.fail_after(_SECONDS):
            # No daemon: one that is in the middle of RE2 when the process ends would crash it.
            return await run_sync(search, abandon_on_cancel=True, limiter=limiter)
    except TimeoutError:
        words = f"was looked for during {_SECONDS:g} s without an end; make it simpler"
        raise InvalidArgumentsError(DEFINITION.name, [Violation("grep", words)]) from None
    finally:
        is_over.set()


def _matching(text: str, grep: str, *, is_over: threading.Event) -> str:
    pattern = compile_pattern(grep)
    found: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        for start in range(0, max(1, len(line) - _PIECE), _PIECE):
            if is_over.is_set():
                return ""
            # Each overlaps the one before, so that nothing is missed between two.
            if pattern.first(line[start : start + 2 * _PIECE]) is not None:
                found.append(f"{number}: {line}")
                break
    return "\n".join(found)


def _place(start: int, end: int, total: int) -> str:
    if start >= total:
        return f"[There is nothing at {start}: it has {total} characters.]"
    rest = f"; offset={end} goes on" if end < total else "; this is the end"
    return f"[Characters {start} to {end} of {total}{rest}.]"
