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
from pegboard.config.secrets.kept_secrets import forget_in_keyring, in_keyring, reference_of

__all__ = ["Belongings", "find_belongings", "remove_belongings", "remove_empty_above"]

# On macOS, they are in the folder of the configuration.
_OURS = ("pegboard.db", "clients", "gateways", "registry", "secrets", "tokens")
_KEPT_FILE = re.compile(rb"\$\{file:([^{}]*)\}")


class Belongings(msgspec.Struct, frozen=True, kw_only=True):
    """What Pegboard has on this machine."""

    clients: tuple[tuple[ClientApp, Path], ...]
    """The clients that are connected, and the file of each."""
    config: Path | None
    """The user's own configuration."""
    keyring: tuple[str, ...]
    folders: tuple[Path, ...]
    """The store, secrets, logins, caches and records; on macOS the configuration, too."""
    completion: tuple[Path, ...]
    """What `--install-completion` wrote."""

    def __bool__(self) -> bool:
        found = (self.clients, self.config, self.keyring, self.folders, self.completion)
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
    home = machine.home
    scripts = (
        home / ".bash_completions" / "pegboard.sh",
        home / ".zfunc" / "_pegboard",
        home / ".config" / "fish" / "completions" / "pegboard.fish",
    )
    return Belongings(
        clients=tuple((client, path) for client, path in files if path is not None),
        config=config if config.exists() else None,
        keyring=tuple(in_keyring()),
        folders=tuple(it for it in folders if os.path.lexists(it)),
        completion=tuple(it for it in scripts if it.exists()),
    )


def remove_belongings(found: Belongings, machine: Machine, *, keeps_config: bool) -> list[str]:
    """Remove everything but the entries of clients, and return what could not be removed.

    Args:
        found: what there is; its clients are disconnected already.
        machine: whose it is.
        keeps_config: whether the configuration stays, with the secrets that it refers to.
    """
    config = found.config if keeps_config else None
    text = b"" if config is None else read_file(config) or b""
    kept: set[Path] = set()
    if config is not None:
        kept = {config, *_files_in(text, config.parent, machine), *_of_the_user(config.parent)}
    entries = [it for it in found.keyring if not _is_used(reference_of(it), text)]
    left = [f"the entry {it!r} of the keyring" for it in entries if not forget_in_keyring(it)]
    if left or len(entries) < len(found.keyring):
        # The list of entries is still needed: it lies beside the secrets.
        kept |= {it / "secrets" / ".keyring" for it in found.folders}
    kept = {_true_place(it) for it in kept}
    for folder in found.folders:
        left += map(str, _remove_folder(folder, kept))
        remove_empty_above(folder, machine.home)
    for script in found.completion:
        left += [] if _remove_completion(script, machine.home) else [str(script)]
    return left


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


def _of_the_user(folder: Path) -> Iterator[Path]:
    """Yield the files beside a configuration that Pegboard has not made, such as certificates."""
    for top in folder.iterdir():
        if not top.name.startswith(_OURS):
            yield from (Path(at, it) for at, _, names in os.walk(top) for it in names)
            yield top


def _is_used(reference: str, text: bytes) -> bool:
    return bool(reference) and reference.encode() in text


def _remove_folder(folder: Path, kept: Collection[Path]) -> list[Path]:
    """Remove a folder, and return the paths that could not be removed."""
    if folder.is_symlink():
        # Where it leads is not ours, and may hold what is kept.
        target = Path(os.path.realpath(folder))
        is_needed = any(it.is_relative_to(target) and os.path.lexists(it) for it in kept)
        return [] if is_needed or _gone(folder) else [folder]
    left: list[Path] = []
    for place, _, names in os.walk(folder, topdown=False):
        true_place = Path(os.path.realpath(place))
        links = [it.name for it in Path(place).iterdir() if it.is_symlink()]
        ours = [it for it in dict.fromkeys((*names, *links)) if true_place / it not in kept]
        left += [it for it in (Path(place, name) for name in ours) if not _gone(it)]
        with suppress(OSError):
            Path(place).rmdir()
    return left


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
