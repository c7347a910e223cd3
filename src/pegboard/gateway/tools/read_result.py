"""read_result: read the rest of a long result by offset, by JSON path or by regular expression."""

import threading
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import anyio
import msgspec
from anyio.to_thread import run_sync

from pegboard.errors import InvalidArgumentsError, Violation
from pegboard.gateway.builtin_tool import BuiltinTool, CallerContext, respond
from pegboard.gateway.calls.json_path import select
from pegboard.gateway.calls.result_cache import CachedResult, ResultCache
from pegboard.model import Annotations, Tool
from pegboard.model.json_limits import has_more_values, has_slow_numbers
from pegboard.search.methods.regex_patterns import Pattern, compile_pattern

__all__ = ["read_result"]

_THREADS = 4
"""How many calls read long results at once, and how many search in them."""
_SECONDS = 5.0
"""How long one search may take; no expression takes exponential time, but some are slow."""
_MOST_VALUES = 200_000
"""JSON with more values is not decoded: each value takes much more memory than its bytes."""
_decoding = threading.Lock()
"""The whole process decodes one result at a time."""
_PIECE = 2048
"""How many characters of a long line are searched before the next check for a timeout."""

DEFINITION = Tool(
    name="read_result",
    description="Read more of a result that was cut: from an offset, only a part of its JSON "
    "(path), or only the lines that match a regular expression (grep).",
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


def read_result(result_cache: ResultCache, *, page: int) -> BuiltinTool:
    """Return the tool that pages through cached results, with ``page`` characters on a page."""
    readers = anyio.CapacityLimiter(_THREADS)
    decoders = anyio.CapacityLimiter(1)
    searches = anyio.CapacityLimiter(_THREADS)

    async def run(caller: CallerContext, arguments: dict[str, Any]) -> dict[str, Any]:
        kept = result_cache.find(arguments["handle"], owner=caller.owner)
        caller.visibility.check_call(kept.tool)
        path, grep, start = arguments.get("path"), arguments.get("grep"), arguments["offset"]
        if path is not None:
            text = await run_sync(_part, kept, path, limiter=decoders)
        elif grep is not None and kept.says_more:
            text = await run_sync(_everything, kept, limiter=decoders)
        else:
            text = await run_sync(kept.text, limiter=readers)
        if grep is None:
            shown, total = text[start : start + page], len(text)
        else:
            shown, total = await _found(_Search(text, grep, start, page), searches)
        result = respond(shown)
        words = _place(start, start + len(shown), total)
        if grep is not None and total == 0:
            where = "the part at this path" if path is not None else "the result"
            words = f"[No line matches; {where} has {len(text)} characters.]"
        note = {"type": "text", "text": words}
        return {"content": [*result["content"], note]}

    return BuiltinTool(DEFINITION, run)


def _everything(kept: CachedResult) -> str:
    """Return the texts and the structured content together, so that grep searches both."""
    structured = _part(kept, "$")
    return f"{kept.text()}\n{structured}" if kept.written else structured


def _part(kept: CachedResult, path: str) -> str:
    with _decoding:
        text = kept.json
        has_more = has_more_values(text, _MOST_VALUES)
        if not has_more and not has_slow_numbers(text):
            return _selected(kept, path)
    if path.strip() == "$" and kept.structured:
        return kept.json.decode("utf-8", "surrogatepass")
    whole = ' with path="$"' if kept.structured else ""
    what = f"more than {_MOST_VALUES} values" if has_more else "numbers that take long to read"
    words = f"the result has {what}; read it{whole} by offset or grep"
    raise InvalidArgumentsError(DEFINITION.name, [Violation("path", words)])


def _selected(kept: CachedResult, path: str) -> str:
    try:
        part = select(kept.data(), path)
    except (ValueError, RecursionError) as error:
        words = str(error)
        if isinstance(error, msgspec.DecodeError | RecursionError):
            words = "the result is not JSON; read it by offset or grep"
        raise InvalidArgumentsError(DEFINITION.name, [Violation("path", words)]) from None
    if isinstance(part, str):
        return part
    return msgspec.json.format(msgspec.json.encode(part), indent=1).decode()


class _Search(NamedTuple):
    text: str
    grep: str
    start: int
    page: int


async def _found(search: _Search, limiter: anyio.CapacityLimiter) -> tuple[str, int | None]:
    is_over = threading.Event()
    try:
        with anyio.fail_after(_SECONDS):
            # Not a daemon thread: one inside RE2 would crash the process at its end.
            return await run_sync(
                partial(_matching, search, is_over=is_over), abandon_on_cancel=True, limiter=limiter
            )
    except TimeoutError:
        words = f"took more than {_SECONDS:g} s; make it simpler"
        raise InvalidArgumentsError(DEFINITION.name, [Violation("grep", words)]) from None
    finally:
        is_over.set()


def _matching(search: _Search, *, is_over: threading.Event) -> tuple[str, int | None]:
    """Return a page of the matching lines, and the length of all of them, if it is known."""
    pattern = compile_pattern(search.grep)
    start, end = search.start, search.start + search.page
    shown: list[str] = []
    length = 0
    for number, line in enumerate(_lines(search.text), 1):
        if is_over.is_set():
            break
        if _matches(line, pattern, is_over):
            hit = f"\n{number}: {line}" if length else f"{number}: {line}"
            shown.append(hit[max(0, start - length) : max(0, end - length)])
            length += len(hit)
        if length > end:
            return "".join(shown), None
    return "".join(shown), length


def _matches(line: str, pattern: Pattern, is_over: threading.Event) -> bool:
    # Each piece overlaps the one before, so that no match between two is missed.
    return any(
        pattern.first(line[start : start + 2 * _PIECE]) is not None
        for start in range(0, max(1, len(line) - _PIECE), _PIECE)
        if not is_over.is_set()
    )


def _lines(text: str) -> Iterator[str]:
    """Give the lines one by one: a list of all of them would be as large as the text."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield from text[start:end].splitlines()
        start = end


def _place(start: int, end: int, total: int | None) -> str:
    if total is None:
        return f"[Characters {start} to {end}; offset={end} goes on.]"
    if start >= total:
        return f"[There is nothing at offset {start}: it has {total} characters.]"
    rest = f"; offset={end} goes on" if end < total else "; this is the end"
    return f"[Characters {start} to {end} of {total}{rest}.]"
