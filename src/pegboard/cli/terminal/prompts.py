"""Prompt the user at the terminal for values, and convert each as its schema says."""

import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import anyio
import anyio.to_thread
import msgspec

from pegboard.cli.terminal.arguments import NotOfTypeError, choices_of, kinds_of, part_of, typed
from pegboard.cli.terminal.output import warn
from pegboard.cli.terminal.plain_text import one_line, printable
from pegboard.gateway.tool_lines import type_name
from pegboard.model.json_values import object_in

__all__ = ["ReadLine", "fill_in", "read_line"]

ReadLine = Callable[[str], Awaitable[str]]
"""Shows words and returns what is typed behind them.

Raises:
    EOFError: when standard input ends.
"""

_SKIPPED = object()


async def read_line(words: str) -> str:
    """Read a line at the terminal, in a way that Ctrl-C ends at once."""
    sys.stderr.write(printable(words))
    sys.stderr.flush()
    if sys.platform == "win32":
        line = await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    else:
        # Not in a thread, which would go on waiting for a line after Ctrl-C.
        await anyio.wait_readable(sys.stdin)
        line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.removesuffix("\n")


async def fill_in(
    names: Iterable[str],
    schema: Mapping[str, Any],
    *,
    required: Iterable[str] | None = None,
    read: ReadLine = read_line,
) -> dict[str, Any]:
    """Ask for some properties of an object, and return those that were given.

    Args:
        names: of the properties, in the order in which they are asked for.
        schema: of the object.
        required: the properties that cannot be left out; all of them by default.
        read: reads a line.

    Raises:
        EOFError: when standard input ends.
    """
    needed = set(names if required is None else required)
    given: dict[str, Any] = {}
    for name in names:
        value = await _ask(name, schema, is_needed=name in needed, read=read)
        if value is not _SKIPPED:
            given[name] = value
    return given


async def _ask(name: str, root: Mapping[str, Any], *, is_needed: bool, read: ReadLine) -> Any:
    part = part_of(root, name, root)
    about = object_in(part)
    words = one_line(str(about.get("description") or about.get("title") or ""))
    if words:
        warn(f"{name}: {words}")
    while True:
        text = await read(f"{name} ({_wanted(part, root, is_needed=is_needed)}): ")
        if not text:
            if "default" in about:
                return about["default"]
            if not is_needed:
                return _SKIPPED
            continue
        try:
            return _read(text, part, root)
        except NotOfTypeError as error:
            warn(f"That does not fit; expected: {error}.")


def _wanted(part: object, root: Mapping[str, Any], *, is_needed: bool) -> str:
    choices = choices_of(part, root)
    words = type_name(part, root)
    if choices is not None:
        words = "one of " + ", ".join(_titled(part, choice) for choice in choices)
    if "default" in object_in(part):
        default = msgspec.json.encode(object_in(part)["default"]).decode()
        return f"{words}; Enter for {default}"
    return words if is_needed else f"{words}; Enter for none"


def _titled(part: object, choice: object) -> str:
    """Return a choice, with what it stands for if its schema says that."""
    written = choice if isinstance(choice, str) else msgspec.json.encode(choice).decode()
    listed: Any = object_in(part).get("oneOf")
    for it in cast("Sequence[object]", listed) if isinstance(listed, list | tuple) else ():
        told = object_in(it)
        if told.get("const") == choice and told.get("title"):
            return f"{written} ({told['title']})"
    return written


def _read(text: str, part: object, root: Mapping[str, Any]) -> Any:
    if "array" not in kinds_of(part, root) or text.lstrip().startswith("["):
        return typed(text, part, root)
    found: list[Any] = []
    for it in text.split(","):
        if it.strip():
            value = typed(it.strip(), part, root)
            found += cast("list[Any]", value) if isinstance(value, list) else [value]
    return found
