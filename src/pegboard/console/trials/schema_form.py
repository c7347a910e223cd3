"""SchemaForm: a form for the arguments of a tool, made from its JSON Schema, and what it says."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast
from urllib.parse import quote, unquote

import msgspec

from pegboard.model.hidden_characters import visible
from pegboard.model.json_values import object_in

__all__ = ["FormField", "SchemaForm"]

_DEEPEST, _MOST_FIELDS = 6, 300
"""What is nested deeper, or comes later, is written as JSON."""
_MOST_CHOICES, _MOST_VARIANTS, _MOST_ITEMS = 1000, 12, 100
_MOST_HOPS = 3_000
"""How many references and parts of a schema a form follows."""
_LONGEST_REFERENCE, _MOST_PARTS = 1_000, 100
"""The longest reference that is followed, and how many schemas of an ``allOf`` count."""
_LONG_TEXTS = frozenset(
    ("body", "code", "content", "html", "markdown", "message", "prompt", "sql", "text")
)
_NOTHING = object()
"""What a field says that is left out."""
_AS_JSON = "="
"""How the name of a control ends whose text is JSON, though its value could be written plainly."""
_ITEM = "__i__"
"""Where the address of a field in a blank item has the number of the item."""

Kind = Literal["text", "lines", "number", "flag", "choice", "json", "null"]
Group = Literal["object", "array", "variant"]
_KINDS: Mapping[object, Kind] = {
    "string": "text",
    "integer": "number",
    "number": "number",
    "boolean": "flag",
    "null": "null",
}
Schema = Mapping[str, Any]


class FormField(msgspec.Struct, frozen=True, kw_only=True):
    """One value in a form: a control, or a group of them."""

    path: str
    """The name of its control: where the value is in the arguments, in letters that every browser
    sends back as they are."""
    label: str
    kind: Kind | Group
    value: str = ""
    """What the control holds; of a variant, the number of the chosen one."""
    initial: str = ""
    """What it holds in an empty form."""
    description: str = ""
    required: bool = False
    nullable: bool = False
    choices: tuple[str, ...] = ()
    """The values of a choice, as JSON."""
    fields: tuple["FormField", ...] = ()
    """The properties of an object, the items of an array, or the variants."""
    blank: "FormField | None" = None
    """An empty item of an array, with ``__i__`` for its number."""

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """What a person may choose: each value as JSON, and what the page shows of it."""
        values = self.choices or ("true", "false")
        if not all(it.startswith('"') for it in values):
            return tuple((it, it) for it in values)
        return tuple((it, msgspec.json.decode(it, type=str)) for it in values)


class SchemaForm:
    """A form for the values of a schema.

    It is filled in with what was sent, or else with the given value, or else with the defaults.
    However deep or wide a schema is, the form has a limited number of fields.

    Args:
        schema: the JSON Schema of an object.
        root: the name of the form, with which the names of all its controls begin.
        sent: what a browser sent, by the names of the controls.
        given: the value to edit.
        add: the path of an array that gets one more item.
        remove: the path of an item to leave out.
    """

    def __init__(
        self,
        schema: Schema,
        *,
        root: str = "f",
        sent: Mapping[str, str] | None = None,
        given: object = None,
        add: str = "",
        remove: str = "",
    ) -> None:
        self._schema = schema
        self._sent = sent
        self._add, self._remove = add, remove
        # What was sent has more fields than were shown, if items were added.
        self._room = _MOST_FIELDS if sent is None else 4 * _MOST_FIELDS + len(sent)
        self._hops = _MOST_HOPS
        whole = {**schema, "type": "object"}
        value = _NOTHING if given is None else given
        self.root: FormField = self._field(root, "", whole, value, depth=0, required=True)
        """The whole form."""
        self.problems: dict[str, str] = {}
        """What is wrong in which field, after `value` was asked for."""

    def value(self) -> object:
        """Return the value that the form says, without the fields that are wrong or left out."""
        self.problems = {}
        said = self._said(self.root)
        return {} if said is _NOTHING else said

    def _field(
        self, path: str, label: str, schema: object, given: object, *, depth: int, required: bool
    ) -> FormField:
        part, nullable = self._plain(schema)
        default = part.get("default")
        if given is _NOTHING and default is not None and self._sent is None:
            given = default
        self._room -= 1
        made = FormField(
            path=path,
            label=label,
            kind="json",
            description=_words(part, label),
            required=required,
            nullable=nullable,
        )
        is_json = self._sent is not None and f"{path}{_AS_JSON}" in self._sent
        if self._room > 0 and depth < _DEEPEST and not is_json:
            variants = _variants(part)
            if variants:
                return self._variant(made, variants, given, depth)
            properties = object_in(part.get("properties"))
            is_object = part.get("type", "object") == "object"
            if is_object and (properties or depth == 0):
                return self._object(made, part, given, depth)
            if part.get("type") == "array" and isinstance(part.get("items"), Mapping):
                return self._array(made, part, given, depth)
        is_group = part.get("type") in ("object", "array")
        return (
            self._as_json(made, given) if is_json or is_group else self._control(made, part, given)
        )

    def _object(self, made: FormField, part: Schema, given: object, depth: int) -> FormField:
        room, needed = self._room, _list(part.get("required"))
        known = object_in(given)
        properties = object_in(part.get("properties"))
        fields = tuple(
            self._field(
                f"{made.path}/{quote(name, safe='')}",
                name,
                it,
                known.get(name, _NOTHING),
                depth=depth + 1,
                required=name in needed,
            )
            for name, it in properties.items()
            if self._room > 0 or (not depth and name in known)
        )
        # A form that lacks a field of an object would lose its value.
        if len(fields) < len(properties) and depth:
            self._room = room
            return self._as_json(made, given)
        return msgspec.structs.replace(made, kind="object", fields=fields)

    def _array(self, made: FormField, part: Schema, given: object, depth: int) -> FormField:
        values, room = _list(given), self._room
        if len(values) > _MOST_ITEMS and self._sent is None:
            return self._as_json(made, given)
        added = -1
        if self._sent is None:
            numbers = list(range(len(values)))
        else:
            kept = (it for it in self._numbers(made.path) if f"{made.path}/{it}" != self._remove)
            numbers = list(kept)[:_MOST_ITEMS]
            if self._add == made.path:
                added = max(numbers, default=-1) + 1
                numbers.append(added)

        def item(number: int | str, given: object) -> FormField:
            path = f"{made.path}/{number}"
            sent = self._sent
            if number in (added, _ITEM):
                # Nothing was sent for it: it begins with the defaults.
                self._sent = None
            field = self._field(path, "", part["items"], given, depth=depth + 1, required=True)
            self._sent = sent
            return field

        fields = tuple(
            item(it, values[it] if it < len(values) else _NOTHING)
            for it in numbers
            if self._room > 0
        )
        if len(fields) < len(values) and self._sent is None:
            self._room = room
            return self._as_json(made, given)
        blank = item(_ITEM, _NOTHING)
        return msgspec.structs.replace(made, kind="array", fields=fields, blank=blank)

    def _variant(
        self, made: FormField, variants: Sequence[Schema], given: object, depth: int
    ) -> FormField:
        if self._sent is not None:
            chosen = self._sent.get(made.path, "")
        elif given is not _NOTHING:
            fits = (at for at, it in enumerate(variants) if _fits(self._plain(it)[0], given))
            chosen = str(next(fits, 0))
        else:
            chosen = "0" if made.required else ""
        fields = tuple(
            self._field(
                f"{made.path}/~{at}",
                _variant_name(self._plain(it)[0], at),
                it,
                given if chosen == str(at) else _NOTHING,
                depth=depth + 1,
                required=True,
            )
            for at, it in enumerate(variants)
        )
        return msgspec.structs.replace(made, kind="variant", value=chosen, fields=fields)

    def _control(self, made: FormField, part: Schema, given: object) -> FormField:
        kind, choices = _kind_of(made.label, part)
        if self._sent is not None:
            value = self._sent.get(made.path, "").replace("\r\n", "\n")
        elif given is not _NOTHING and not (given is None and made.nullable):
            if kind in ("text", "lines") and not _is_plain(given):
                return self._as_json(made, given)
            value = cast("str", given) if kind in ("text", "lines") else _as_json(given)
        else:
            # The one value that is possible needs no choice.
            value = choices[0] if made.required and len(choices) == 1 else ""
        default = part.get("default")
        initial = default if isinstance(default, str) and not choices else _as_json(default)
        if len(choices) == 1:
            initial = choices[0]
        return msgspec.structs.replace(
            made, kind=kind, choices=choices, value=value, initial=initial
        )

    def _as_json(self, made: FormField, given: object) -> FormField:
        """Return a control for any value; its name says that its text is JSON."""
        path = f"{made.path}{_AS_JSON}"
        if self._sent is not None:
            value = self._sent.get(path, "")
        else:
            value = "" if given is _NOTHING else _as_json(given)
        return msgspec.structs.replace(made, path=path, kind="json", value=value)

    def _numbers(self, path: str) -> list[int]:
        """Return the numbers of the items that were sent for an array."""
        assert self._sent is not None
        begin = f"{path}/"
        found = {it[len(begin) :].split("/", 1)[0] for it in self._sent if it.startswith(begin)}
        return sorted(int(it) for it in found if it.isascii() and it.isdecimal() and len(it) < 6)

    def _plain(self, schema: object, depth: int = 0) -> tuple[Schema, bool]:
        """Return a schema without references and null, and whether null is possible."""
        part, nullable = object_in(schema), False
        while self._hops > 0:
            self._hops -= 1
            reference: object = part.get("$ref")
            if isinstance(reference, str):
                rest = {key: it for key, it in part.items() if key != "$ref"}
                part = {**self._target(reference), **rest}
                continue
            for keyword in ("anyOf", "oneOf"):
                variants = _list(part.get(keyword))
                others = [it for it in variants if object_in(it).get("type") != "null"]
                if len(others) == 1:
                    nullable = nullable or len(variants) > 1
                    rest = {key: it for key, it in part.items() if key != keyword}
                    part = {**object_in(others[0]), **rest}
                    break
            else:
                break
        others = _list(part.get("allOf"))[:_MOST_PARTS] if depth < _DEEPEST else []
        part = _merged(part, [self._plain(it, depth + 1)[0] for it in others])
        kinds = _list(part.get("type"))
        if "null" in kinds and len(kinds) > 1:
            nullable, kinds = True, [it for it in kinds if it != "null"]
        return ({**part, "type": kinds[0]} if len(kinds) == 1 else part), nullable

    def _target(self, reference: str) -> Schema:
        found: object = self._schema
        if not reference.startswith("#") or len(reference) > _LONGEST_REFERENCE:
            return {}
        for step in reference[1:].split("/")[1:]:
            found = object_in(found).get(unquote(step).replace("~1", "/").replace("~0", "~"))
        return object_in(found)

    def _said(self, field: FormField) -> object:
        match field.kind:
            case "object":
                if not field.required and _is_blank(field):
                    return self._left_out(field)
                pairs = ((it.label, self._said(it)) for it in field.fields)
                said: object = {name: it for name, it in pairs if it is not _NOTHING}
            case "array":
                items = (self._said(it) for it in field.fields)
                said = [it for it in items if it is not _NOTHING]
            case "variant":
                chosen = [it for at, it in enumerate(field.fields) if str(at) == field.value]
                return self._said(chosen[0]) if chosen else self._left_out(field)
            case "null":
                return None
            case "text" | "lines":
                said = field.value
            case _:
                return self._decoded(field)
        return said if said or (field.required and not field.nullable) else self._left_out(field)

    def _decoded(self, field: FormField) -> object:
        if not field.value.strip():
            return self._left_out(field)
        try:
            return msgspec.json.decode(field.value)
        except (msgspec.DecodeError, RecursionError) as error:
            wanted = "a number" if field.kind == "number" else "JSON"
            self.problems[field.path] = f"This is not {wanted}: {error}"
            return _NOTHING

    def _left_out(self, field: FormField) -> object:
        return None if field.nullable and field.required else _NOTHING


def _is_blank(field: FormField) -> bool:
    """Tell whether a person has put nothing into a field."""
    if field.kind == "object":
        return all(map(_is_blank, field.fields))
    if field.kind == "array":
        return not field.fields
    return field.value in ("", field.initial)


def _variants(part: Schema) -> list[Schema]:
    for keyword in ("oneOf", "anyOf"):
        found = [object_in(it) for it in _list(part.get(keyword))]
        has_own = object_in(part.get("properties"))
        if has_own and not any("properties" in it or "$ref" in it for it in found):
            # They only say which of the properties are needed.
            continue
        if 1 < len(found) <= _MOST_VARIANTS:
            rest = {key: it for key, it in part.items() if key not in (keyword, "default")}
            return [_merged(it, [rest]) if has_own else it for it in found]
    return []


def _merged(part: Schema, others: Sequence[Schema]) -> Schema:
    """Return a schema that also has what others ask for."""
    if not others:
        return part
    merged: dict[str, Any] = {key: it for key, it in part.items() if key != "allOf"}
    for other in others:
        properties = {
            **object_in(other.get("properties")),
            **object_in(merged.get("properties")),
        }
        required = [*_list(other.get("required")), *_list(merged.get("required"))]
        merged = {**other, **merged}
        if properties:
            merged |= {"properties": properties, "required": required}
    return merged


def _kind_of(name: str, part: Schema) -> tuple[Kind, tuple[str, ...]]:
    values = [part["const"]] if "const" in part else _list(part.get("enum"))
    if 0 < len(values) <= _MOST_CHOICES:
        return "choice", tuple(map(_as_json, values))
    kind = part.get("type")
    found = _KINDS.get(kind, "json") if isinstance(kind, str) else "json"
    if found == "text":
        longest: object = part.get("maxLength")
        is_long = isinstance(longest, int) and longest > 500
        return ("lines" if is_long or name.casefold() in _LONG_TEXTS else "text"), ()
    return found, ()


def _is_plain(value: object) -> bool:
    """Tell whether a value is a text that a control shows as it is."""
    return isinstance(value, str) and visible(value) == value and "\r" not in value


def _words(part: Schema, label: str) -> str:
    """Return what a schema says of its value, besides the name."""
    words, title = part.get("description"), part.get("title")
    if isinstance(words, str):
        return words
    is_name = isinstance(title, str) and title.replace(" ", "_").casefold() == label.casefold()
    return title if isinstance(title, str) and not is_name else ""


def _fits(part: Schema, value: object) -> bool:
    """Tell whether a value may be of a schema, by its type, its constants and its keys."""
    kinds: Mapping[object, type | tuple[type, ...]] = {
        "string": str,
        "boolean": bool,
        "integer": int,
        "number": (int, float),
        "array": list,
        "object": Mapping,
        "null": type(None),
    }
    if "const" in part and part["const"] != value:
        return False
    kind = part.get("type", "object" if "properties" in part else None)
    if isinstance(kind, str) and kind in kinds and not isinstance(value, kinds[kind]):
        return False
    if not isinstance(value, Mapping):
        return True
    known = object_in(cast("object", value))
    return all(name in known for name in _list(part.get("required"))) and all(
        _fits(object_in(it), known[name])
        for name, it in object_in(part.get("properties")).items()
        if name in known and "const" in object_in(it)
    )


def _variant_name(part: Schema, at: int) -> str:
    for key in ("title", "const", "type"):
        if isinstance(part.get(key), str):
            return f"{at + 1}: {part[key]}"
    for name, it in object_in(part.get("properties")).items():
        if "const" in object_in(it):
            return f"{at + 1}: {name} = {object_in(it)['const']}"
    return str(at + 1)


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _as_json(value: object) -> str:
    # As ASCII: a control holds the very value, and hides nothing of it.
    return json.dumps(value)
