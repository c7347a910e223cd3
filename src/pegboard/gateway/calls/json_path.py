"""JSON paths: select a part of a JSON value, as in ``items[2].name`` or ``$.rows[0:10]``."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from pegboard.gateway.request import object_in

__all__ = ["select"]

_STEP = re.compile(
    r"""\.?(?P<name>[^.\[\]"']+)"""
    r"""|\[(?P<index>-?\d{1,12})\]"""
    r"""|\[(?P<start>-?\d{0,12}):(?P<end>-?\d{0,12})\]"""
    r"""|\[(?P<quote>["'])(?P<key>.*?)(?P=quote)\]""",
    re.DOTALL,
)
_LONGEST = 1000
_SHOWN = 20


def select(value: Any, path: str) -> Any:
    """Return the part of a value that a path selects; ``$`` selects the whole value.

    Raises:
        ValueError: when the path is invalid or selects nothing; it says which step failed.
    """
    if len(path) > _LONGEST:
        raise ValueError(f"A path has at most {_LONGEST} characters.")
    rest = path.strip().removeprefix("$")
    done = "$"
    while rest:
        step = _STEP.match(rest)
        if step is None:
            raise ValueError(f"The path is invalid from {rest[:_SHOWN]!r} on: write a.b[0].c.")
        value = _follow(value, step, done)
        dot = "." if step["name"] is not None and not step[0].startswith(".") else ""
        done, rest = f"{done}{dot}{step[0]}", rest[step.end() :]
    return value


def _follow(value: Any, step: re.Match[str], done: str) -> Any:
    name = step["name"] if step["name"] is not None else step["key"]
    if isinstance(value, list | tuple):
        return _of_list(cast("Sequence[Any]", value), step, name, done)
    members = object_in(value)
    if name is not None and name in members:
        return members[name]
    wanted = step[0] if name is None else name
    raise ValueError(f"There is no {wanted!r} at {done}, which is {_kind(value)}.")


def _kind(value: object) -> str:
    if not isinstance(value, Mapping):
        return "a plain value"
    keys = list(object_in(value))  # pyright: ignore[reportUnknownArgumentType]
    more = ", …" if len(keys) > _SHOWN else ""
    return f"an object with: {', '.join(keys[:_SHOWN])}{more}" if keys else "an empty object"


def _of_list(items: Sequence[Any], step: re.Match[str], name: str | None, done: str) -> Any:
    if step["start"] is not None:
        ends = [
            int(text) if text not in ("", "-") else None for text in (step["start"], step["end"])
        ]
        return items[ends[0] : ends[1]]
    index = step["index"] or name or ""
    if not re.fullmatch(r"-?\d{1,12}", index):
        raise ValueError(f"At {done} is a list of {len(items)}: pick one by [0], some by [0:10].")
    if not -len(items) <= int(index) < len(items):
        raise ValueError(f"At {done} is a list of {len(items)}, so there is no [{index}].")
    return items[int(index)]
