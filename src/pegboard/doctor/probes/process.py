"""Explain why a server's process failed: its command, its exit, its silence, or what it printed."""

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from pegboard.config import ServerConfig
from pegboard.doctor.probes.last_words import decisive_line
from pegboard.doctor.probes.probe import Probe
from pegboard.doctor.probes.stderr import meaning_of
from pegboard.doctor.report import Finding, found, shown
from pegboard.errors import ServerUnavailableError
from pegboard.upstream.stdio.environment import environment_for

__all__ = ["noise_of", "shell_syntax_in", "why_process_failed"]

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
    "python": "Install Python, or write `python3` if that is its name here",
    "python3": "Install Python",
    "docker": "Install Docker (https://docs.docker.com)",
    "podman": "Install Podman (https://podman.io)",
}
_WINDOWS = re.compile(
    r"cmd(?:\.exe)?|powershell(?:\.exe)?|.*\.(?:exe|cmd|bat|ps1)|[a-z]:[\\/].*", re.IGNORECASE
)
_SHELL = re.compile(r"~(?:/.*)?|\$[A-Za-z_]\w*(?:/.*)?|\|\|?|&&|;|[12]?>>?|<")
_SHELLS = frozenset({"sh", "bash", "zsh", "dash", "fish", "ksh", "cmd", "powershell", "pwsh"})
_SERVES = re.compile(
    r"\b(?:listening|running|serving|started|available|ready)\b.{0,60}?"
    r"(https?://[\w.\-\[\]:]+\d(?:/[\w./\-]*)?|\bport:? \d+)",
    re.IGNORECASE,
)
_DOWNLOADS = frozenset({"npx", "uvx", "bunx", "uv", "pipx", "docker"})


def why_process_failed(probe: Probe) -> Finding | None:
    """Return why the process of a server failed; ``None`` when it did not fail. Blocking.

    A process that answers with an error did not fail.
    """
    config = probe.config
    ended = probe.lost_because
    if probe.error is None and probe.limit is None:
        return None
    if probe.phase == "starting" and ended is None and probe.limit is None:
        return _why_not_startable(config) or _cannot_start(probe)
    if ended is None:
        return _why_silent(probe) if probe.phase == "starting" and probe.limit else None
    if ended.startswith("does not speak MCP"):
        return _serves_http(probe) or _not_mcp(probe)
    if probe.phase == "listing":
        return None
    told = _why_not_startable(config) or _took_tilde(probe) or meaning_of(probe.words, config)
    return told or _exited(probe)


def noise_of(probe: Probe) -> Finding | None:
    """Return a finding if a working server prints text that is not an MCP message."""
    if not probe.printed or probe.phase == "starting":
        return None
    name = probe.config.name
    return found(
        "stdout_noise",
        f"Server {name!r} prints text to standard output that is not an MCP message: "
        f"{shown(probe.printed[0])!r}.",
        "Make the server write it to standard error, or switch off its banner or log. Pegboard "
        "skips such text, but other clients may give up.",
        server=name,
    )


def shell_syntax_in(config: ServerConfig) -> Iterator[Finding]:
    """Yield the arguments that only a shell would understand: Pegboard starts no shell."""
    if config.transport != "stdio" or Path(config.command or "").stem in _SHELLS:
        return
    for argument in config.args:
        if _SHELL.fullmatch(argument):
            yield found(
                "shell_syntax",
                f"Server {config.name!r} receives the argument `{config.redact(argument)}` "
                "unchanged, because Pegboard starts it without a shell.",
                _instead_of(config.redact(argument)),
                server=config.name,
            )


def _why_not_startable(config: ServerConfig) -> Finding | None:
    """Return why a program cannot be started; ``None`` when it can. Blocking."""
    try:
        return _wrong_with_program(config)
    except OSError as error:
        # For example, it is in a folder that this user may not enter.
        where = config.redact(error.filename or config.command or "")
        return found(
            "not_executable",
            f"Server {config.name!r} cannot be started: {where!r} cannot be accessed "
            f"({error.strerror}).",
            "Correct the `command` or `cwd` of its entry, or give the user who runs Pegboard "
            "permission for it.",
            server=config.name,
        )


def _wrong_with_program(config: ServerConfig) -> Finding | None:
    name, command = config.name, config.command or ""
    folder = Path(config.cwd) if config.cwd else None
    if folder is not None and not folder.is_dir():
        return found(
            "bad_directory",
            f"The working directory of server {name!r} does not exist: "
            f"{config.redact(str(folder))}.",
            "Create it, or correct the `cwd` of its entry.",
            server=name,
        )
    if os.sep in command:
        return _wrong_with_file(config, (folder or Path()) / command)
    where = shutil.which(command, path=environment_for(config, "")["PATH"])
    return _not_found(config) if where is None else _wrong_with_script(config, Path(where))


def _is_of_windows(command: str) -> bool:
    return sys.platform != "win32" and _WINDOWS.fullmatch(command) is not None


def _wrong_with_file(config: ServerConfig, path: Path) -> Finding | None:
    name, place = config.name, config.redact(str(path))
    if not path.exists():
        if _is_of_windows(config.command or ""):
            return _of_windows(config)
        if (Path(config.cwd or "") / (config.command or "").split()[0]).is_file():
            return _whole_line(config)
        remedy = "Correct the `command` of its entry."
        if not path.is_absolute():
            remedy = (
                "Write the full path, or set `cwd`: a relative path starts at the folder where "
                f"Pegboard was started, now {str(Path.cwd())!r}."
            )
        what = f"Server {name!r} cannot be started: the file {place!r} does not exist."
        return found("command_not_found", what, remedy, server=name)
    if path.is_dir() or not os.access(path, os.X_OK):
        kind = "a folder" if path.is_dir() else "not executable"
        remedy = (
            "Give the path of the program in that folder as `command`."
            if path.is_dir()
            else f"Run `chmod +x {place}`, or make its interpreter the `command` and the file the "
            "first of `args`."
        )
        what = f"Server {name!r} cannot be started: {place!r} is {kind}."
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
        f"names {missing!r}, which does not exist.",
        f"{install}."
        if install
        else "Install it, or correct that line. An environment that was moved must be recreated.",
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
        f"{install}. If it is installed, give its full path in `command`: a desktop program "
        "searches fewer folders than your shell."
        if install
        else f"Install it, or give the full path in `command`; `which {command}` in your shell "
        "prints the path."
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
        rest = ", and remove `/c` and the program from `args`" if stem in config.args else ""
        remedy = f'Write `"command": "{stem}"` on this system{rest}.'
    command = config.redact(config.command or "")
    what = f"Server {config.name!r} cannot be started: the command {command!r} is for Windows."
    return found("windows_command", what, remedy, server=config.name)


def _instead_of(argument: str) -> str:
    """Return what to write instead of an argument that only a shell would understand."""
    if argument.startswith("~"):
        return f"Write `${{userHome}}{argument[1:]}`, which Pegboard replaces."
    if argument.startswith("$"):
        name, slash, rest = argument[1:].partition("/")
        return f"Write `${{{name}}}{slash}{rest}`, which Pegboard replaces."
    return 'Start it with a shell: `"command": "sh", "args": ["-c", "…"]`.'


def _cannot_start(probe: Probe) -> Finding | None:
    if not isinstance(probe.error, ServerUnavailableError):
        return None
    what, _, remedy = str(probe.error).partition(". ")
    return found(
        "not_executable",
        f"{shown(what).rstrip('.')}.",
        remedy or f"Try to start it by hand: `{probe.config.target}`.",
        server=probe.config.name,
    )


def _why_silent(probe: Probe) -> Finding:
    config, name = probe.config, probe.config.name
    serves = _serves_http(probe)
    if serves is not None:
        return serves
    if probe.printed:
        return _not_mcp(probe)
    told = meaning_of(probe.words, config)
    if told is not None:
        return told
    last = decisive_line(probe.said)
    said = f" Its output says: {shown(last)}." if last else ""
    remedy = (
        f"Start it by hand (`{config.target}`) to check whether it runs. If it needs more time, "
        f'write `"timeouts": {{"connect": {round(4 * (probe.limit or 30))}}}` into its entry.'
    )
    if config.command in _DOWNLOADS:
        remedy = (
            f"Run `{config.target}` once by hand: the first start may download the server. "
            f'If it always needs this long, write `"timeouts": {{"connect": '
            f"{round(4 * (probe.limit or 30))}}}` into its entry."
        )
    what = f"Server {name!r} did not answer within {probe.limit:g} s.{said}"
    return found("no_answer", what, remedy, server=name)


def _serves_http(probe: Probe) -> Finding | None:
    told = _SERVES.search(probe.words)
    if told is None:
        return None
    name, place = probe.config.name, told[1]
    url = place if place.startswith("http") else "http://127.0.0.1:" + place.rpartition(" ")[2]
    return found(
        "serves_http",
        f"Server {name!r} serves HTTP ({shown(place)}) instead of using standard input and output.",
        "Start it with its option for stdio (often `--stdio` or `--transport stdio`), or run it "
        f'yourself and write `"url": "{shown(url)}"` instead of `command`.',
        server=name,
    )


def _not_mcp(probe: Probe) -> Finding:
    name = probe.config.name
    printed = shown(probe.printed[0]) if probe.printed else "nothing"
    return found(
        "not_mcp",
        f"Server {name!r} does not speak MCP: it printed {printed!r}.",
        "Check that `command` and `args` start the server itself in its stdio mode, without a "
        "program such as `npm run` that prints text of its own.",
        server=name,
    )


def _took_tilde(probe: Probe) -> Finding | None:
    """Return a finding if a program failed on a path with `~`, which only shells know."""
    config = probe.config
    for argument in config.args:
        if argument.startswith("~/") and argument in probe.words:
            return found(
                "exited",
                f"Server {config.name!r} exited before it answered: it received the argument "
                f"`{shown(argument)}` unchanged, because no shell replaces `~`.",
                _instead_of(shown(argument)),
                server=config.name,
            )
    return None


def _exited(probe: Probe) -> Finding:
    name = probe.config.name
    how = (probe.lost_because or "").partition(";")[0].partition(",")[0]
    last = decisive_line(probe.words.splitlines())
    said = f"; its output says: {shown(last).rstrip('.')}" if last else ", without output"
    return found(
        "exited",
        f"Server {name!r} {how} before it answered{said}.",
        f"{_by_hand(probe.config)} by hand to see more.",
        server=name,
    )


def _by_hand(config: ServerConfig) -> str:
    """Return what to start: the command line, unless part of it is hidden or cut."""
    line = shlex.join((config.command or "", *config.args))
    return f"Start `{line}`" if line == config.target else "Start its `command` with its `args`"
