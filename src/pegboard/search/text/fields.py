"""The searchable fields of a tool (name, description, parameters …), and the weight of each."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, cast

import msgspec

from pegboard.model import Tool
from pegboard.search.searcher import Match
from pegboard.search.text.words import QueryWords, words_of

__all__ = [
    "FIELDS",
    "Field",
    "ToolText",
    "find_matches",
    "matches_of",
    "read_text",
    "stored_schema",
]

VERSION = 2
"""Grows when the same tool gives other texts or weights, like that of the words."""

_MAX_TEXT = 10_000
_MAX_PARAMETERS = 200
_MAX_CHOICES = 30
_MAX_CHOICE = 100
_MAX_PARTS = 100
_LEVELS = 2
# What leads from a schema to others: without a name, and with one.
_LEADING = frozenset({"items", "allOf", "anyOf", "oneOf", "$ref"})
_DEEPER = _LEADING | {"properties"}

# As it is stored: of a tool from a store it may still be JSON, and shall stay so.
stored_schema = Tool.__dict__["input_schema"].__get__


class ToolText(msgspec.Struct, frozen=True):
    """The texts of one tool."""

    name: str
    title: str
    description: str
    parameters: str
    """The names of the parameters."""
    details: str
    """What is said about the parameters, and the values that they may have."""
    server: str
    tags: str
    category: str


class Field(msgspec.Struct, frozen=True):
    """How a field counts."""

    weight: float
    slope: float
    """How much it matters that a text is long: 0 not at all, 1 fully."""
    usual: float
    """How many words are neither long nor short."""
    prose: bool = False
    """True when its stop-words say nothing."""


FIELDS: Mapping[str, Field] = {
    "name": Field(3.0, 0.3, 3),
    "title": Field(1.0, 0.3, 3),
    "description": Field(1.0, 0.6, 14, prose=True),
    "parameters": Field(0.7, 0.5, 5),
    "details": Field(0.5, 0.7, 25, prose=True),
    "server": Field(0.4, 0.3, 2),
    "tags": Field(0.4, 0.3, 2),
    "category": Field(0.4, 0.3, 2),
}
SHOWN_AS = {"details": "parameters"}


def read_text(tool: Tool) -> ToolText:
    """Return the texts of a tool; whatever its schema is, that is no error."""
    names, details = _parameters(tool)
    return ToolText(
        tool.name,
        (tool.annotations.title or "")[:_MAX_TEXT],
        tool.description[:_MAX_TEXT],
        " ".join(names)[:_MAX_TEXT],
        " ".join(details)[:_MAX_TEXT],
        tool.server or "",
        " ".join(tool.tags)[:_MAX_TEXT],
        tool.category or "",
    )


def _parameters(tool: Tool) -> tuple[list[str], list[str]]:
    schema: object = stored_schema(tool)
    if isinstance(schema, msgspec.Raw):
        try:
            schema = msgspec.json.decode(schema)
        except (msgspec.DecodeError, RecursionError):
            schema = None
    names: list[str] = []
    details: list[str] = []
    if isinstance(schema, dict) and schema:
        root = cast("dict[str, Any]", schema)
        for name, parameter in islice(_walk(root, root, _LEVELS), _MAX_PARAMETERS):
            names.append(name)
            details.extend(_details(parameter))
    return names, details


def _walk(
    schema: dict[str, Any], root: dict[str, Any], levels: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the parameters of a schema, each followed by those inside it."""
    for part in [schema] if _LEADING.isdisjoint(schema) else _parts(schema, root):
        properties: object = part.get("properties")
        if isinstance(properties, dict):
            for name, value in cast("dict[str, object]", properties).items():
                parameter = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
                yield name, parameter
                if levels > 1 and not _DEEPER.isdisjoint(parameter):
                    yield from _walk(parameter, root, levels - 1)


def _parts(schema: dict[str, Any], root: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a schema and all that it leads to without a name; it may lead to itself."""
    found: dict[int, dict[str, Any]] = {}
    waiting: list[object] = [schema]
    while waiting and len(found) < _MAX_PARTS:
        part = waiting.pop()
        place = id(part)
        if isinstance(part, dict) and place not in found:
            known = found[place] = cast("dict[str, Any]", part)
            waiting.append(_referred(known.get("$ref"), root))
            for keyword in ("oneOf", "anyOf", "allOf"):
                branches: object = known.get(keyword)
                if isinstance(branches, list):
                    waiting += cast("list[object]", branches)[_MAX_PARTS::-1]
            waiting.append(known.get("items"))
    return list(found.values())


def _referred(reference: object, root: dict[str, Any]) -> object:
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return None
    found: object = root
    for part in reference[2:].split("/"):
        found = cast("dict[str, object]", found).get(part) if isinstance(found, dict) else None
    return found


def _details(parameter: dict[str, Any]) -> Iterator[str]:
    description = parameter.get("description")
    if isinstance(description, str):
        yield description[:_MAX_TEXT]
    choices = parameter.get("enum")
    if isinstance(choices, list):
        for choice in cast("list[object]", choices)[:_MAX_CHOICES]:
            if isinstance(choice, str | int | float):
                yield str(choice)[:_MAX_CHOICE]


# Some fields are shown as one.
_SHOWN = tuple(dict.fromkeys(SHOWN_AS.get(name, name) for name in FIELDS))
_SHOWN_FOR_BITS = [
    {SHOWN_AS.get(name, name) for number, name in enumerate(FIELDS) if bits >> number & 1}
    for bits in range(1 << len(FIELDS))
]


def matches_of(fields: Mapping[str, int], words: QueryWords) -> tuple[Match, ...]:
    """Return in which fields the words of a query are, as the query spells them.

    Args:
        fields: those of each term that the tool has, in the order of the query: a bit for each.
        words: the words of the query.
    """
    found: dict[str, dict[str, None]] = {}
    for term, bits in fields.items():
        word = words.spelled[term]
        if word:
            for field in _SHOWN_FOR_BITS[bits]:
                found.setdefault(field, {})[word] = None
    return tuple([Match(field=it, words=tuple(found[it])) for it in _SHOWN if it in found])


def find_matches(tool: Tool, words: QueryWords) -> tuple[Match, ...]:
    """Return in which fields of a tool the words of a query are, by its texts."""
    text = read_text(tool)
    fields: dict[str, int] = {}
    for number, (name, field) in enumerate(FIELDS.items()):
        for term in words_of(getattr(text, name), prose=field.prose):
            fields[term] = fields.get(term, 0) | 1 << number
    return matches_of({term: fields[term] for term in words.spelled if term in fields}, words)
