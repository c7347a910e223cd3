"""Upgrade the entry of a server to another version, and keep what it was, to undo that."""

import hashlib
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import platformdirs

from pegboard.config.atomic_write import make_folder, read_file, replace_file
from pegboard.config.files.entry import OriginEntry
from pegboard.directory.input_values import GivenValue, read_back
from pegboard.directory.package_choice import Offer, entry_for
from pegboard.directory.package_commands import pinned_spec
from pegboard.errors import ConfigError, UnsupportedPackageError
from pegboard.model.json_values import object_in

__all__ = ["UpgradeRecord", "UpgradeRecords", "origin_of", "upgraded", "values_of"]

_MADE = ("type", "command", "args", "env", "url", "headers", "registry")
_MOST = 200
_LONGEST = 1_000_000


class UpgradeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One upgrade: the entry before it, and after it."""

    path: str
    server: str
    before: dict[str, Any]
    after: dict[str, Any]
    at: float


class UpgradeRecords:
    """The last upgrade of each server, in files that only their owner can read."""

    def __init__(self, folder: Path | None = None) -> None:
        state = platformdirs.user_state_path("pegboard", appauthor=False)
        self._folder = folder or state / "registry" / "upgrades"

    def keep(
        self, path: Path, server: str, *, before: Mapping[str, Any], after: Mapping[str, Any]
    ) -> None:
        """Keep an upgrade, before it is written.

        Raises:
            ConfigError: when that is not possible.
        """
        record = UpgradeRecord(
            path=str(path), server=server, before=dict(before), after=dict(after), at=time.time()
        )
        try:
            make_folder(self._folder)
            replace_file(self._path(path, server), msgspec.json.encode(record))
        except OSError as error:
            problem = f"The upgrade cannot be noted: {error.strerror}."
            raise ConfigError(problem, path=str(self._folder)) from None
        with suppress(OSError):
            dated = sorted(self._folder.glob("*.json"), key=lambda it: it.stat().st_mtime_ns)
            for old in dated[:-_MOST]:
                old.unlink()

    def last(self, path: Path, server: str) -> UpgradeRecord | None:
        """Return the last upgrade of a server, if it is known and was not undone."""
        try:
            content = read_file(self._path(path, server)) or b""
            return msgspec.json.decode(content[:_LONGEST], type=UpgradeRecord)
        except (ConfigError, msgspec.MsgspecError):
            return None

    def forget(self, path: Path, server: str) -> None:
        """Forget the last upgrade of a server."""
        with suppress(OSError):
            self._path(path, server).unlink()

    def _path(self, path: Path, server: str) -> Path:
        key = hashlib.sha256(f"{path}\n{server}".encode("utf-8", "surrogatepass")).hexdigest()
        return self._folder / f"{key[:32]}.json"


def origin_of(entry: object) -> OriginEntry | None:
    """Return where an entry of the configuration was added from, if it says so."""
    said: object = object_in(entry).get("registry")
    try:
        return None if said is None else msgspec.convert(said, OriginEntry)
    except msgspec.ValidationError:
        return None


def values_of(entry: Mapping[str, Any], origin: OriginEntry) -> dict[str, list[GivenValue]]:
    """Return the values that an entry has, as they are written, to make it anew."""
    found = {
        name: [read_back(it) for it in values] for name, values in (origin.inputs or {}).items()
    }
    for field in ("env", "headers"):
        for name, value in object_in(entry.get(field)).items():
            if isinstance(value, str):
                # As it is: it may have variables that the person wrote.
                found[name] = [GivenValue(value, is_reference=True)]
    return found


def upgraded(
    current: Mapping[str, Any],
    made: Mapping[str, Any],
    *,
    old: Offer | None,
    new: Offer,
) -> dict[str, Any]:
    """Return an entry as the new version wants it, with everything that the person has changed.

    Args:
        current: the entry.
        made: what would be added today.
        old: the offer that the entry was made of, if the registry still knows it.
        new: the offer that ``made`` was made of.
    """
    found = {key: value for key, value in current.items() if key not in _MADE or key in made}
    found |= made
    for field, place in (("env", "command"), ("headers", "url")):
        if isinstance(current.get(field), dict) and place in made:
            gone = _names_of(old) - _names_of(new)
            kept = {name: it for name, it in current[field].items() if name not in gone}
            found[field] = {**kept, **made.get(field, {})}
    if "args" in made and "args" in current:
        found["args"] = _arguments(current, made, old, new)
    return found


def _names_of(offer: Offer | None) -> set[str]:
    """Return the names of the variables and headers of an offer."""
    if offer is None:
        return set()
    variables = offer.package.environment_variables if offer.package is not None else ()
    headers = offer.remote.headers if offer.remote is not None else ()
    return {it.name for it in (*variables, *headers)}


def _arguments(
    current: Mapping[str, Any], made: Mapping[str, Any], old: Offer | None, new: Offer
) -> list[Any]:
    """Return the new arguments; if the person has changed the old ones, only with the version."""
    origin = origin_of(current)
    if old is None or old.package is None or new.package is None or origin is None:
        return made["args"]
    try:
        before = entry_for(old, values_of(current, origin))["args"]
    except UnsupportedPackageError:
        return made["args"]
    if before == current["args"]:
        return made["args"]
    specs = pinned_spec(old.package), pinned_spec(new.package)
    if specs[0] not in current["args"]:
        return made["args"]
    return [specs[1] if it == specs[0] else it for it in current["args"]]
