"""Front matter: the YAML at the beginning of a `SKILL.md`, as the JSON that `skills/list` shows."""

import math
import re
from typing import Any, cast

import yaml

from pegboard.skills.entry import LARGEST_FRONT_MATTER, InvalidSkill

__all__ = ["read_front_matter"]

_BLOCK = re.compile(
    r"\ufeff?---[ \t]*\r?\n(.*?)(?:\r?\n)?^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
_DEEPEST = 20
_CORE = {
    "tag:yaml.org,2002:null": (r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    "tag:yaml.org,2002:bool": (r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    "tag:yaml.org,2002:int": (r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    "tag:yaml.org,2002:float": (
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+0123456789."),
    ),
}
"""The plain scalars of YAML 1.2 that are not strings, with the characters they begin with."""


class _Loader(yaml.SafeLoader):
    """Reads YAML 1.2 as JSON: no dates, no ``yes`` and ``no``, no aliases, no duplicate keys."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - as PyYAML declares it
    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        # An alias lets a few bytes become gigabytes.
        if cast("Any", self).check_event(yaml.AliasEvent):
            raise InvalidSkill("its front matter has a YAML alias; write the value out")
        self.depth += 1
        if self.depth > _DEEPEST:
            raise InvalidSkill(f"its front matter is nested more than {_DEEPEST} deep")
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth -= 1


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[str, Any]:
    found: dict[str, Any] = {}
    value_of = cast("Any", loader).construct_object
    for key_node, value_node in node.value:
        key: object = value_of(key_node, deep=True)
        if not isinstance(key, str):
            raise InvalidSkill("its front matter has a key that is not text")
        if key in found:
            raise InvalidSkill(f"its front matter has {key[:64]!r} twice")
        found[key] = value_of(value_node, deep=True)
    return found


def _integer(_: _Loader, node: yaml.ScalarNode) -> int:
    text = str(node.value)
    return int(text, 0) if text[:2] in ("0o", "0x") else int(text)


def _number(_: _Loader, node: yaml.ScalarNode) -> float:
    number = float(str(node.value).replace(".inf", "inf").replace(".nan", "nan").lower())
    if not math.isfinite(number):
        raise InvalidSkill("its front matter has a number that JSON does not have")
    return number


for _tag, (_form, _starts) in _CORE.items():
    cast("Any", _Loader).add_implicit_resolver(_tag, re.compile(f"(?:{_form})\\Z"), _starts)
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
_Loader.add_constructor("tag:yaml.org,2002:int", _integer)
_Loader.add_constructor("tag:yaml.org,2002:float", _number)


def read_front_matter(content: bytes) -> dict[str, Any]:
    """Return the front matter of a ``SKILL.md`` as JSON.

    Raises:
        InvalidSkill: when there is none, or it is not YAML that JSON can express.
    """
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        raise InvalidSkill("its SKILL.md is not UTF-8 text") from None
    block = _BLOCK.match(text, 0, LARGEST_FRONT_MATTER)
    if block is None:
        raise InvalidSkill(
            "its SKILL.md must begin with a line `---`, the YAML of its `name` and `description`, "
            "and another line `---`"
        )
    try:
        found: object = yaml.load(block[1], Loader=_Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = "" if mark is None else f" in line {mark.line + 2}"
        words = error.problem or "it cannot be read"
        raise InvalidSkill(f"its front matter is not valid YAML{line}: {words}") from None
    except InvalidSkill:
        raise
    except Exception:  # noqa: BLE001 - PyYAML fails in many ways on a value that its tag cannot have
        raise InvalidSkill("its front matter is not valid YAML") from None
    if not isinstance(found, dict):
        raise InvalidSkill("its front matter must have `name: …` and `description: …`")
    front = cast("dict[str, Any]", found)
    _check_json(front)
    return front


def _check_json(value: object) -> None:
    if isinstance(value, dict):
        for it in cast("dict[str, object]", value).values():
            _check_json(it)
    elif isinstance(value, list):
        for it in cast("list[object]", value):
            _check_json(it)
    elif value is not None and not isinstance(value, str | int | float):
        raise InvalidSkill("its front matter has a value that JSON does not have")
