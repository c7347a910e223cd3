"""Edit the text of a client's file, in JSON, TOML or YAML: add and remove entries."""

import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any, cast

import tomlkit
from tomlkit.exceptions import ParseError, TOMLKitError
from tomlkit.items import InlineTable

from pegboard.clients.toml_tables import append_tables, cut_tables
from pegboard.clients.yaml_section import read_yaml, with_yaml_entries, without_yaml_entries
from pegboard.config.files.edit_jsonc import remove_members, set_members
from pegboard.config.files.jsonc import parse_jsonc
from pegboard.config.problems import value_at
from pegboard.errors import ConfigError

__all__ = [
    "content_of",
    "entries_of",
    "is_toml",
    "is_yaml",
    "text_of",
    "with_entries",
    "without_entries",
]

_BOM = "\ufeff"
_YAML_SECTION = "extensions"
"""Only Goose has YAML."""


def is_toml(path: Path) -> bool:
    """Tell whether a file is TOML; files that are neither that nor YAML are JSON with comments."""
    return path.suffix.lower() == ".toml"


def is_yaml(path: Path) -> bool:
    """Tell whether a file is YAML."""
    return path.suffix.lower() in (".yaml", ".yml")


def content_of(path: Path, text: str) -> dict[str, Any]:
    """Return the parsed content of a client's file; an empty file is an empty object.

    Raises:
        ConfigError: when the file is not valid JSON, TOML or YAML, with the line and column.
    """
    if not text.lstrip(_BOM).strip():
        return {}
    if is_toml(path):
        return _toml(path, text).unwrap()
    if is_yaml(path):
        return read_yaml(_plain(text)[1], _YAML_SECTION, path=str(path))
    value: object = parse_jsonc(text, path=str(path)).value
    if not isinstance(value, dict):
        raise ConfigError("The file must contain an object.", path=str(path))
    return cast("dict[str, Any]", value)


def text_of(path: Path, content: bytes | None) -> str:
    """Return the text of a client's file; a missing file is an empty text.

    Raises:
        ConfigError: when the content is not UTF-8, or not valid JSON or TOML.
    """
    try:
        text = (content or b"").decode()
    except UnicodeDecodeError:
        text = None
    if text is None:
        raise ConfigError("The file is not UTF-8; save it in that encoding.", path=str(path))
    content_of(path, text)
    return text


def entries_of(path: Path, text: str, section: Sequence[str]) -> dict[str, Any]:
    """Return the entries of a section as the file has them.

    Raises:
        ConfigError: when the file cannot be read.
    """
    found = value_at(content_of(path, text), section)
    return dict(cast("Mapping[str, Any]", found)) if isinstance(found, Mapping) else {}


def with_entries(
    path: Path, text: str, section: Sequence[str], entries: Mapping[str, Mapping[str, Any]]
) -> str:
    """Return the text with these entries in a section.

    Raises:
        ConfigError: when the entries cannot be added without changing more of the file.
    """
    if not entries:
        return text
    if is_yaml(path):
        (name,) = section
        ways = [
            lambda: _by_lines(text, lambda it: with_yaml_entries(it, name, entries, path=str(path)))
        ]
    elif not is_toml(path):
        ways = [lambda: set_members(text, section, entries, file=str(path))]
    else:
        ways = [
            lambda: _by_lines(
                text, lambda it: append_tables(cut_tables(it, section, entries), section, entries)
            ),
            lambda: _with_tables(path, text, section, entries),
        ]
    return _checked(path, text, ways, section, entries)


def without_entries(path: Path, text: str, section: Sequence[str], names: Collection[str]) -> str:
    """Return the text without the entries of these names in a section.

    Raises:
        ConfigError: when the file cannot be read, or the entries cannot be removed without
            changing more of it.
    """
    if not names:
        return text
    if is_yaml(path):
        (name,) = section
        ways = [
            lambda: _by_lines(
                text, lambda it: without_yaml_entries(it, name, names, path=str(path))
            )
        ]
    elif not is_toml(path):
        ways = [lambda: remove_members(text, section, names)]
    else:
        ways = [
            lambda: _by_lines(text, lambda it: cut_tables(it, section, names)),
            lambda: _without_tables(path, text, section, names),
        ]
    return _checked(path, text, ways, section, dict.fromkeys(names))


def _checked(
    path: Path,
    text: str,
    ways: Iterable[Callable[[], str]],
    section: Sequence[str],
    entries: Mapping[str, Mapping[str, Any] | None],
) -> str:
    """Return the result of the first of these ways that changes nothing but the entries.

    Raises:
        ConfigError: when each of them changes more.
    """
    expected = _without_empty(_expected(path, text, section, entries), section)
    for way in ways:
        written = way()
        with suppress(ConfigError, ValueError, RecursionError):
            if _without_empty(_strict(path, written), section) == expected:
                return written
    what = "removed from" if None in entries.values() else "added to"
    more = f" and {len(entries) - 1} more" if len(entries) > 1 else ""
    shown = f"`{'.'.join((*section, *list(entries)[:1]))}`{more}"
    raise ConfigError(
        f"{shown} cannot be {what} this file without changing more of it, so "
        "nothing was changed. Edit the file by hand.",
        path=str(path),
    )


def _expected(
    path: Path, text: str, section: Sequence[str], entries: Mapping[str, Mapping[str, Any] | None]
) -> dict[str, Any]:
    expected = deepcopy(content_of(path, text))
    inner = expected
    for key in section:
        if not isinstance(inner.get(key), dict):
            inner[key] = {}
        inner = inner[key]
    for name, entry in entries.items():
        inner.pop(name, None)
        if entry is not None:
            inner[name] = entry
    return expected


def _strict(path: Path, text: str) -> dict[str, Any]:
    # Another parser than the one that wrote the text.
    return tomllib.loads(text.removeprefix(_BOM)) if is_toml(path) else content_of(path, text)


def _without_empty(content: dict[str, Any], section: Sequence[str]) -> dict[str, Any]:
    """Return the content without a section that has no entries."""
    for depth in range(len(section), 0, -1):
        outer = value_at(content, section[: depth - 1])
        key = section[depth - 1]
        if isinstance(outer, dict) and not cast("dict[str, Any]", outer).get(key, 1):
            del outer[key]
    return content


def _by_lines(text: str, change: Callable[[str], str]) -> str:
    bom, plain, is_crlf = _plain(text)
    return _as_before(bom, change(plain), is_crlf=is_crlf)


def _with_tables(
    path: Path, text: str, section: Sequence[str], entries: Mapping[str, Mapping[str, Any]]
) -> str:
    bom, text, is_crlf = _plain(text)
    document = _toml(path, text)
    inner: dict[str, Any] = document
    for key in section:
        if key not in inner:
            inner[key] = tomlkit.table(is_super_table=True)
        inner = inner[key]
        if not hasattr(inner, "keys"):
            raise ConfigError(f"`{key}` must be a table.", path=str(path))
    for name, entry in entries.items():
        inner[name] = _table(entry, is_inline=isinstance(inner, InlineTable))
    written = tomlkit.dumps(document)
    written = written if text.endswith("\n\n") else re.sub(r"\n\n\Z", "\n", written)
    return _as_before(bom, written, is_crlf=is_crlf)


def _without_tables(path: Path, text: str, section: Sequence[str], names: Collection[str]) -> str:
    bom, text, is_crlf = _plain(text)
    document = _toml(path, text)
    inner = value_at(document, section)
    if not isinstance(inner, Mapping):
        return _as_before(bom, text, is_crlf=is_crlf)
    there = [it for it in names if it in inner]
    for name in there:
        # Looked up again each time: if other tables are in between, a deletion makes a new one.
        del cast("dict[str, Any]", value_at(document, section))[name]
    return _as_before(bom, tomlkit.dumps(document) if there else text, is_crlf=is_crlf)


def _toml(path: Path, text: str) -> tomlkit.TOMLDocument:
    try:
        return tomlkit.parse(text.removeprefix(_BOM))
    except ParseError as error:
        line, column = error.line, error.col + 1
    except TOMLKitError:
        line = column = None
    # Not raised from the error above: that one may quote a secret.
    raise ConfigError("The file is not TOML.", path=str(path), line=line, column=column)


def _table(entry: Mapping[str, Any], *, is_inline: bool) -> Any:
    table = tomlkit.inline_table() if is_inline else tomlkit.table()
    for key, value in entry.items():
        table.add(key, value)
    if not isinstance(table, InlineTable):
        # An empty line before the next table.
        table.add(tomlkit.nl())
    return table


def _plain(text: str) -> tuple[str, str, bool]:
    """Return the mark at the beginning, the text with plain line ends, and what those were."""
    bom = _BOM if text.startswith(_BOM) else ""
    text = text.removeprefix(_BOM)
    is_crlf = "\r\n" in text and text.count("\r\n") == text.count("\n")
    return bom, text.replace("\r\n", "\n") if is_crlf else text, is_crlf


def _as_before(bom: str, text: str, *, is_crlf: bool) -> str:
    return bom + (text.replace("\n", "\r\n") if is_crlf else text)
