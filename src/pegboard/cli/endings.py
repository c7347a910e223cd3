"""How a command ends that did not do what it was to do: in words, with what to type next."""

from difflib import get_close_matches

from pegboard.cli.commands import COMMANDS
from pegboard.cli.exit_codes import FAILED, MISUSED
from pegboard.cli.output import complain, warn
from pegboard.errors import PegboardError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typer.exceptions import TyperException

__all__ = ["explained", "no_such_command"]

# How the library that checks values begins; it says nothing to whoever typed one.
_PREFIX = ": Value error, "


def no_such_command(name: str) -> int:
    """Say that there is no such command, and which one may be meant."""
    near = get_close_matches(name, COMMANDS, n=1)
    guess = f" Did you mean `pegboard {near[0]}`?" if near else ""
    kind = "option" if name.startswith("-") else "command"
    complain(f"There is no {kind} {name!r}.{guess} `pegboard --help` lists them.")
    return MISUSED


def explained(error: Exception) -> int:
    """Say what went wrong, and return the exit code."""
    if isinstance(error, PegboardError):
        complain(str(error))
        return FAILED
    from typer import Abort  # noqa: PLC0415 - it may be that typer was not needed yet
    from typer.exceptions import TyperException  # noqa: PLC0415 - the same

    if isinstance(error, TyperException):
        return _misused(error)
    if isinstance(error, Abort):
        warn("Nothing more is done.")
        return FAILED
    complain(f"{type(error).__name__}: {error}")
    warn("This looks like a mistake of Pegboard itself; `--debug` shows where it happened.")
    return FAILED


def _misused(error: "TyperException") -> int:
    from typer import BadParameter  # noqa: PLC0415 - only for this

    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        warn(error.format_message())
    elif isinstance(error, BadParameter) and error.param is None and error.param_hint is None:
        # Raised by a command about values that belong together: its words say it all.
        complain(error.message)
    else:
        complain(error.format_message().replace(_PREFIX, ": "))
        if context is not None:
            warn(f"{context.get_usage()}\n`{context.command_path} --help` says more.")
    return error.exit_code
