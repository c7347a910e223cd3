"""Secrets that stand in a configuration file as plain text, where a variable should be."""

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

from pegboard.config.paths import FieldPath, shown_path, value_at
from pegboard.config.secret_words import (
    argument_secrets,
    is_secret_name,
    looks_like_token,
    url_secrets,
)

__all__ = ["PlainSecret", "plain_secrets"]

_DEFAULT = re.compile(r"\$\{[^{}]*?:-([^{}]*)\}")
_SCHEME = re.compile(r"(?:bearer|basic|token|apikey)\s+", re.IGNORECASE)
_NO_SECRET = re.compile(
    r"<.*>|\{.*\}|\[.*\]|x{3,}.*|\*+|\.{2,}|…|\$\w+|%\w+%|[+-]?[0-9.]+"
    r"|true|false|yes|no|on|off|auto|none|null"
    r"|.*(?:your[-_ ]|change-?_?me|replace|placeholder|example|dummy|insert[-_ ]|redacted).*",
    re.IGNORECASE | re.DOTALL,
)
_RANDOM = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])\S{16,}")
_TOKENS = frozenset({"authorization", "bearer_token", "bearertoken", "path", "url"})


class PlainSecret(NamedTuple):
    """Where a secret stands, and the environment variable that should hold it instead."""

    path: FieldPath
    variable: str

    def advice(self, server: str) -> str:
        """Return what to tell people; the secret itself is not in it."""
        return (
            f"Server {server!r} has a secret in plain text in `{shown_path(self.path)}`. Write "
            f'"${{{self.variable}}}" in its place, and put the value into the environment '
            f"variable {self.variable}."
        )


def plain_secrets(server: str, entry: Mapping[str, object]) -> Iterator[PlainSecret]:
    """Find them in an entry whose variables are not expanded yet; the keys are our own fields."""
    for field in ("bearer_token", "url", "http_url"):
        value = entry.get(field)
        if isinstance(value, str) and _named_secret(field, value):
            yield PlainSecret((field,), _variable(server, field))
    for path, members in _objects(entry):
        for name, value in members.items():
            if isinstance(value, str) and _named_secret(name, value):
                whose = "" if "env" in path else server
                yield PlainSecret((*path, name), _variable(whose, name))
    for path, args in _argument_lists(entry):
        reported: set[int] = set()
        for index, suspect in argument_secrets(args):
            if index not in reported and _is_plain(suspect.value):
                reported.add(index)
                yield PlainSecret((*path, index), _variable(server, suspect.name))


def _objects(
    entry: Mapping[str, object],
) -> Iterator[tuple[tuple[str, ...], Mapping[str, object]]]:
    for path in (("env",), ("headers",), ("oauth",), ("command", "env")):
        found = value_at(entry, path)
        if isinstance(found, Mapping):
            yield path, cast("Mapping[str, object]", found)


def _argument_lists(entry: Mapping[str, object]) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    for path in (("args",), ("command", "args")):
        found = value_at(entry, path)
        if isinstance(found, list | tuple):
            # What is no text keeps its place, so that indexes stay right.
            yield (
                path,
                [it if isinstance(it, str) else "" for it in cast("list[object]", found)],
            )


def _named_secret(name: str, value: str) -> bool:
    if is_secret_name(name) or looks_like_token(value):
        return _is_plain(value)
    if name.lower().endswith("key") and _RANDOM.fullmatch(value):
        return _is_plain(value)
    return "://" in value and any(_is_plain(suspect.value) for suspect in url_secrets(value))


def _is_plain(value: str) -> bool:
    parts = cast("list[str]", _DEFAULT.findall(value)) if "${" in value else [value]
    texts = [_SCHEME.sub("", part.strip(), count=1) for part in parts]
    return any(text and _NO_SECRET.fullmatch(text) is None for text in texts)


def _variable(server: str, name: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name)
    word = "TOKEN" if name.lower() in _TOKENS else words
    whole = re.sub(r"[^A-Z0-9]+", "_", f"{server}_{word}".upper()).strip("_")
    return whole if whole and not whole[0].isdigit() else f"MCP_{whole}"
