"""Programs that cannot be started: what is wrong with the command itself."""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from pegboard.config import ServerConfig
from pegboard.doctor.report import Finding, found
from pegboard.upstream.stdio.launch import environment_for

__all__ = ["doubts_about_command", "instead_of", "why_not_started"]

_INSTALL = {
    "npx": "Install Node.js (https://nodejs.org), which brings `npx`",
    "npm": "Install Node.js (https://nodejs.org), which brings `npm`",
    "node": "Install Node.js (https://nodejs.org)",
    "bunx": "Install Bun (https://bun.sh)",
    "bun": "Install Bun (https://bun.sh)",
    "deno": "Install Deno (https://deno.com)",
    "uvx": "Install uv (https://docs.astral.sh/uv), which brings `uvx`",
    "uv": "Install uv (https://docs.astral.sh/uv)",
    "pipx": "Install pipx (https://pipx.pypa.io)",
    "python": "Install Python, or write `python3` where that is its name",
    "python3": "Install Python",
    "docker": "Install Docker (https://docs.docker.com)",
    "podman": "Install Podman (https://podman.io)",
}
_WINDOWS = re.compile(
    r"cmd(?:\.exe)?|powershell(?:\.exe)?|.*\.(?:exe|cmd|bat|ps1)|[a-z]:[\\/].*", re.IGNORECASE
)
_SHELL = re.compile(r"~(?:/.*)?|\$[A-Za-z_]\w*(?:/.*)?|\|\|?|&&|;|[12]?>>?|<")
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "fish", "ksh", "cmd", "powershell", "pwsh"})


def why_not_started(config: ServerConfig) -> Finding | None:
    """Return what keeps a program from being started; ``None`` when it can be. Blocking."""
    try:
        return _wrong_with_program(config)
    except OSError as error:
        # In a folder that this user may not enter, say.
        where = config.redact(error.filename or config.command or "")
        return found(
            "not_executable",
            f"Server {config.name!r} cannot be started: {where!r} cannot be looked at "
            f"({error.strerror}).",
            "Correct the `command` or `cwd` of its entry, or give the user who runs Pegboard the "
            "right to it.",
            server=config.name,
        )


def _wrong_with_program(config: ServerConfig) -> Finding | None:
    name, command = config.name, config.command or ""
    folder = Path(config.cwd) if config.cwd else None
    if folder is not None and not folder.is_dir():
        return found(
            "bad_directory",
            f"The working directory of server {name!r} is not there: {config.redact(str(folder))}.",
            "Create it, or correct the `cwd` of its entry.",
            server=name,
        )
    if os.sep in command:
        return _wrong_with_file(config, (folder or Path()) / command)
    where = shutil.which(command, path=environment_for(config, "")["PATH"])
    return _not_found(config) if where is None else _wrong_with_script(config, Path(where))


def doubts_about_command(config: ServerConfig) -> Iterator[Finding]:
    """Give the arguments that only a shell would understand: there is none in between."""
    if config.transport != "stdio" or Path(config.command or "").stem in _SHELLS:
        return
    for argument in config.args:
        if _SHELL.fullmatch(argument):
            yield found(
                "shell_syntax",
                f"Server {config.name!r} gets the argument `{config.redact(argument)}` as it "
                "stands, because no shell is in between.",
                instead_of(config.redact(argument)),
                server=config.name,
            )


def instead_of(argument: str) -> str:
    """Return what to write instead of what only a shell would understand."""
    if argument.startswith("~"):
        return f"Write `${{userHome}}{argument[1:]}`, which Pegboard replaces."
    if argument.startswith("$"):
        name, slash, rest = argument[1:].partition("/")
        return f"Write `${{{name}}}{slash}{rest}`, which Pegboard replaces."
    return 'Let a shell do it: `"command": "sh", "args": ["-c", "…"]`.'


def _is_of_windows(command: str) -> bool:
    return sys.platform != "win32" and _WINDOWS.fullmatch(command) is not None


def _wrong_with_file(config: ServerConfig, path: Path) -> Finding | None:
    name, shown = config.name, config.redact(str(path))
    if not path.exists():
        if _is_of_windows(config.command or ""):
            return _of_windows(config)
        if (Path(config.cwd or "") / (config.command or "").split()[0]).is_file():
            return _whole_line(config)
        remedy = "Correct the `command` of its entry."
        if not path.is_absolute():
            remedy = (
                "Write the full path: a relative one begins in the folder where Pegboard was "
                f"started, now {str(Path.cwd())!r}. Or set `cwd`."
            )
        what = f"Server {name!r} cannot be started: there is no file {shown!r}."
        return found("command_not_found", what, remedy, server=name)
    if path.is_dir() or not os.access(path, os.X_OK):
        kind = "a folder" if path.is_dir() else "not executable"
        remedy = (
            "Name the program in it as `command`."
            if path.is_dir()
            else f"`chmod +x {shown}`; or make its interpreter the `command`, and the file the "
            "first of `args`."
        )
        what = f"Server {name!r} cannot be started: {shown!r} is {kind}."
        return found("not_executable", what, remedy, server=name)
    return _wrong_with_script(config, path)


def _wrong_with_script(config: ServerConfig, path: Path) -> Finding | None:
    try:
        with path.open("rb") as file:
            start = file.read(256)
    except OSError:
        return None
    if not start.startswith(b"#!"):
        return None
    words = start[2:].partition(b"\n")[0].decode(errors="replace").split()
    if not words:
        return None
    missing = words[0] if not Path(words[0]).exists() else ""
    if not missing and Path(words[0]).name == "env" and len(words) > 1 and "-" not in words[1]:
        is_there = shutil.which(words[1], path=environment_for(config, "")["PATH"])
        missing = "" if is_there else words[1]
    if not missing:
        return None
    install = _INSTALL.get(missing)
    return found(
        "missing_interpreter",
        f"Server {config.name!r} cannot be started: the first line of {config.redact(str(path))!r} "
        f"names {missing!r}, which is not there.",
        f"{install}."
        if install
        else "Install it, or correct that line. An environment that was moved has to be made anew.",
        server=config.name,
    )


def _not_found(config: ServerConfig) -> Finding:
    name, command = config.name, config.command or ""
    if " " in command:
        return _whole_line(config)
    if _is_of_windows(command):
        return _of_windows(config)
    install = _INSTALL.get(command)
    remedy = (
        f"{install}; or give the full path in `command` if it is there: what a desktop program "
        "finds may differ from what your shell finds."
        if install
        else f"Install it, or give the full path in `command`; `which {command}` in your shell "
        "says it."
    )
    what = f"Server {name!r} cannot be started: the command {command!r} was not found."
    return found("command_not_found", what, remedy, server=name)


def _whole_line(config: ServerConfig) -> Finding:
    program, *rest = (config.command or "").split()
    args = ", ".join(f'"{config.redact(it)}"' for it in (*rest, *config.args))
    return found(
        "command_not_found",
        f"Server {config.name!r} cannot be started: its `command` is a whole command line.",
        f'Write `"command": "{config.redact(program)}", "args": [{args}]`.',
        server=config.name,
    )


def _of_windows(config: ServerConfig) -> Finding:
    args = [it for it in config.args if it.lower() not in ("/c", "/k", "/s")]
    stem = re.sub(r"\.(?:exe|cmd|bat)$", "", config.command or "", flags=re.IGNORECASE)
    if stem.lower() == "cmd" and args:
        stem = args[0]
    remedy = "Give the entry a `command` that this system has."
    if stem.isidentifier():
        rest = ", without `/c` and the program in `args`" if stem in config.args else ""
        remedy = f'Write `"command": "{stem}"` on this system{rest}.'
    command = config.redact(config.command or "")
    what = f"Server {config.name!r} cannot be started: the command {command!r} is one of Windows."
    return found("windows_command", what, remedy, server=config.name)
