"""Append and remove tables in a TOML text, and keep every other line unchanged.

It recognises tables only by their headers, so the caller has to check what the result says.
"""

import re
import tomllib
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

import tomlkit

__all__ = ["append_tables", "cut_tables"]

_MAY_BE_HEADER = re.compile(r"^[ \t]*\[.*", re.MULTILINE)


def append_tables(
    text: str, section: Sequence[str], tables: Mapping[str, Mapping[str, Any]]
) -> str:
    """Return the text with these tables of a section at its end, after an empty line."""
    nested: Mapping[str, Any] = tables
    for key in reversed(section):
        nested = {key: nested}
    between = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return text + between + tomlkit.dumps(nested)


def cut_tables(text: str, section: Sequence[str], names: Collection[str]) -> str:
    """Return the text without these tables of a section; comments before and after them stay."""
    unwanted = {(*section, name) for name in names}
    heads = [
        (found.start(), path)
        for found in _MAY_BE_HEADER.finditer(text)
        if (path := _path_in(found[0]))
    ]
    heads.append((len(text), ()))
    kept = text[: heads[0][0]]
    for (start, path), (end, _) in pairwise(heads):
        table = text[start:end]
        if path[: len(section) + 1] in unwanted:
            # The empty line before it is removed, too: there may be one after it as well.
            kept = (kept[:-1] if kept.endswith("\n\n") else kept) + _behind(table)
        else:
            kept += table
    return kept


def _path_in(line: str) -> tuple[str, ...]:
    """Return what a header names, or nothing if it is none."""
    try:
        inner: Any = tomllib.loads(line)
    except (ValueError, RecursionError):
        return ()
    path: list[str] = []
    while inner:
        if isinstance(inner, list):
            inner = cast("list[Any]", inner)[0]
        else:
            ((key, inner),) = cast("dict[str, Any]", inner).items()
            path.append(key)
    return tuple(path)


def _behind(table: str) -> str:
    """Return the comments and empty lines at the end of a table."""
    lines = table.split("\n")
    end = len(lines)
    while lines[end - 1].lstrip()[:1] in ("", "#"):
        end -= 1
    return "\n".join(lines[end:])
