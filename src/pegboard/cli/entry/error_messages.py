"""Error messages of failed commands, their exit codes, and what to type next."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches

import typer

from pegboard.cli.entry.command_table import COMMANDS
from pegboard.cli.exit_codes import FAILED, MISUSED, NOT_FOUND
from pegboard.cli.terminal.output import complain, warn
from pegboard.errors import (
    ApiKeyNotFoundError,
    ConfigError,
    DirectoryEntryNotFoundError,
    InvalidQueryError,
    PegboardError,
    ServerNotFoundError,
    ToolNotFoundError,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typer.exceptions import TyperException

__all__ = ["explained", "no_such_command", "values_checked"]


_NOT_THERE = (
    ApiKeyNotFoundError,
    DirectoryEntryNotFoundError,
    ServerNotFoundError,
    ToolNotFoundError,
)
# The validation library begins so; the words say nothing to the user.
_PREFIX = ": Value error, "


def no_such_command(given: Sequence[str]) -> int:
    """Say that there is no such command, and suggest a similar one."""
    name = given[0]
    command = next((it for it in given[1:] if it in COMMANDS), None)
    if name.startswith("-") and command is not None:
        complain(f"Options go after the command: `pegboard {command} {name} …`.")
        warn(f"`pegboard {command} --help` lists its options.")
        return MISUSED
    near = get_close_matches(name, COMMANDS, n=1)
    guess = f" Did you mean `pegboard {near[0]}`?" if near else ""
    kind = "option" if name.startswith("-") else "command"
    complain(f"There is no {kind} {name!r}.{guess} `pegboard --help` lists them.")
    return MISUSED


def explained(error: Exception) -> int:
    """Say what went wrong, and return the exit code."""
    if isinstance(error, PegboardError):
        complain(f"{error}{_guess(error)}")
        for note in getattr(error, "__notes__", ()):
            warn(note)
        return _code_of(error)
    from typer import Abort  # noqa: PLC0415 - it may be that typer was not needed yet
    from typer.exceptions import TyperException  # noqa: PLC0415 - the same

    if isinstance(error, TyperException):
        return _misused(error)
    if isinstance(error, Abort):
        warn("Aborted.")
        return FAILED
    complain(f"{type(error).__name__}: {error}")
    warn("This looks like a bug in Pegboard; `--debug` shows where it happened.")
    return FAILED


def _code_of(error: PegboardError) -> int:
    if isinstance(error, InvalidQueryError):
        return MISUSED
    is_missing = isinstance(error, ConfigError) and error.is_missing
    return NOT_FOUND if is_missing or isinstance(error, _NOT_THERE) else FAILED


def _guess(error: PegboardError) -> str:
    if not isinstance(error, ServerNotFoundError):
        return ""
    near = get_close_matches(str(error.name), error.known, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


def _misused(error: "TyperException") -> int:
    from typer import BadParameter  # noqa: PLC0415 - only for this

    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        warn(error.format_message())
    elif isinstance(error, BadParameter) and error.param is None and error.param_hint is None:
        # A command raised it about several values: its message is complete.
        complain(error.message)
    else:
        complain(error.format_message().replace(_PREFIX, ": "))
        if type(error).__name__ == "NoSuchOption" and getattr(context, "info_name", "") == "add":
            warn("Write `--` before a program: `pegboard add NAME -- PROGRAM ARGUMENTS`.")
        if context is not None:
            warn(f"{context.get_usage()}\n`{context.command_path} --help` shows more.")
    return error.exit_code


@contextmanager
def values_checked() -> Generator[None]:
    """Turn a ``ValueError`` about a typed value into a usage error.

    Raises:
        typer.BadParameter: instead of it; the errors of Pegboard stay as they are.
    """
    try:
        yield
    except PegboardError:
        raise
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
