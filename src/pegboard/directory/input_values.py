"""Values that an entry asks for: what they are, whether one fits, and texts made of them."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from pegboard.directory.server_json import PackageArgument, UserInput, ValueInput
from pegboard.errors import UnsupportedPackageError

__all__ = [
    "AskedValue",
    "GivenValue",
    "GivenValues",
    "ValuePlace",
    "argument_name",
    "asked_by",
    "check_value",
    "filled",
    "is_flag",
    "read_back",
    "written",
]

ValuePlace = Literal["environment variable", "argument", "header", "address"]
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][\w.-]{0,254})\}")
_REFERENCE = re.compile(r"\$\{[^{}]*\}")
_TRUE = ("true", "false")


class AskedValue(msgspec.Struct, frozen=True, kw_only=True):
    """A value that the person gives."""

    name: str
    place: ValuePlace
    description: str = ""
    is_secret: bool = False
    is_required: bool = False
    is_repeated: bool = False
    default: str | None = None
    choices: tuple[str, ...] = ()
    format: str = "string"
    placeholder: str = ""


class GivenValue(msgspec.Struct, frozen=True):
    """A value as the configuration will have it."""

    text: str
    is_reference: bool = False
    """Whether it is a reference of the configuration, such as ``${NAME}``, and no text."""


GivenValues = Mapping[str, Sequence[GivenValue]]
"""Values by name; more than one only for what may be repeated."""


def asked_by(
    value: ValueInput, name: str, place: ValuePlace, *, is_repeated: bool = False
) -> Iterator[AskedValue]:
    """Give what a person is asked for, to fill in one variable, header, argument or address."""
    if value.value is None:
        yield _asked(value, name, place, is_repeated=is_repeated)
        return
    for found in _PLACEHOLDER.findall(_text(value.value)):
        inner = value.variables.get(found)
        if inner is not None and inner.value is None:
            yield _asked(inner, found, place)


def check_value(asked: AskedValue, text: str) -> str:
    """Return a value as it is used.

    Raises:
        ValueError: when it does not fit; the message says what is expected.
    """
    # A secret is not quoted.
    if any(not it.isprintable() for it in text):
        raise ValueError(f"{asked.name} must be printable text on one line.")
    if asked.choices and text not in asked.choices:
        raise ValueError(f"{asked.name} must be one of {', '.join(asked.choices)}.")
    if asked.format == "boolean" and text not in _TRUE:
        raise ValueError(f"{asked.name} must be true or false.")
    if asked.format == "number":
        try:
            float(text)
        except ValueError:
            raise ValueError(f"{asked.name} must be a number.") from None
    if asked.format == "filepath" and text:
        try:
            # The program gets it as it is, and runs in another folder.
            return str(Path(text).expanduser().absolute())
        except RuntimeError:
            raise ValueError(f"{asked.name} is in the home folder of an unknown user.") from None
    return text


def filled(value: ValueInput, name: str, given: GivenValues) -> list[list[GivenValue]]:
    """Return the parts of each text that a variable, header, argument or address becomes.

    There is none if a value that it needs was not given.
    """
    if value.value is None:
        return [[it] for it in _values_of(value, name, given)]
    parts: list[GivenValue] = []
    for index, part in enumerate(_PLACEHOLDER.split(_text(value.value))):
        inner = value.variables.get(part) if index % 2 else None
        if inner is not None:
            values = _values_of(inner, part, given)
            if not values:
                return []
            parts.append(values[-1])
        elif index % 2:
            parts.append(GivenValue(f"{{{part}}}"))
        elif part:
            parts.append(GivenValue(part))
    return [parts]


def written(parts: Sequence[GivenValue]) -> str:
    """Return a text as the configuration has it: only references of the person are variables.

    Raises:
        UnsupportedPackageError: when a text of the entry would change a reference.
    """
    texts: list[str] = []
    literal = ""
    for it in parts:
        if not it.is_reference:
            literal += it.text
            continue
        if literal.endswith("$"):
            raise UnsupportedPackageError("The entry has a `$` before a value that is a reference.")
        texts += [literal.replace("${", "$${"), it.text]
        literal = ""
    return "".join([*texts, literal.replace("${", "$${")])


def read_back(text: str) -> GivenValue:
    """Return the value that `written` has written."""
    if _REFERENCE.fullmatch(text):
        return GivenValue(text, is_reference=True)
    return GivenValue(text.replace("$${", "${"))


def argument_name(argument: PackageArgument, number: int) -> str:
    """Return the name under which the value of an argument is given."""
    name = argument.name.lstrip("-") or argument.value_hint
    return re.sub(r"[^\w.-]+", "_", name).strip("_") or f"argument{number}"


def is_flag(argument: PackageArgument) -> bool:
    """Tell whether a named argument is the name alone."""
    told = (argument.value, argument.default, *argument.choices)
    has_value = any(it is not None for it in told) or bool(argument.value_hint)
    is_plain = argument.format == "string" and not argument.is_required
    return argument.type == "named" and is_plain and not has_value


def _asked(
    value: UserInput, name: str, place: ValuePlace, *, is_repeated: bool = False
) -> AskedValue:
    return AskedValue(
        name=name,
        place=place,
        description=" ".join(value.description.split()),
        is_secret=value.is_secret,
        is_required=value.is_required,
        is_repeated=is_repeated,
        default=None if value.default is None else _text(value.default),
        choices=tuple(map(_text, value.choices)),
        format=value.format,
        placeholder=value.placeholder,
    )


def _values_of(value: UserInput, name: str, given: GivenValues) -> list[GivenValue]:
    if value.value is not None:
        return [GivenValue(_text(value.value))]
    if given.get(name):
        return list(given[name])
    return [] if value.default is None else [GivenValue(_text(value.default))]


def _text(value: str | float | bool) -> str:  # noqa: FBT001 - a value of the entry
    return str(value).lower() if isinstance(value, bool) else str(value)
