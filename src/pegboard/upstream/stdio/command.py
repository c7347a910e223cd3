"""The command of a server: where it is, what it sees of our environment, why it cannot start."""

import errno
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from pegboard.config.servers import ServerConfig
from pegboard.errors import ServerUnavailableError
from pegboard.upstream.stdio.orphans import MARK

__all__ = ["SERVING", "cannot_start", "environment_for", "find_command"]

SERVING = "PEGBOARD_SERVING"
"""The environment variable with the files that gateways above a process serve, one on a line."""

_INHERITED = {"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "TMPDIR", "TZ", SERVING}
_INHERITED_FAMILIES = ("LC_", "XDG_")
_WHERE_FROM = {
    "npx": "Install Node.js, which brings it.",
    "npm": "Install Node.js, which brings it.",
    "node": "Install Node.js.",
    "uvx": "Install uv, which brings it.",
    "uv": "Install uv.",
    "python": "Install Python, or try `python3`.",
    "python3": "Install Python.",
    "docker": "Install Docker.",
}
_NOT_A_LINE = "Put the program alone into `command`, and the rest into `args`."
_REFUSALS = {
    errno.EAGAIN: "too many processes run already",
    errno.ENOMEM: "there is not enough memory",
    errno.EMFILE: "this process has too many open files",
    errno.ENFILE: "the system has too many open files",
    errno.E2BIG: "its arguments and environment are too long",
    errno.ENOEXEC: "it is not a program, and names none in its first line",
}


def environment_for(config: ServerConfig, mark: str) -> dict[str, str]:
    """Return what the server sees: harmless variables of ours, its own, and the mark."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if (name in _INHERITED or name.startswith(_INHERITED_FAMILIES))
        and not value.startswith("()")  # A function of a shell, which another shell would run.
    }
    return {"PATH": os.defpath, **inherited, **config.env, MARK: mark}


def find_command(config: ServerConfig, environment: Mapping[str, str]) -> str:
    """Return the full path of the server's command; blocking.

    Raises:
        ServerUnavailableError: when it is missing, or nothing that could be run.
    """
    command, directory = config.command or "", config.cwd
    try:
        if directory is not None and not Path(directory).is_dir():
            what = "is not a directory" if Path(directory).exists() else "does not exist"
            raise cannot_start(config, f"its working directory {directory!r} {what}")
        if os.sep in command:
            return _checked(config, (Path(directory or "") / command).absolute())
        found = shutil.which(command, path=environment["PATH"])
    except (OSError, ValueError) as error:
        if isinstance(error, ServerUnavailableError):
            raise
        raise cannot_start(config, error) from error
    if found is None:
        hint = _WHERE_FROM.get(command, "Check its `command`, or give the full path.")
        if " " in command:
            hint = _NOT_A_LINE
        raise cannot_start(config, f"the command {command!r} was not found", hint=hint)
    return found


def cannot_start(
    config: ServerConfig, why: str | Exception, *, hint: str = ""
) -> ServerUnavailableError:
    """Return the error that says so in words, without secrets."""
    if isinstance(why, OSError):
        why = _REFUSALS.get(why.errno or 0, why)
    reason = config.redact(str(why)).rstrip(".")
    message = f"Server {config.name!r} cannot be started: {reason}. {hint}".rstrip()
    return ServerUnavailableError(message, server=config.name)


def _checked(config: ServerConfig, path: Path) -> str:
    if not path.exists():
        hint = _NOT_A_LINE if " " in (config.command or "") else "Check its `command`."
        raise cannot_start(config, f"there is no file {str(path)!r}", hint=hint)
    if path.is_dir() or not os.access(path, os.X_OK):
        raise cannot_start(config, f"{str(path)!r} is not an executable file")
    return str(path)
