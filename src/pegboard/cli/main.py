"""Entry point of `pegboard`: import and run the named command, and report its errors."""

import gc
import os
import sys
from collections.abc import Iterable, Sequence

from pegboard.cli.entry.command_table import CHANGING, COMMANDS, front_page, short_page
from pegboard.cli.exit_codes import DONE, FAILED, INTERRUPTED, MISUSED
from pegboard.cli.terminal.broken_pipe import fill_gaps, lost_output

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says, and return the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    given, debug = _without_debug(given)
    is_short = arguments is None and given[:1] != ["serve"]
    if is_short:
        # It ends before there is garbage worth looking for among thousands of tools.
        gc.set_threshold(200_000)
    fill_gaps()
    _let_everything_be_written()
    try:
        code = _run(given)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as error:  # noqa: BLE001 - all of them end in words
        code = _ended(error, debug=debug)
    if code == INTERRUPTED and sys.stderr.isatty():
        # Behind the `^C`, so that the prompt begins a line of its own.
        sys.stderr.write("\n")
    if is_short:
        # Nor is what is left to be looked through before it goes.
        gc.freeze()
    lost = lost_output(sys.stdout)
    code = code if lost is None else _unwritten(lost)
    lost_output(sys.stderr)
    return code


def _ended(error: Exception, *, debug: bool) -> int:
    lost = lost_output(sys.stdout, error) if isinstance(error, OSError) else None
    if lost is not None or isinstance(error, BrokenPipeError):
        return FAILED if lost is None else _unwritten(lost)
    if debug:
        import traceback  # noqa: PLC0415 - only when asked for

        traceback.print_exception(error)
    if "_PEGBOARD_COMPLETE" in os.environ:
        # The user is in the middle of typing a line: a message would land in it.
        return FAILED
    from pegboard.cli.entry.error_messages import explained  # noqa: PLC0415 - most commands end well

    return explained(error)


def _unwritten(lost: OSError) -> int:
    # The reader that closed the pipe has read enough, as `head` does.
    if not isinstance(lost, BrokenPipeError):
        from pegboard.cli.terminal.output import complain  # noqa: PLC0415 - most output can be written

        complain(f"The output cannot be written: {lost.strerror}.")
    return FAILED


def _run(given: list[str]) -> int:
    if "_PEGBOARD_COMPLETE" in os.environ:
        from pegboard.cli.entry.completion_script import command_on_line  # noqa: PLC0415 - only for a shell

        return _typed(given, command_on_line(os.environ))
    if given[:1] == ["help"]:
        given = [*given[1:], "--help"]
    if not given or given[0] in ("--help", "-h"):
        stream, page = (sys.stdout, front_page) if given else (sys.stderr, short_page)
        stream.write(page(bold=stream.isatty() and os.environ.get("TERM") != "dumb"))
        return DONE if given else MISUSED
    if given[0] in ("--version", "-V"):
        from pegboard.version import installed_version  # noqa: PLC0415 - only to say it

        sys.stdout.write(f"pegboard {installed_version()}\n")
        return DONE
    if given[0] in ("--install-completion", "--show-completion"):
        from pegboard.cli.entry.completion_script import complete_in_shell  # noqa: PLC0415 - only for a shell

        return complete_in_shell(given)
    if given[0] == "serve":
        from pegboard.cli.entry.signals import hear_signals_early  # noqa: PLC0415 - it imports signals

        hear_signals_early()
    if given[0] in COMMANDS:
        return _typed(given, given[:1])
    from pegboard.cli.entry.error_messages import no_such_command  # noqa: PLC0415 - most know what they want

    return no_such_command(given)


def _typed(given: list[str], needed: Iterable[str]) -> int:
    ours = given[: given.index("--")] if "--" in given else given
    if not ours or ours[0] not in CHANGING or {"--help", "-h", "--dry-run"} & {*ours}:
        return _commanded(given, needed)
    from pegboard.cli.entry.command_lock import in_turn  # noqa: PLC0415 - most commands change nothing

    with in_turn(given):
        return _commanded(given, needed)


def _commanded(given: list[str], needed: Iterable[str]) -> int:
    # A sixth of a second to import, which `pegboard --help` does without.
    from pegboard.cli.root import root_group  # noqa: PLC0415

    try:
        code = root_group(needed).main(given, prog_name="pegboard", standalone_mode=False)
    except SystemExit as end:
        code = end.code
    return code if isinstance(code, int) else DONE


def _without_debug(given: list[str]) -> tuple[list[str], bool]:
    """Take `--debug` out wherever it stands, but not behind a `--`: that belongs to a server."""
    end = given.index("--") if "--" in given else len(given)
    ours = [it for it in given[:end] if it != "--debug"]
    debug = len(ours) < end or os.environ.get("PEGBOARD_DEBUG", "") not in ("", "0")
    return [*ours, *given[end:]], debug


def _let_everything_be_written() -> None:
    """Let a character that the terminal or pipe does not know be spelled, not be an error."""
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    sys.exit(main())
