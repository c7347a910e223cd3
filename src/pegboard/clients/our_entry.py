"""Convert the entry of any client, including Codex, to an entry of our own file."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from pegboard.config.files.entry import SPELLINGS, OAuthEntry, ServerEntry, TlsEntry

__all__ = ["is_pegboard", "map_texts", "our_entry"]

_FIELDS: dict[type[msgspec.Struct], set[str]] = {
    kind: {it.name for it in msgspec.structs.fields(kind)}
    for kind in (ServerEntry, OAuthEntry, TlsEntry)
}
_ON_THIS_MACHINE = re.compile(r"https?://(localhost|127\.[0-9.]+|\[::1\])([:/]|$)", re.IGNORECASE)
_WORKSPACE = re.compile(r"\$\$\{|\$\{(workspaceFolder(?:Basename)?)\}")


def our_entry(entry: Mapping[str, Any], *, folder: Path, project: Path | None) -> dict[str, Any]:
    """Return the entry with our field names, and with absolute paths.

    Args:
        entry: the entry of the client.
        folder: the folder of the client's file.
        project: the folder of the project, if the file belongs to one.
    """
    found = _renamed(entry, ServerEntry)
    if isinstance(found.get("oauth"), Mapping):
        found["oauth"] = _renamed(found["oauth"], OAuthEntry)
    if isinstance(found.get("tls"), Mapping):
        found["tls"] = _renamed(found["tls"], TlsEntry)
    found = _one_address(_flat_command(found))
    if project is not None:
        found = cast("dict[str, Any]", map_texts(found, lambda it: _in_project(it, project)))
    is_off = [found.pop("disabled", None) is True, found.pop("enabled", None) is False]
    _make_absolute(found, ("cwd", "env_file"), project or folder)
    if isinstance(found.get("tls"), dict):
        _make_absolute(found["tls"], ("ca", "client_cert", "client_key"), project or folder)
    if project is not None and "command" in found:
        # The client starts the program there.
        found.setdefault("cwd", str(project))
    return found | ({"enabled": False} if any(is_off) else {})


def is_pegboard(name: str, entry: Mapping[str, Any] | None) -> bool:
    """Tell whether an entry is Pegboard itself, as `connect` or a user writes it.

    An address is Pegboard only if it is on this machine and the entry is named so.
    """
    found = entry or {}
    if name == "pegboard" and "command" not in found:
        return _ON_THIS_MACHINE.match(str(found.get("url", ""))) is not None
    words = [found.get("command"), *_listed(found.get("args"))]
    stems = [re.split(r"[/\\]", it)[-1].removesuffix(".exe") for it in words if isinstance(it, str)]
    programs = [index for index, it in enumerate(stems) if it in ("pegboard", "pegboard.cli.main")]
    return bool(programs) and "serve" in stems[programs[0] :]


def _listed(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else []


def map_texts(value: object, change: Callable[[str], str]) -> object:
    """Return a JSON value with every text in it changed; keys stay."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {k: map_texts(it, change) for k, it in cast("Mapping[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [map_texts(it, change) for it in cast("list[object]", value)]
    return value


def _renamed(entry: Mapping[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    named = {SPELLINGS[kind].get(key, key): value for key, value in entry.items()}
    return {
        key: value for key, value in named.items() if key in _FIELDS[kind] and value is not None
    }


def _make_absolute(found: dict[str, Any], fields: tuple[str, ...], base: Path) -> None:
    for field in fields:
        path = found.get(field)
        if isinstance(path, str) and not path.startswith(("~", "$")):
            found[field] = str(base / path)


def _flat_command(found: dict[str, Any]) -> dict[str, Any]:
    command = found.get("command")
    if not isinstance(command, Mapping):
        return found
    inner = cast("Mapping[str, Any]", command)
    flat = {"command": inner.get("path"), "args": found.get("args") or inner.get("args")}
    env = [it for it in (inner.get("env"), found.get("env")) if it]
    # A value that is not an object stays: the reader of the entry reports it.
    is_usual = all(isinstance(it, Mapping) for it in env)
    flat["env"] = {k: v for it in env for k, v in it.items()} if is_usual else env[-1]
    rest = {key: value for key, value in found.items() if key not in flat}
    return {key: value for key, value in flat.items() if value} | rest


def _one_address(found: dict[str, Any]) -> dict[str, Any]:
    address = found.pop("http_url", None)
    if address is not None:
        found.pop("url", None)
    return found if address is None else {"type": "http", "url": address} | found


def _in_project(text: str, project: Path) -> str:
    def replaced(found: re.Match[str]) -> str:
        named = found[1]
        if named is None:
            return found[0]
        place = str(project) if named == "workspaceFolder" else project.name
        return place.replace("${", "$${")

    return _WORKSPACE.sub(replaced, text)
