"""Keep secrets outside of the configuration: in the OS keyring, or in a private file."""

import importlib
import os
import re
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from platformdirs import user_data_path

from pegboard.config.atomic_write import make_folder, read_file, remove_leftovers, write_file
from pegboard.config.made_files import note_made
from pegboard.errors import ConfigError
from pegboard.errors.extras import install_extra

__all__ = [
    "LARGEST_SECRET",
    "Keep",
    "KeptSecret",
    "KeptTogether",
    "forget_in_keyring",
    "in_keyring",
    "keep_secret",
    "note_in_keyring",
    "read_keyring",
    "read_secret_file",
    "reference_of",
]

SERVICE = "pegboard"
_PREFIX = "secret:"
LARGEST_SECRET = 65_536
"""Bytes: a longer text is not moved out of the configuration."""
_LONGEST_NAME = 100
# No secret has such a name: see `_plain_name`.
_NOTED = ".keyring"
# Keyring backends below this priority store nothing, or store it in plain text.
_LEAST_PRIORITY = 1


class KeptSecret(NamedTuple):
    """Where a secret is kept, and the reference to write in its place."""

    where: Literal["keyring", "file"]
    reference: str
    """``${keyring:NAME}`` or ``${file:PATH}``."""


Keep = Callable[[str, str], KeptSecret]
"""Keeps a secret under a name, as `keep_secret` does."""
_KeptAndUndo = tuple[KeptSecret, Callable[[], object] | None]


def keep_secret(name: str, value: str) -> KeptSecret:
    """Keep a secret in the keyring if one works, otherwise in a file that only its owner can read.

    If another secret has the name, a number is added to it.

    Raises:
        ConfigError: when neither is possible, or the secret is too long.
    """
    return _keep(name, value)[0]


class KeptTogether:
    """Keeps secrets as `keep_secret` does, and removes them if the block raises.

    Use ``with KeptTogether(path) as keep:`` around the code that writes the references.

    Args:
        path: the file that the references are written to. A secret that the file refers to is not
            removed: the interruption may come just after the file was written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._undo: dict[str, Callable[[], object]] = {}

    def __enter__(self) -> Self:
        remove_leftovers(_folder())
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            return
        try:
            written = read_file(self._path) or b""
        except ConfigError:
            # The file may refer to the secrets.
            return
        for reference, undo in self._undo.items():
            # Each backend has errors of its own, and this one must not hide the first.
            with suppress(Exception):
                if reference.encode() not in written:
                    undo()

    def __call__(self, name: str, value: str) -> KeptSecret:
        """Keep a secret.

        Raises:
            ConfigError: when that is not possible, or the secret is too long.
        """
        kept, undo = _keep(name, value)
        if undo is not None:
            self._undo[kept.reference] = undo
        return kept


def _keep(name: str, value: str) -> _KeptAndUndo:
    """Keep a secret, and return how to undo that, unless it was there before."""
    if len(value.encode("utf-8", "surrogatepass")) >= LARGEST_SECRET:
        raise ConfigError("A secret is too long to be moved out of the file (64 KiB or more).")
    name = _plain_name(name)
    keyring = _working_keyring()
    if keyring is not None:
        kept = _kept_in_keyring(keyring, name, value)
        if kept is not None:
            return kept
    return _kept_in_file(name, value)


def read_keyring(name: str) -> str | None:
    """Return the secret that the keyring has under a name, or ``None``.

    Raises:
        ConfigError: when there is no keyring, or it cannot be opened.
    """
    try:
        keyring = importlib.import_module("keyring")
    except ImportError:
        raise ConfigError(
            "A secret is in the keyring, which needs the extra `pegboard[keyring]`: run "
            f"`{install_extra('keyring')}`."
        ) from None
    try:
        return keyring.get_password(SERVICE, _PREFIX + name)
    except Exception as error:  # noqa: BLE001 - each backend has errors of its own
        kind = type(error).__name__
    raise ConfigError(f"The keyring of this machine cannot be opened ({kind}). Unlock it.")


def read_secret_file(path: Path) -> str | None:
    """Return the text of a file without its last line break, or ``None`` if there is no file.

    Raises:
        ConfigError: when the file cannot be read, is too long, or is not text.
    """
    content = read_file(path)
    if content is None:
        return None
    try:
        text = content[: LARGEST_SECRET + 1].decode("utf-8-sig")
    except UnicodeDecodeError:
        text = None
    if text is None or len(content) > LARGEST_SECRET:
        raise ConfigError("The file of a secret must be a short UTF-8 text.", path=str(path))
    return re.sub(r"\r?\n\Z", "", text)


def note_in_keyring(entry: str) -> None:
    """Write down that the keyring has an entry of ours: no keyring lists its entries.

    Raises:
        OSError: when that cannot be written.
    """
    if entry in in_keyring():
        return
    make_folder(_folder())
    handle = os.open(_folder() / _NOTED, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(handle, "a", encoding="utf-8") as file:
        file.write(f"{entry}\n")


def in_keyring() -> list[str]:
    """Return our entries in the keyring, as far as they were written down."""
    with suppress(OSError, UnicodeDecodeError):
        lines = (_folder() / _NOTED).read_text("utf-8").splitlines()
        return list(dict.fromkeys(it for it in lines if it))
    return []


def reference_of(entry: str) -> str:
    """Return what a configuration writes for an entry of the keyring; empty for a login."""
    is_secret = entry.startswith(_PREFIX)
    return f"${{keyring:{entry.removeprefix(_PREFIX)}}}" if is_secret else ""


def forget_in_keyring(entry: str) -> bool:
    """Remove an entry of ours from the keyring, and tell whether it is gone."""
    try:
        keyring = importlib.import_module("keyring")
        if keyring.get_password(SERVICE, entry) is not None:
            keyring.delete_password(SERVICE, entry)
    except Exception:  # noqa: BLE001 - each backend has errors of its own
        return False
    return True


def _working_keyring() -> Any:
    try:
        keyring = importlib.import_module("keyring")
        works = keyring.get_keyring().priority >= _LEAST_PRIORITY
    except Exception:  # noqa: BLE001 - no extra, no backend, no session: then there is the file
        return None
    return keyring if works else None


def _kept_in_keyring(keyring: Any, name: str, value: str) -> _KeptAndUndo | None:
    try:
        free = _free_name(name, value, lambda it: keyring.get_password(SERVICE, _PREFIX + it))
        is_new = keyring.get_password(SERVICE, _PREFIX + free) is None
        if is_new:
            note_in_keyring(_PREFIX + free)
        keyring.set_password(SERVICE, _PREFIX + free, value)
        is_kept = keyring.get_password(SERVICE, _PREFIX + free) == value
    except Exception:  # noqa: BLE001 - locked, refused or broken: then there is the file
        return None
    if not is_kept:
        return None
    kept = KeptSecret("keyring", f"${{keyring:{free}}}")
    return kept, (lambda: keyring.delete_password(SERVICE, _PREFIX + free)) if is_new else None


def _kept_in_file(name: str, value: str) -> _KeptAndUndo:
    folder = _folder()
    free = _free_name(name, value, lambda it: read_secret_file(folder / it))
    path = folder / free
    before = read_file(path)
    if before is None:
        content = value.encode("utf-8", "surrogatepass") + b"\n"
        note_made(path)
        # For many secrets, tidying the folder each time would take longer than writing.
        write_file(path, content, instead_of=None, tidies=False)
    if os.name == "posix":
        folder.chmod(0o700)
        path.chmod(0o600)
    return KeptSecret(
        "file", f"${{file:{_from_home(path)}}}"
    ), path.unlink if before is None else None


def _folder() -> Path:
    return user_data_path(SERVICE, appauthor=False) / "secrets"


def _plain_name(name: str) -> str:
    """Return a name that a file can have; what differs in what is left out differs in a hash."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("._-") or "secret"
    if name.isascii() and len(plain) <= _LONGEST_NAME:
        return plain
    told = zlib.crc32(name.encode("utf-8", "surrogatepass"))
    return f"{plain[:_LONGEST_NAME]}.{told:08x}"


def _free_name(name: str, value: str, there: Callable[[str], str | None]) -> str:
    free, number = name, 1
    while there(free) not in (None, value):
        number += 1
        free = f"{name}.{number}"
    return free


def _from_home(path: Path) -> str:
    try:
        return f"~/{path.relative_to(Path.home()).as_posix()}"
    except (ValueError, RuntimeError):
        return str(path)
