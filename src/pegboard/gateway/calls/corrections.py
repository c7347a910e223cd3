"""Corrections: read the arguments of a call as a model meant them, where the schema refuses them.

Models write a number or an object as text, write ``"null"`` for an argument that they leave out, or
put arguments beside the name of the tool. Only a refused value is read in another way, and only if
the schema then accepts the whole call.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from pegboard.model import ArgumentSchema
from pegboard.model.json_limits import MOST_LEVELS, JsonTexts, is_shallow
from pegboard.model.schema.violations import argument_path

__all__ = ["CORRECTED", "IGNORED", "Correction", "Corrector", "MeantCall", "noted"]

CORRECTED = "pegboard/corrected"
"""The key in ``_meta`` of a result that lists the corrections of its call."""
IGNORED = "pegboard/ignored"
"""The key in ``_meta`` of a result that lists the arguments that the tool does not have."""
_LISTED, _SHOWN = 5, 64
_ROUNDS = 4
"""JSON as text may contain numbers as text, and ``"null"`` becomes null before it is left out."""
_AROUND = 3
"""The levels of a request around the arguments of the tool."""
_ARGUMENTS = "arguments"
_OF_CALL = frozenset({"name", _ARGUMENTS})
_MISSING: Any = object()


class Correction(msgspec.Struct, frozen=True):
    """One value that was read in another way than it was written."""

    argument: str
    """Where it is in the arguments of ``call_tool``, such as ``arguments.limit``."""
    was: str
    """What the model wrote: ``text``, ``null``, or ``beside name``."""
    now: str
    """As what it was read: a type of JSON, ``left out``, or ``in arguments``."""


class MeantCall(NamedTuple):
    """A call of ``call_tool`` as the model meant it."""

    name: str
    arguments: dict[str, Any]
    extra: frozenset[str]
    """The arguments that were beside the name."""
    corrections: tuple[Correction, ...]


class Corrector:
    """Reads the arguments of one request; all its texts together have the limits of a request."""

    def __init__(self) -> None:
        self._texts = JsonTexts()

    def meant_call(self, given: Mapping[str, Any]) -> MeantCall | None:
        """Return what refused arguments of ``call_tool`` mean, or ``None`` if that is unclear."""
        name: object = given.get("name")
        inner: object = given.get(_ARGUMENTS)
        corrections: list[Correction] = []
        if isinstance(inner, str):
            inner = self._read(inner) if inner.strip() else {}
            corrections.append(Correction(_ARGUMENTS, "text", "object"))
        inner = {} if inner is None else inner
        if not isinstance(name, str) or not isinstance(inner, dict):
            return None
        inside = cast("dict[str, Any]", inner)
        extra = {key: value for key, value in given.items() if key not in _OF_CALL}
        if not all(_is_same(inside.get(key, value), value) for key, value in extra.items()):
            return None
        corrections += [
            Correction(argument_path([it]), "beside name", "in arguments") for it in extra
        ]
        return MeantCall(name, {**extra, **inside}, frozenset(extra), tuple(corrections))

    def fitting(
        self, arguments: dict[str, Any], schema: ArgumentSchema
    ) -> tuple[dict[str, Any], tuple[Correction, ...]] | None:
        """Return refused arguments as the schema accepts them, and what was corrected."""
        found = _copied(arguments)
        corrections: dict[tuple[str | int, ...], Correction] = {}
        for _ in range(_ROUNDS):
            if not self._correct(found, schema, corrections):
                return None
            if schema.accepts(found):
                is_shallow_enough = is_shallow(found, MOST_LEVELS - _AROUND)
                return (found, tuple(corrections.values())) if is_shallow_enough else None
        return None

    def _correct(
        self,
        arguments: dict[str, Any],
        schema: ArgumentSchema,
        corrections: dict[tuple[str | int, ...], Correction],
    ) -> bool:
        """Correct what the schema refuses; return whether there was anything to correct."""
        is_corrected = False
        for place in filter(None, schema.misfits(arguments)):
            holder, key = _value_at(arguments, place[:-1]), place[-1]
            before = holder[key]
            value = self._read(before) if isinstance(before, str) else _MISSING
            if value is not _MISSING:
                holder[key], now = value, _kind(value)
            elif before is None and len(place) == 1 and schema.declares(key):
                # Of a nested object nothing is left out: it may be a map with names of its own.
                del holder[key]
                now = "left out"
            else:
                continue
            was = corrections[place].was if place in corrections else _kind(before)
            path = argument_path([_ARGUMENTS, *place])
            corrections[place] = Correction(path, was, now)
            is_corrected = True
        return is_corrected

    def _read(self, text: str) -> Any:
        """Return the value that a text is the JSON of; a text in a text is not read."""
        try:
            value = self._texts.decode(text)
        except ValueError:
            return _MISSING
        return _MISSING if isinstance(value, str) else value


def noted(
    result: dict[str, Any], corrections: Sequence[Correction], ignored: Sequence[str] = ()
) -> dict[str, Any]:
    """Return a result that lists the corrections of its call in its ``_meta``.

    Args:
        result: the result.
        corrections: what was corrected.
        ignored: arguments that the tool does not have, and that it got all the same.
    """
    notes: dict[str, Any] = {}
    if corrections:
        notes[CORRECTED] = [msgspec.structs.asdict(it) for it in corrections]
    if ignored:
        notes[IGNORED] = [argument_path([_ARGUMENTS, it[:_SHOWN]]) for it in ignored[:_LISTED]]
    meta = cast("Mapping[str, Any]", result.get("_meta") or {})
    return {**result, "_meta": {**meta, **notes}} if notes else result


def _is_same(one: Any, other: Any) -> bool:
    """Tell whether two values are equal in JSON, where ``1`` is not ``true``."""
    if isinstance(one, dict) and isinstance(other, dict):
        mine, others = cast("dict[str, Any]", one), cast("dict[str, Any]", other)
        return mine.keys() == others.keys() and all(_is_same(mine[it], others[it]) for it in mine)
    if isinstance(one, list) and isinstance(other, list):
        pairs = cast("tuple[list[Any], list[Any]]", (one, other))
        return len(pairs[0]) == len(pairs[1]) and all(map(_is_same, *pairs))
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _value_at(value: Any, place: Sequence[str | int]) -> Any:
    for part in place:
        value = value[part]
    return value


def _kind(value: object) -> str:  # noqa: PLR0911 - one for each type
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "text"
        case int() | float():
            return "number"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return "value"


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(it) for key, it in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_copied(it) for it in cast("list[Any]", value)]
    return value
