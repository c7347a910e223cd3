"""What VS Code asks people when it starts a server: `${input:ID}`."""

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from pegboard.clients.our_entry import map_texts
from pegboard.config.problems import value_at

__all__ = ["AskedInput", "answer_inputs", "asked_inputs", "inputs_used"]

_INPUT = re.compile(r"\$\$\{|\$\{input:([^{}]*)\}")


class AskedInput(msgspec.Struct, frozen=True, kw_only=True):
    """One question."""

    id: str
    description: str = ""
    is_secret: bool = True
    default: str | None = None


def asked_inputs(content: Mapping[str, Any]) -> tuple[AskedInput, ...]:
    """Return the questions of a whole file."""
    found: list[AskedInput] = []
    for section in (("inputs",), ("mcp", "inputs")):
        inputs = value_at(content, section)
        for asked in cast("list[object]", inputs) if isinstance(inputs, list) else ():
            identity, told = value_at(asked, ("id",)), value_at(asked, ("description",))
            default = value_at(asked, ("default",))
            if isinstance(identity, str):
                found.append(
                    AskedInput(
                        id=identity,
                        description=told if isinstance(told, str) else "",
                        is_secret=value_at(asked, ("password",)) is True,
                        default=default if isinstance(default, str) else None,
                    )
                )
    return tuple(found)


def inputs_used(entry: Mapping[str, Any], asked: tuple[AskedInput, ...]) -> list[AskedInput]:
    """Return the questions that an entry needs, also those that nobody wrote down."""
    used: dict[str, None] = {}

    def seen(text: str) -> str:
        used.update(dict.fromkeys(it[1] for it in _INPUT.finditer(text) if it[1] is not None))
        return text

    map_texts(entry, seen)
    known = {it.id: it for it in asked} if used else {}
    return [known.get(it, AskedInput(id=it)) for it in used]


def answer_inputs(entry: Mapping[str, Any], answers: Mapping[str, str]) -> dict[str, Any]:
    """Return the entry with answers in it, each as it is to be written; other questions stay."""

    def replaced(found: re.Match[str]) -> str:
        return found[0] if found[1] is None else answers.get(found[1], found[0])

    return cast("dict[str, Any]", map_texts(entry, lambda it: _INPUT.sub(replaced, it)))
