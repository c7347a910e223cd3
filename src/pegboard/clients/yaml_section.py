"""Read and edit one section of a YAML file by its lines, as Goose has it, and keep all other lines.

It reads what Goose writes and what people usually write: nested block mappings, lists of values,
and values on one line. An entry in any other form is read as its text, so that it can neither be
misunderstood nor changed. Where the section itself is unusual, nothing is read or written.
"""

import json
import re
from collections.abc import Collection, Mapping
from itertools import takewhile
from typing import Any, NamedTuple, cast

from pegboard.errors import ConfigError

__all__ = ["read_yaml", "with_yaml_entries", "without_yaml_entries"]

_TOP = re.compile(r"""("[^"\\]*"|'[^']*'|[^\s#\-?:,\[\]{}&*!|>'"%@`][^:#]*)[ ]*:(?=[ ]|$)(.*)""")
_PAIR = re.compile(
    r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s#\-?,\[\]{}&*!|>'"%@`](?:[^:#]|:(?=\S)|(?<=\S)#)*?)"""
    r"""[ ]*:(?=[ ]|$)(.*)"""
)
_QUOTED = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^']|'')*'""")
_PLAIN = re.compile(r"(?:[^\s#,\[\]{}]|(?<=\S)#|[ ](?![#]))+")
_STARTS_OTHERWISE = tuple("&*!|>%@`?{}[],#'\"")
_NUMBER = re.compile(r"[-+]?(?:\d+|\d+\.\d*(?:[eE][-+]?\d+)?|0x[0-9a-fA-F]+|\.\d+)\Z")
_WORDS = {"null": None, "~": None, "": None, "true": True, "false": False}
_SAFE = re.compile(r"[A-Za-z_/][A-Za-z0-9_./@+-]*\Z")
_KEYWORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
_DEEPEST = 20


class _UnusualError(Exception):
    """A form of YAML that is not read here."""


class _Entry(NamedTuple):
    key: str
    start: int
    end: int
    """Behind its last line; comments and empty lines behind it are not part of it."""


class _Section(NamedTuple):
    head: int
    """The number of its first line, ``-1`` if there is none."""
    end: int
    indent: int
    entries: tuple[_Entry, ...]


def read_yaml(text: str, section: str, *, path: str) -> dict[str, Any]:
    """Return the content of a file: the section as objects, and all other keys as their text.

    Raises:
        ConfigError: when the file is not a mapping, or the section has an unusual form.
    """
    lines = text.split("\n")
    found = _find(lines, section, path)
    tops = _tops(lines, path)
    content: dict[str, Any] = {
        name: "\n".join(lines[start:end]).rstrip("\n") for name, start, end in tops
    }
    if found.head >= 0:
        content[section] = {
            it.key: _value_of(lines[it.start : it.end], found.indent) for it in found.entries
        }
    return content


def with_yaml_entries(
    text: str, section: str, entries: Mapping[str, Mapping[str, Any]], *, path: str
) -> str:
    """Return the text with these entries at the end of the section.

    Raises:
        ConfigError: when the section has an unusual form.
    """
    lines = without_yaml_entries(text, section, entries, path=path).split("\n")
    found = _find(lines, section, path)
    pad = " " * (found.indent if found.entries else 2)
    new = [
        f"{pad}{line}" for name, entry in entries.items() for line in _written(name, dict(entry))
    ]
    if found.head < 0:
        # The last line is empty if the text ends with a line break.
        end = len(lines) if lines[-1] else len(lines) - 1
        lines[end:end] = [f"{section}:", *new, *([""] if end == len(lines) else [])]
    elif not found.entries:
        lines[found.head] = re.sub(r":[ ]*(\{[ ]*\}|null|~)", ":", lines[found.head], count=1)
        lines[found.head + 1 : found.head + 1] = new
    else:
        end = found.entries[-1].end
        at_end = end == len(lines)
        lines[end:end] = [*new, *([""] if at_end else [])]
    return "\n".join(lines)


def without_yaml_entries(text: str, section: str, names: Collection[str], *, path: str) -> str:
    """Return the text without the entries of these names in the section.

    Raises:
        ConfigError: when the section has an unusual form.
    """
    lines = text.split("\n")
    found = _find(lines, section, path)
    unwanted = [it for it in found.entries if it.key in names]
    for it in reversed(unwanted):
        del lines[it.start : it.end]
    if unwanted and len(unwanted) == len(found.entries):
        # A key without a value is no mapping, and Goose would not read it.
        head = lines[found.head]
        lines[found.head] = re.sub(r":[ ]*(?=#|$)", ": {} ", head, count=1).rstrip()
    return "\n".join(lines)


def _tops(lines: list[str], path: str) -> list[tuple[str, int, int]]:
    """Return the keys of the file, each with its first line and the line behind its last one."""
    starts: list[tuple[str, int]] = []
    for number, line in enumerate(lines):
        text = line.removesuffix("\r")
        if not text or text.startswith((" ", "#")):
            continue
        if text.startswith("- ") and starts:
            # A list at the margin belongs to the key above it.
            continue
        if text == "---" and not starts:
            continue
        matched = _TOP.match(text)
        if matched is None:
            raise _refused("line", path, number)
        starts.append((matched[1].strip("\"' "), number))
    names = [name for name, _ in starts]
    if len(set(names)) < len(names):
        raise _refused("key that is here twice", path, starts[-1][1])
    ends = [*(start for _, start in starts[1:]), len(lines)]
    return [(name, start, end) for (name, start), end in zip(starts, ends, strict=False)]


def _find(lines: list[str], section: str, path: str) -> _Section:
    place = next((it for it in _tops(lines, path) if it[0] == section), None)
    if place is None:
        return _Section(-1, -1, 0, ())
    _, head, end = place
    matched = _TOP.match(lines[head])
    value = "" if matched is None else _without_comment(matched[2])
    body = [number for number in range(head + 1, end) if _is_content(lines[number])]
    if value not in ("", "{}", "null", "~", "{ }") or (value and body):
        raise _refused("value of this section", path, head)
    indent = _indent(lines[body[0]]) if body else 0
    starts = [it for it in body if _indent(lines[it]) <= indent]
    entries: list[_Entry] = []
    for start, following in zip(starts, [*starts[1:], end], strict=False):
        matched = _PAIR.fullmatch(lines[start].strip())
        if matched is None or _indent(lines[start]) != indent or not indent:
            raise _refused("entry", path, start)
        last = max(it for it in body if start <= it < following)
        entries.append(_Entry(_name(matched[1]), start, last + 1))
    if len({it.key for it in entries}) < len(entries):
        raise _refused("entry that is here twice", path, head)
    return _Section(head, end, indent, tuple(entries))


def _refused(what: str, path: str, line: int) -> ConfigError:
    return ConfigError(
        f"Pegboard does not understand this {what}. Write it in the usual form, or edit the file "
        "by hand.",
        path=path,
        line=line + 1,
        column=1,
    )


def _is_content(line: str) -> bool:
    text = line.strip()
    return bool(text) and not text.startswith("#")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _key(text: str) -> str:
    text = text.strip()
    if text.startswith("'"):
        return text[1:-1].replace("''", "'")
    if text.startswith('"'):
        # A ValueError for what JSON does not have.
        return str(json.loads(text))
    return text


def _name(text: str) -> str:
    """Return the name of an entry; one in an unusual form stays as it is."""
    try:
        return _key(text)
    except ValueError:
        return text


def _without_comment(text: str) -> str:
    return re.sub(r"(^|\s)#.*", "", text).strip()


def _value_of(lines: list[str], indent: int) -> object:
    """Return the value of an entry, or its text if it has an unusual form."""
    try:
        ((_, value),) = _mapping([it for it in lines if _is_content(it)], indent, 0).items()
    except (_UnusualError, ValueError):
        return "\n".join(lines)
    return value


def _mapping(lines: list[str], indent: int, depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    rest = lines
    while rest:
        matched = _PAIR.fullmatch(rest[0].strip())
        if _indent(rest[0]) != indent or matched is None or depth > _DEEPEST:
            raise _UnusualError
        key = _key(matched[1])
        if key in found or key == "<<":
            raise _UnusualError
        # The items of a list may be as far left as their key.
        below = list(
            takewhile(
                lambda it: (
                    _indent(it) > indent or (_indent(it) == indent and it.lstrip().startswith("- "))
                ),
                rest[1:],
            )
        )
        value = matched[2].strip()
        # Only people read a description, so its exact text does not matter.
        is_prose = key == "description" and value.startswith(("|", ">"))
        found[key] = "" if is_prose else _below(value, below, depth)
        rest = rest[1 + len(below) :]
    return found


def _below(value: str, below: list[str], depth: int) -> object:
    if below and _without_comment(value):
        # Text over several lines.
        raise _UnusualError
    if not below:
        return _value(value)
    if not below[0].lstrip().startswith("- "):
        return _mapping(below, _indent(below[0]), depth + 1)
    indent = _indent(below[0])
    items = [it.strip() for it in below if _indent(it) == indent]
    if len(items) < len(below) or not all(it.startswith("- ") for it in items):
        raise _UnusualError
    values = [it[2:].strip() for it in items]
    if any(_PAIR.fullmatch(it) for it in values):
        raise _UnusualError
    return [_value(it) for it in values]


def _value(text: str) -> object:
    """Return a value that is written on one line."""
    value, rest = _scan(text.strip(), in_flow=False)
    if _without_comment(rest):
        raise _UnusualError
    return value


def _scan(text: str, *, in_flow: bool) -> tuple[object, str]:
    """Return the value at the beginning of a text, and what follows it."""
    quoted = _QUOTED.match(text)
    if quoted is not None:
        whole = quoted[0]
        value = whole[1:-1].replace("''", "'") if whole[0] == "'" else json.loads(whole)
        return value, text[quoted.end() :]
    if text.startswith("["):
        return _flow_list(text[1:])
    if text.startswith("{"):
        inner = text[1:].lstrip()
        if not inner.startswith("}"):
            raise _UnusualError
        return {}, inner[1:]
    if text.startswith(_STARTS_OTHERWISE) and not text.startswith("#"):
        raise _UnusualError
    plain = _PLAIN.match(text) if in_flow else None
    whole = plain[0].strip() if plain is not None else _without_comment(text)
    if ": " in whole or whole.endswith(":") or whole == "-" or whole.startswith("- "):
        raise _UnusualError
    return _plain(whole), text[plain.end() :] if plain is not None else ""


def _flow_list(text: str) -> tuple[list[object], str]:
    items: list[object] = []
    rest = text.lstrip()
    while not rest.startswith("]"):
        if not rest or rest.startswith(("[", "{", ",", "#")):
            raise _UnusualError
        value, rest = _scan(rest, in_flow=True)
        items.append(value)
        rest = rest.lstrip()
        if rest.startswith(","):
            rest = rest[1:].lstrip()
        elif not rest.startswith("]"):
            raise _UnusualError
    return items, rest[1:]


def _plain(text: str) -> object:
    if text.casefold() in _WORDS:
        return _WORDS[text.casefold()]
    if _NUMBER.match(text) is None:
        return text
    return int(text, 0 if "x" in text else 10) if "." not in text else float(text)


def _written(name: str, value: object) -> list[str]:
    """Return the lines of a key and its value."""
    key = _scalar(name)
    if isinstance(value, Mapping) and value:
        members = cast("Mapping[str, object]", value).items()
        return [f"{key}:", *(f"  {line}" for it in members for line in _written(str(it[0]), it[1]))]
    if isinstance(value, list | tuple) and value:
        return [f"{key}:", *(f"  - {_scalar(it)}" for it in cast("list[object]", value))]
    return [f"{key}: {_scalar(cast('object', value))}"]


def _scalar(value: object) -> str:
    if isinstance(value, str):
        if _SAFE.match(value) and value.casefold() not in _KEYWORDS:
            return value
        quoted = json.dumps(value, ensure_ascii=False)
        # YAML takes what JSON writes, but for some characters that cannot be printed.
        shown = (it if it.isprintable() or it > "\uffff" else f"\\u{ord(it):04x}" for it in quoted)
        return "".join(shown)
    return json.dumps(value)
