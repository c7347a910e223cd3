"""Shell completion: the script for each shell, and the command that is being typed."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from pegboard.cli.entry.command_table import COMMANDS
from pegboard.cli.exit_codes import DONE, FAILED, MISUSED
from pegboard.cli.terminal.output import complain, say, warn

__all__ = ["SHELLS", "command_on_line", "complete_in_shell"]

SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")
_NAME = "pegboard"


def complete_in_shell(given: Sequence[str]) -> int:
    """Run `--show-completion` or `--install-completion` for the named shell, or the user's own."""
    from typer.completion import (  # noqa: PLC0415 - only for this
        get_completion_script,  # pyright: ignore[reportPrivateImportUsage]
        install,  # pyright: ignore[reportPrivateImportUsage]
    )

    asked = given[1] if len(given) > 1 else PurePath(os.environ.get("SHELL", "")).name
    if asked not in SHELLS:
        told = f"{asked!r} is not one of" if asked else "Pegboard does not know your shell:"
        names = ", ".join(SHELLS)
        complain(f"{told} {names}. Name your shell: `pegboard {given[0]} bash`.")
        return MISUSED
    variable = f"_{_NAME.upper()}_COMPLETE"
    if given[0] == "--show-completion":
        script = get_completion_script(prog_name=_NAME, complete_var=variable, shell=asked)
        say(_without_space(script))
    else:
        try:
            _, path = install(shell=asked, prog_name=_NAME, complete_var=variable)
            if asked == "bash":
                path.write_text(_without_space(path.read_text("utf-8")), "utf-8")
        except OSError as error:
            complain(f"Completion cannot be installed: {error.filename}: {error.strerror}.")
            return FAILED
        warn(f"Completion for {asked} is in {path}. Open a new terminal to use it.")
    sys.stdout.flush()
    return DONE


def _without_space(script: str) -> str:
    """Return a script for bash that adds no space behind `key=`, where a value follows."""
    end = "    return 0\n"
    return script.replace(end, f"    [[ ${{COMPREPLY[0]-}} == *= ]] && compopt -o nospace\n{end}")


def command_on_line(environ: Mapping[str, str]) -> list[str]:
    """Return the command whose options or subcommands the shell completes, if there is one."""
    return [word for word in _words_before(environ) if word in COMMANDS][:1]


def _words_before(environ: Mapping[str, str]) -> list[str]:
    """Return the whole words behind `pegboard`: without the one that is being typed."""
    if "COMP_WORDS" in environ:
        joined = environ["COMP_WORDS"]
        words = joined.split("\n" if "\n" in joined else None)
        behind = environ.get("COMP_CWORD", "")
        return words[1 : int(behind)] if behind.isdecimal() else []
    line = environ.get("_TYPER_COMPLETE_ARGS", "")
    words = line.split()[1:]
    return words if line.endswith(" ") else words[:-1]
