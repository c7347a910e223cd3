"""Masking: the text of a configuration file with asterisks in the place of its secrets."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from pegboard.config.files.jsonc import Node, parse_jsonc
from pegboard.config.redaction import HIDDEN
from pegboard.config.secret_detection import (
    argument_secrets,
    is_secret_name,
    proxy_secrets,
    secrets_in,
    url_secrets,
    words_of_command,
)
from pegboard.errors import ConfigError

__all__ = ["is_reference", "masked_entry", "masked_text", "unmasked"]

_REFERENCE = re.compile(r"(?:\w+ )?\$\{(?:(?!:-)[^{}])+\}")
_HOLDING = frozenset({"env", "headers", "inputs"})
"""Objects whose values are shown only if they are references."""
_QUERY = re.compile(r"([?&#][^=&#]*=)(?!\$\{[^{}]*\}(?:[&#]|\Z))[^&#]+")
_COMMENT = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_PAIR = re.compile(r"[\"']?([\w.\-]+)[\"']?\s*[:=]\s*\S")


class _Masked(NamedTuple):
    """A value of a text that is replaced."""

    start: int
    end: int
    text: str


def is_reference(text: str) -> bool:
    """Tell whether a text only names where its value is kept, such as ``${TOKEN}``."""
    return _REFERENCE.fullmatch(text) is not None


def masked_text(text: str) -> str:
    """Return the text of a file in which no secret is left; all else stays as it is.

    Values of ``env`` and ``headers`` count as secrets, unless they are references.

    Raises:
        ConfigError: when the text is not JSON with comments.
    """
    root = parse_jsonc(text).root
    for it in sorted(_found(root, "", is_held=False), reverse=True):
        text = f"{text[: it.start]}{it.text}{text[it.end :]}"
    return _COMMENT.sub(_masked_comment, text)


def masked_entry(entry: object) -> str:
    """Return the entry of a server as JSON on several lines, in which no secret is left."""
    text = msgspec.json.format(msgspec.json.encode(entry), indent=2).decode()
    return masked_text(text)


def unmasked(entry: Mapping[str, Any], before: object) -> dict[str, Any]:
    """Return an entry in which the values that are still masked are those of the entry before.

    Raises:
        ConfigError: when a masked value has no value before in its place.
    """
    shown = msgspec.json.decode(masked_entry(before))
    return cast("dict[str, Any]", _restored(entry, shown, before))


def _restored(value: object, shown: object, before: object) -> object:
    if isinstance(value, Mapping):
        members = cast("Mapping[str, object]", value)
        return {
            key: _restored(it, _member(shown, key), _member(before, key))
            for key, it in members.items()
        }
    if isinstance(value, list):
        items = cast("list[object]", value)
        return [
            _restored(it, _item(shown, index), _item(before, index))
            for index, it in enumerate(items)
        ]
    if isinstance(value, str) and HIDDEN in value:
        if value != shown or before is None:
            words = f"`{HIDDEN}` stands for a value that is hidden. Write the value in its place."
            raise ConfigError(words)
        return before
    return value


def _member(value: object, key: str) -> object:
    return cast("Mapping[str, object]", value).get(key) if isinstance(value, Mapping) else None


def _item(value: object, index: int) -> object:
    if not isinstance(value, list):
        return None
    items = cast("list[object]", value)
    return items[index] if index < len(items) else None


def _found(node: Node, name: str, *, is_held: bool) -> Iterator[_Masked]:
    for member in node.members:
        yield from _found(member.node, member.key, is_held=is_held or name in _HOLDING)
    words = [it.value if isinstance(it.value, str) else "" for it in node.items]
    on_line = _suspects_of(words)
    for index, item in enumerate(node.items):
        if index in on_line and isinstance(item.value, str):
            yield _masked(item, _without(item.value, on_line[index]))
        else:
            yield from _found(item, name, is_held=is_held or name in _HOLDING)
    if node.members or node.items:
        return
    is_held = is_held or name in _HOLDING
    if isinstance(node.value, str):
        shown = _shown(node.value, name, is_held=is_held)
        if shown != node.value:
            yield _masked(node, shown)
    elif _is_number(node.value) and (is_held or any(secrets_in(str(node.value), name))):
        yield _masked(node, HIDDEN)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _masked(node: Node, shown: str) -> _Masked:
    return _Masked(node.start, node.end, msgspec.json.encode(shown).decode())


def _shown(text: str, name: str, *, is_held: bool) -> str:
    if not text or is_reference(text):
        return text
    if is_held or is_secret_name(name):
        return HIDDEN
    suspects = [it.value for it in secrets_in(text, name)]
    if name == "command":
        suspects += [it.value for _, it in argument_secrets(words_of_command(text))]
    if name == "proxy":
        suspects += [it.value for it in proxy_secrets(text)]
    if "://" in text:
        suspects += [it.value for it in url_secrets(text)]
        return _QUERY.sub(rf"\1{HIDDEN}", _without(text, suspects))
    return _without(text, suspects)


def _suspects_of(words: Sequence[str]) -> dict[int, list[str]]:
    """Return the secrets of a command line by the index of their word."""
    found: dict[int, list[str]] = {}
    for index, suspect in argument_secrets(words):
        if not is_reference(words[index]):
            found.setdefault(index, []).append(suspect.value)
    return found


def _without(text: str, suspects: Sequence[str]) -> str:
    for suspect in sorted(filter(None, suspects), key=len, reverse=True):
        text = text.replace(suspect, HIDDEN)
    return text


def _masked_comment(found: re.Match[str]) -> str:
    text = found[0]
    if text.startswith('"'):
        return text
    is_secret = any(secrets_in(text)) or any(map(is_secret_name, _PAIR.findall(text)))
    if not is_secret:
        return text
    # All of it: what a comment holds has no form that could be relied on.
    lines = "\n" * text.count("\n")
    return f"/* {HIDDEN} {lines}*/" if text.startswith("/*") else f"// {HIDDEN}"
