"""All that Pegboard keeps on this machine, and how `pegboard uninstall` removes it."""

import json
import os
import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec
import platformdirs

from pegboard.clients import CLIENTS, ClientApp, Machine, connected_file
from pegboard.config.atomic_write import read_file, write_file
from pegboard.config.files.locate import user_config_file
from pegboard.config.made_files import made_files, made_list
from pegboard.config.secrets.kept_secrets import forget_in_keyring, in_keyring, reference_of
from pegboard.errors import ConfigError

__all__ = ["Belongings", "find_belongings", "remove_belongings", "remove_empty_above"]

_TEMPORARY = r"\..+\.[a-z0-9_]{8}\.tmp"
_OURS = re.compile(
    "|".join(
        (
            # On macOS, most of them are in one folder with the configuration.
            r"pegboard\.db(-wal|-shm|-journal|\.recovering.*|\.damaged-[0-9TZ]+(-\d+)?(-wal|-shm|-journal)?)?",
            r"(pegboard\.db|[0-9a-f]+)(\.[0-9a-f]+)?\.search(-words)?(.{1,12}\.new)?",
            r"(pegboard\.db|[0-9a-f]+)\.calls/([0-9a-f-]+\.jsonl|totals\.json|lock)",
            r"secrets/\.keyring",
            r"tokens/(\.?[0-9a-f]{32}\.json(\..{1,12})?|[0-9a-f]{32}\.lock)",
            r"clients/(imports\.json|[a-z-]+(\.json|(\.\d+)?\.backup))",
            r"gateways/(\d+\.json|\.writing-.{8})",
            r"logs/(\.lock|.*[0-9a-f]{12}(\.old)?\.jsonl)",
            r"registry/[0-9a-f]{32}\.json",
            r"catalog-\d+/([0-9a-f]{32}\.json|\.writing-.{8})",
            r"made-files",
            rf"(\w+/|[\w.]+\.calls/)?{_TEMPORARY}",
        )
    )
)
"""The names of the files that Pegboard writes in its folders. Those of the user stay.

`made_files` knows the files whose names the user chooses."""
_KEPT_FILE = re.compile(rb"\$\{file:([^{}]*)\}")


class Belongings(msgspec.Struct, frozen=True, kw_only=True):
    """What Pegboard has on this machine."""

    clients: tuple[tuple[ClientApp, Path], ...]
    """The clients that are connected, and the file of each."""
    config: Path | None
    """The user's own configuration."""
    config_is_made: bool
    """Whether a command of Pegboard made it, and not the user."""
    keyring: tuple[str, ...]
    folders: tuple[Path, ...]
    """The store, secrets, logins, caches and records; on macOS the configuration, too."""
    files: tuple[Path, ...]
    """What Pegboard wrote in these folders, but for the configuration."""
    others: tuple[Path, ...]
    """What the user has in these folders, or links to in their place; it stays."""
    completion: tuple[Path, ...]
    """What `--install-completion` wrote."""

    def __bool__(self) -> bool:
        found = (self.clients, self.config, self.keyring, self.files, self.completion)
        return any(found)


def find_belongings(machine: Machine) -> Belongings:
    """Return what Pegboard has on this machine."""
    files = [(it, connected_file(it, machine)) for it in CLIENTS.values()]
    config = user_config_file()
    kinds = (
        platformdirs.user_data_path,
        platformdirs.user_state_path,
        platformdirs.user_cache_path,
        platformdirs.user_config_path,
    )
    folders = dict.fromkeys(kind("pegboard", appauthor=False) for kind in kinds)
    made = made_files()
    there = [it for folder in folders for it in _all_in(folder)]
    ours = {it: None for it in there if _is_ours(it, folders, made) and it != config}
    home = machine.home
    scripts = (
        home / ".bash_completions" / "pegboard.sh",
        home / ".zfunc" / "_pegboard",
        home / ".config" / "fish" / "completions" / "pegboard.fish",
    )
    return Belongings(
        clients=tuple((client, path) for client, path in files if path is not None),
        config=config if config.exists() else None,
        config_is_made=config in made and not config.parent.is_symlink(),
        keyring=tuple(in_keyring()),
        folders=tuple(it for it in folders if os.path.lexists(it)),
        files=tuple(ours),
        others=tuple(it for it in there if it not in ours and it != config),
        completion=tuple(it for it in scripts if b"_PEGBOARD_COMPLETE" in (_read(it) or b"")),
    )


def remove_belongings(found: Belongings, machine: Machine, *, keeps_config: bool) -> list[str]:
    """Remove everything but the entries of clients, and return what could not be removed.

    Only what Pegboard wrote is removed; `Belongings.others` stays.

    Args:
        found: what there is; its clients are disconnected already.
        machine: whose it is.
        keeps_config: whether the configuration stays, with the secrets that it refers to.
    """
    config = found.config if keeps_config else None
    text = b"" if config is None else read_file(config) or b""
    kept: set[Path] = set()
    if config is not None:
        # The list says later that they were made by Pegboard.
        kept = {config, made_list(), *_files_in(text, config.parent, machine)}
    entries = [it for it in found.keyring if not _is_used(reference_of(it), text)]
    left = [f"the entry {it!r} of the keyring" for it in entries if not forget_in_keyring(it)]
    if left or len(entries) < len(found.keyring):
        # The list of entries is still needed: it lies beside the secrets.
        kept |= {it / "secrets" / ".keyring" for it in found.folders}
    kept = {_true_place(it) for it in kept}
    ours = [
        *found.files,
        *([found.config] if found.config is not None and not keeps_config else []),
    ]
    left += [str(it) for it in ours if _true_place(it) not in kept and not _gone(it)]
    for folder in found.folders:
        _remove_empty(folder)
        remove_empty_above(folder, machine.home)
    for script in found.completion:
        left += [] if _remove_completion(script, machine.home) else [str(script)]
    return left


def _all_in(folder: Path) -> Iterator[Path]:
    """Yield the files and links in a folder; a link in its place is the user's."""
    if folder.is_symlink():
        yield folder
        return
    for place, below, names in os.walk(folder):
        yield from (Path(place, it) for it in names)
        yield from (path for it in below if (path := Path(place, it)).is_symlink())


def _is_ours(path: Path, folders: Collection[Path], made: Collection[Path]) -> bool:
    """Tell whether Pegboard wrote a file."""
    if path.is_symlink():
        return False
    names = (path.relative_to(it).as_posix() for it in folders if path.is_relative_to(it))
    return path in made or any(map(_OURS.fullmatch, names))


def _read(path: Path) -> bytes | None:
    with suppress(OSError, ConfigError):
        return read_file(path)
    return None


def _files_in(text: bytes, folder: Path, machine: Machine) -> Iterator[Path]:
    """Yield the files of secrets that a configuration in a folder refers to."""
    for found in _KEPT_FILE.finditer(text):
        named = os.fsdecode(found[1])
        with suppress(ValueError):
            # As JSON writes it.
            named = json.loads(f'"{named}"')
        for name in (named, named.partition(":-")[0]):
            is_at_home = name.startswith(("~/", "~\\"))
            yield Path(folder, f"{machine.home}{name[1:]}" if is_at_home else name)


def _true_place(path: Path) -> Path:
    """Return a path without links in its folders; however it is written, it is the same."""
    try:
        return Path(os.path.realpath(path.parent), path.name)
    except (OSError, ValueError):
        return path


def _is_used(reference: str, text: bytes) -> bool:
    return bool(reference) and reference.encode() in text


def _remove_empty(folder: Path) -> None:
    """Remove a folder and those in it, as far as they are empty now."""
    if not folder.is_symlink():
        for place, _, _ in os.walk(folder, topdown=False):
            with suppress(OSError):
                Path(place).rmdir()


def _gone(path: Path) -> bool:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return False
    return True


def remove_empty_above(folder: Path, home: Path) -> None:
    """Remove the folders above that are empty now, such as ``~/.local/state``."""
    with suppress(OSError):
        for above in folder.parents:
            if above == home or not above.is_relative_to(home) or folder.exists():
                return
            above.rmdir()


def _remove_completion(script: Path, home: Path) -> bool:
    """Remove a script of completion, and the line that has bash read it."""
    rc = home / ".bashrc"
    if script.suffix == ".sh":
        before = read_file(rc) or b""
        line = f"\nsource '{script}'\n".encode()
        if line in before:
            write_file(rc, before.replace(line, b"", 1), instead_of=before)
    is_gone = _gone(script)
    remove_empty_above(script, home)
    return is_gone
