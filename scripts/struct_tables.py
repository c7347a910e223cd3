"""Tables of the fields of a msgspec struct, with the words that stand beside them in the code."""

import ast
import inspect
import json
import textwrap
import types
from itertools import pairwise
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

__all__ = ["cell", "meanings", "table", "type_words"]

_PLAIN = {str: "text", bool: "true or false", int: "whole number", float: "number"}


def table(rows: list[tuple[str, ...]], *heads: str) -> str:
    """Return a table in Markdown."""
    lines = [heads, tuple("---" for _ in heads), *(tuple(cell(it) for it in row) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(text: str) -> str:
    """Return a text that fits into one cell."""
    return " ".join(text.replace("``", "`").replace("|", "\\|").split())


def meanings(kind: type[msgspec.Struct]) -> dict[str, str]:
    """Return what the code says of each field: in its `Meta`, or in the docstring below it."""
    found = _docstrings(kind)
    for name, hint in get_type_hints(kind, include_extras=True).items():
        for note in _notes(hint):
            if isinstance(note, msgspec.Meta) and note.description:
                found[name] = note.description
    return found


def type_words(hint: Any) -> str:
    """Return in plain words what may stand in a field."""
    origin, inside = get_origin(hint), get_args(hint)
    if hint is Any:
        return "anything"
    if origin is Annotated:
        return type_words(inside[0])
    if origin is Literal:
        return ", ".join(f"`{json.dumps(it)}`" for it in inside)
    if origin in (Union, types.UnionType):
        kinds = [it for it in inside if it is not types.NoneType]
        # Where numbers are taken beside text, it is as text that they are taken.
        kinds = [str] if {str, int, float} <= set(kinds) else kinds
        return " or ".join(dict.fromkeys(map(type_words, kinds)))
    if origin is not None:
        kind, held = ("list", inside[0]) if origin in (list, tuple) else ("object", inside[1])
        return f"{kind} of {type_words(held)}"
    return "object" if issubclass(hint, msgspec.Struct) else _PLAIN[hint]


def _notes(hint: Any) -> list[Any]:
    inside = get_args(hint)
    return list(inside[1:]) if get_origin(hint) is Annotated else []


def _docstrings(kind: type[msgspec.Struct]) -> dict[str, str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    found: dict[str, str] = {}
    for field, words in pairwise(body):
        match field, words:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = text
            case _:
                pass
    return found
