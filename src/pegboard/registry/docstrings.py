"""Docstrings: what a function does and what its parameters mean."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

__all__ = ["Documentation", "read_docstring"]


class Documentation(NamedTuple):
    """What a docstring says."""

    description: str
    parameters: Mapping[str, str]


def read_docstring(function: Callable[..., Any]) -> Documentation:
    """Read a docstring in Google, NumPy, reST or Epydoc style."""
    if isinstance(function, functools.partial):
        function = function.func
    text = getattr(function, "__doc__", None)
    text = inspect.cleandoc(text) if isinstance(text, str) else ""
    # Parsing costs more than everything else about a function, and one line has no parameters.
    if "\n" not in text:
        return Documentation(text, {})
    # Only here: most programs have no function with more than a line, and commands none at all.
    import docstring_parser  # noqa: PLC0415

    try:
        parsed = docstring_parser.parse(text)
    except docstring_parser.ParseError:
        return Documentation(text, {})
    parameters = {param.arg_name: param.description or "" for param in parsed.params}
    if not parsed.meta:
        return Documentation(text, {})
    return Documentation((parsed.description or "").strip(), parameters)
