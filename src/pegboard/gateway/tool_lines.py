"""Tool lines: a tool as a one-line signature with its purpose, from which a model can call it."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from pegboard.model import Tool
from pegboard.model.json_values import object_in

__all__ = [
    "ToolLine",
    "ToolLines",
    "first_sentence",
    "one_line",
    "signature",
    "type_name",
    "unknown_arguments",
]

LONGEST_SIGNATURE = 360
LONGEST_SENTENCE = 160
_LONGEST_CHOICE = 60
_MOST_VARIANTS = 20
_DEEPEST = 4
_MOST_PARTS = 500
"""Parts of a schema that one signature looks at; what comes after them is ``any``."""
_SPEAK_OF_OTHERS = frozenset(
    {
        *("additionalProperties", "patternProperties", "unevaluatedProperties", "propertyNames"),
        *("allOf", "anyOf", "oneOf", "$ref", "$dynamicRef", "if", "dependentSchemas"),
    }
)
"""Keywords by which a schema may accept more arguments than its `properties` list."""
_READ = 400
"""Characters of a description in which its first sentence is looked for."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|(?<=[\u3002\uff01\uff1f])|\n")
_REFERENCE = re.compile(r"#/(?:\$defs|definitions)/([^/]+)")
_MOST = 4096


class ToolLine(NamedTuple):
    """A tool in one line."""

    tool: Tool
    signature: str
    sentence: str
    whole: str

    def data(self, score: float, *, is_definition: bool) -> dict[str, Any]:
        """Return the line as data, with its score, and a mark if the tool is only a definition."""
        data: dict[str, Any] = {
            "name": self.tool.name,
            "signature": self.signature,
            "description": self.sentence,
            "score": round(score, 3),
        }
        return {**data, "definition_only": True} if is_definition else data


class ToolLines:
    """Caches the lines of tools that searches found, because searches find the same ones often."""

    def __init__(self) -> None:
        self._lines: dict[str, ToolLine] = {}

    def of(self, tool: Tool) -> ToolLine:
        """Return the line of a tool."""
        known = self._lines.get(tool.name)
        if known is not None and known.tool is tool:
            return known
        if len(self._lines) >= _MOST:
            self._lines.clear()
        call, words = signature(tool), first_sentence(tool.description)
        line = ToolLine(tool, call, words, f"{call} — {words}" if words else call)
        self._lines[tool.name] = line
        return line


def one_line(tool: Tool) -> str:
    """Return a tool as ``name(arg: type, option?: type)``, with its purpose in one sentence."""
    words = first_sentence(tool.description)
    return f"{signature(tool)} — {words}" if words else signature(tool)


def unknown_arguments(tool: Tool, names: Iterable[str]) -> list[str]:
    """Return the arguments that the schema of a tool does not list, if it lists all of them.

    Validation does not refuse them, but most likely another argument was meant. A schema that lists
    none belongs to a tool without arguments, which is how `signature` shows it.
    """
    schema = tool.input_schema
    if not _SPEAK_OF_OTHERS.isdisjoint(schema):
        return []
    known = object_in(schema.get("properties"))
    return [it for it in names if it not in known]


def signature(tool: Tool) -> str:
    """Return the name of a tool with its parameters and their types, the required ones first."""
    schema = tool.input_schema
    shown: list[str] = []
    room = LONGEST_SIGNATURE - len(tool.name)
    for parameter in _parameters(schema):
        room -= len(parameter) + 2
        if room < 0:
            shown.append("…")
            break
        shown.append(parameter)
    return f"{tool.name}({', '.join(shown)})"


def first_sentence(text: str) -> str:
    """Return the first sentence of a description on one line, cut if it is too long."""
    text = text.strip()
    sentence = " ".join(_SENTENCE_END.split(text[:_READ], maxsplit=1)[0].split())
    if len(sentence) <= LONGEST_SENTENCE:
        return sentence
    return f"{sentence[: LONGEST_SENTENCE - 1].rstrip()}…"


def type_name(schema: object, root: Mapping[str, Any]) -> str:
    """Return the type that a part of a schema requires, as signatures write it."""
    return _Types(root).of(schema, _DEEPEST)


def _parameters(schema: Mapping[str, Any]) -> Iterator[str]:
    properties = object_in(schema.get("properties"))
    listed: Any = schema.get("required")
    needed = cast("Sequence[object]", listed) if isinstance(listed, list | tuple) else ()
    required = {name for name in needed if isinstance(name, str)}
    types = _Types(schema)
    for is_required in (True, False):
        for name, part in properties.items():
            if (name in required) == is_required:
                mark = "" if is_required else "?"
                yield f"{name}{mark}: {types.of(part, _DEEPEST)}"


class _Types:
    """Writes the types of the parts of one schema."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root, self._left = root, _MOST_PARTS

    def of(self, schema: object, depth: int) -> str:
        part = object_in(schema)
        self._left -= 1
        if not depth or self._left < 0:
            return "any"
        target = _REFERENCE.fullmatch(str(part.get("$ref", "")))
        if target is not None:
            return self.of(_definition(target[1], self._root), depth - 1)
        if "const" in part:
            return _choice([part["const"]]) or "any"
        choices = part.get("enum")
        if isinstance(choices, list | tuple):
            written = _choice(cast("Sequence[object]", choices))
            if written:
                return written
        for keyword in ("anyOf", "oneOf"):
            variants = part.get(keyword)
            if isinstance(variants, list | tuple):
                of = cast("Sequence[object]", variants)
                return _either(of, lambda it: self.of(it, depth - 1))
        kind = part.get("type")
        kinds = cast("Sequence[object]", kind) if isinstance(kind, list | tuple) else [kind]
        return _either(kinds, lambda it: self._named(it, part, depth))

    def _named(self, kind: object, part: Mapping[str, Any], depth: int) -> str:
        if kind == "array":
            items = self.of(part.get("items"), depth - 1)
            return f"({items})[]" if "|" in items else f"{items}[]"
        return kind if isinstance(kind, str) else "any"


def _definition(name: str, root: Mapping[str, Any]) -> object:
    known = object_in(root.get("$defs"))
    return known[name] if name in known else object_in(root.get("definitions")).get(name)


def _either(variants: Sequence[object], written: Callable[[object], str]) -> str:
    kinds = [written(it) for it in variants[:_MOST_VARIANTS]]
    # A type that may be null tells a model no more than an optional one.
    named = list(dict.fromkeys(kind for kind in kinds if kind != "null"))
    if len(variants) > _MOST_VARIANTS:
        named.append("…")
    return "|".join(named) or "null"


def _choice(values: Sequence[object]) -> str:
    if len(values) > _LONGEST_CHOICE:
        return ""
    written = "|".join(msgspec.json.encode(value).decode() for value in values)
    return written if len(written) <= _LONGEST_CHOICE else ""
