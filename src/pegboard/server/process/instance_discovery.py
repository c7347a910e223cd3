"""Instance discovery: how the commands of a user find the gateways running on this machine."""

import os
import socket
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import platformdirs

from pegboard.config.atomic_write import make_folder
from pegboard.storage.open_store import path_of, scheme_of, without_password

__all__ = [
    "RunningInstance",
    "has_others",
    "identity_of",
    "place_of_store",
    "publish",
    "running_instances",
    "withdraw",
]

# Opening a named pipe would block for ever.
_FLAGS: int = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_LONGEST = 100_000
_LARGEST_PID = 2**31
_ENDED = ("Z", "X")
"""States of processes that have ended, but that their parent has not reaped yet."""


class RunningInstance(msgspec.Struct, frozen=True, kw_only=True):
    """A running gateway: its address, what it serves, and the token of its owner."""

    pid: int
    started: str
    """When the process began, as the system says it: another process may get the same pid."""
    machine: str
    """The host name: several machines may share a home directory."""
    address: str
    config: str | None
    """The file with its servers; ``None`` if it has none."""
    store: str | None
    """As `place_of_store` names it."""
    token: str

    def __repr__(self) -> str:
        return f"<RunningInstance {self.pid} at {self.address}>"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        # Without this, Rich shows every field.
        return [("pid", self.pid), ("address", self.address)]


def identity_of(pid: int) -> tuple[str, str]:
    """Return the machine and the start of a process, which identify it together with its pid."""
    return socket.gethostname(), _beginning(pid) or ""


def place_of_store(url: str) -> str:
    """Return the absolute name of a store, without its password."""
    try:
        is_file = scheme_of(url) in ("json", "sqlite")
    except ValueError:
        return without_password(url)
    return str(path_of(url).resolve()) if is_file else without_password(url)


def publish(instance: RunningInstance) -> Path:
    """Write an instance to a file that only its user can read, and return the path.

    Raises:
        OSError: when the file cannot be written.
    """
    folder = _folder()
    make_folder(folder)
    # Made with the mode 0600.
    handle, name = tempfile.mkstemp(dir=folder, prefix=".writing-")
    path = folder / f"{instance.pid}.json"
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.encode(instance))
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return path


def withdraw(path: Path) -> None:
    """Remove the file of an instance."""
    with suppress(OSError):
        path.unlink()


def running_instances() -> Iterator[RunningInstance]:
    """Yield the running gateways, the latest first; files of dead processes are removed."""
    with suppress(OSError):
        for path in sorted(_folder().glob("*.json"), key=_age):
            announced = _read(path)
            if announced is None or announced.machine != socket.gethostname():
                continue
            if _beginning(announced.pid) == announced.started:
                yield announced
            else:
                withdraw(path)


def has_others(url: str) -> bool:
    """Tell whether other gateways of this user run here with the same store."""
    place = place_of_store(url)
    return any(it.store == place and it.pid != os.getpid() for it in running_instances())


def _folder() -> Path:
    return Path(platformdirs.user_state_dir("pegboard", appauthor=False)) / "gateways"


def _age(path: Path) -> float:
    try:
        return -path.stat().st_mtime
    except OSError:
        return 0.0


def _read(path: Path) -> RunningInstance | None:
    try:
        descriptor = os.open(path, _FLAGS)
        with os.fdopen(descriptor, "rb") as file:
            # Another user who could write it could redirect the arguments of the owner's calls.
            if not _is_own(os.fstat(file.fileno())):
                return None
            announced = msgspec.json.decode(file.read(_LONGEST), type=RunningInstance)
    except (OSError, ValueError, RecursionError):
        return None
    return announced if _is_sound(announced) else None


def _is_sound(announced: RunningInstance) -> bool:
    try:
        place = urlsplit(announced.address)
        is_place = place.scheme in ("http", "https") and bool(place.hostname) and bool(place.port)
    except ValueError:
        return False
    return is_place and 0 < announced.pid < _LARGEST_PID


def _is_own(found: os.stat_result) -> bool:
    if not stat.S_ISREG(found.st_mode):
        return False
    if sys.platform == "win32":
        return True
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IRWXG | stat.S_IRWXO)


def _beginning(pid: int) -> str | None:
    """Return when a process began, empty if the system does not tell; ``None`` if it is gone."""
    if sys.platform == "win32":
        # `os.kill` would end it there; the first request shows whether it still listens.
        return ""
    with suppress(OSError, IndexError):
        told = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        # The name of the program, in brackets, may hold anything.
        fields = told.rpartition(")")[2].split()
        return None if fields[0] in _ENDED else fields[19]
    try:
        os.kill(pid, 0)
    except PermissionError:
        return ""
    except OSError:
        return None
    return ""
