"""Check the configuration file: bad entries, plain secrets, file mode, duplicate servers."""

import re
import stat
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

import msgspec

from pegboard.config import LoadedConfig, Problem, ProblemKind, ServerConfig
from pegboard.doctor.probes.process import shell_syntax_in
from pegboard.doctor.report import Finding, found
from pegboard.errors import ConfigError

__all__ = ["check_configuration", "check_file_mode", "unreadable"]

_CODES: dict[ProblemKind, str] = {
    "entry": "bad_entry",
    "variable": "unset_variable",
    "unknown_field": "unknown_field",
    "plain_secret": "plain_secret",
    "doubt": "doubtful_entry",
    "not_allowed": "not_allowed",
}
_REMEDIES = {
    "bad_entry": "Correct the entry; `pegboard config check` shows the line.",
    "unset_variable": "Write its name in braces, `${NAME}`, and set it where you start Pegboard.",
    "unknown_field": "Remove the field, or correct its spelling.",
    "doubtful_entry": "Correct the entry, or remove the field.",
    "not_allowed": "Remove the entry, or ask the person who keeps `registry.allow` and `deny`.",
}
# Splits a message into its first sentence, which is the problem, and the rest, which is the remedy.
_SENTENCE = re.compile(r"(?<=[.?!]) (?=[A-Z])")
_FOR_OTHERS = stat.S_IRGRP | stat.S_IROTH


def unreadable(error: ConfigError) -> Finding:
    """Return the finding for a file that cannot be used as a whole."""
    place = ":".join(str(it) for it in (error.path, error.line, error.column) if it is not None)
    remedy = "Correct the file; `pegboard config check` checks it again."
    if error.is_missing:
        remedy = "Check the path; `pegboard config path` shows where Pegboard searches for files."
    what, remedy = _in_two(error.problem, remedy)
    finding = found("no_configuration" if error.is_missing else "config_unreadable", what, remedy)
    return msgspec.structs.replace(finding, place=place or None)


def check_configuration(
    loaded: LoadedConfig, chosen: Iterable[ServerConfig], names: Collection[str] = ()
) -> list[Finding]:
    """Return what is wrong with a file that was read, and with the chosen servers.

    Args:
        loaded: the file.
        chosen: the servers to check.
        names: report only the problems of these entries; by default, those of all.
    """
    servers = list(chosen)
    findings = [
        _of_problem(problem, loaded.path)
        for problem in loaded.problems
        if not names or problem.server is None or problem.server in names
    ]
    findings += _duplicate_entries(servers)
    for config in servers:
        if config.enabled:
            findings += shell_syntax_in(config)
        elif config.name in names:
            # The user asks about it; otherwise, it is off on purpose.
            findings.append(_disabled(config))
    return findings


def check_file_mode(loaded: LoadedConfig) -> list[Finding]:
    """Return a finding if other users can read the secrets in the file. Blocking."""
    path = loaded.path
    secrets = [it for it in loaded.problems if it.kind == "plain_secret"]
    if path is None or not secrets or sys.platform == "win32":
        return []
    try:
        mode = path.stat().st_mode
    except OSError:
        return []
    if not mode & _FOR_OTHERS:
        return []
    finding = found(
        "readable_by_others",
        f"Other users of this machine can read the secrets in {str(path)!r} "
        f"(mode {stat.S_IMODE(mode):o}).",
        f"Run `chmod 600 {path}`, and move the secrets into environment variables.",
    )
    return [msgspec.structs.replace(finding, place=str(path))]


def _of_problem(problem: Problem, path: Path | None) -> Finding:
    code = _CODES[problem.kind]
    what, remedy = _in_two(problem.message, _REMEDIES.get(code, ""))
    place = ":".join(str(it) for it in (path, problem.line, problem.column) if it is not None)
    finding = found(code, what, remedy, server=problem.server)
    # A problem that makes an entry unusable is an error, whatever its kind; in a disabled entry it
    # is a warning.
    severity = "error" if problem.severity == "error" else "warning"
    return msgspec.structs.replace(finding, severity=severity, place=place or None)


def _in_two(message: str, remedy: str) -> tuple[str, str]:
    parts = _SENTENCE.split(message, maxsplit=1)
    return (parts[0], parts[1]) if len(parts) > 1 else (message, remedy)


def _disabled(config: ServerConfig) -> Finding:
    return found(
        "disabled",
        f"Server {config.name!r} is switched off in the configuration, so it was not started.",
        f"Run `pegboard enable {config.name}` to switch it on.",
        server=config.name,
    )


def _duplicate_entries(servers: list[ServerConfig]) -> Iterator[Finding]:
    alike: defaultdict[object, list[ServerConfig]] = defaultdict(list)
    for config in servers:
        if config.enabled:
            who = (config.transport, config.command, config.args, config.cwd, config.url)
            with_what = tuple(sorted((*config.env.items(), *config.headers.items())))
            alike[who, with_what, config.bearer_token, config.tls].append(config)
    for first, *others in alike.values():
        for other in others:
            yield found(
                "same_server_twice",
                f"The entries {first.name!r} and {other.name!r} are the same server.",
                f"Run `pegboard remove {other.name}`; otherwise the same tools cost tokens twice.",
                server=other.name,
            )
