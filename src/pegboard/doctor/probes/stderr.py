"""Capture a server's standard error, and explain from its last lines why the program ended."""

import logging
import os
import re
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pegboard.config import ServerConfig
from pegboard.doctor.probes.last_words import UNTRUSTED
from pegboard.doctor.probes.python_packages import how_to_install
from pegboard.doctor.probes.self_reference import remedy_for_itself
from pegboard.doctor.report import Finding, found, shown

__all__ = ["CapturedStderr", "capture_stderr", "meaning_of"]

_LACK = (
    r"(?i:required|missing|not set|must be set|must be provided|undefined|not defined|not provided"
    r"|not found|is empty|please (?:set|provide)|unset|invalid)"
)
_NAME = r"\b(?!ERR_)[A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9]\b"
_VARIABLE = re.compile(_NAME)


class _MatchedLine(NamedTuple):
    """A line of output that a rule matched."""

    config: ServerConfig
    line: str
    match: re.Match[str]
    words: str

    @property
    def named(self) -> str:
        return next((it for it in self.match.groups() if it), "")


class _Rule(NamedTuple):
    code: str
    pattern: re.Pattern[str]
    what: str
    """The problem, as a phrase that follows the name of the server."""
    remedy: str | Callable[[_MatchedLine], str]
    unless: re.Pattern[str] | None = None
    """The rule is skipped if this matches anywhere in the output."""


def meaning_of(words: str, config: ServerConfig) -> Finding | None:
    """Return what the last output of a program means; ``None`` when no rule matches."""
    lines = words.splitlines()
    for rule in _RULES:
        if rule.unless is not None and rule.unless.search(words):
            continue
        for line in reversed(lines):
            match = rule.pattern.search(line)
            if match is not None:
                matched = _MatchedLine(config, line, match, words)
                what = f"Server {config.name!r} {rule.what}: {shown(line)}"
                remedy = rule.remedy if isinstance(rule.remedy, str) else rule.remedy(matched)
                return found(rule.code, _stop(what), remedy, server=config.name)
    return None


def _stop(text: str) -> str:
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _missing_module(matched: _MatchedLine) -> str:
    module, config = matched.named, matched.config
    if re.search(r"\b(?:npm|node|node_modules)\b|Cannot find (?:module|package)", matched.words):
        if module.startswith((".", "/")):
            return "Correct the path in `args`, or build the server first (`npm run build`)."
        return f"Run `npm install {module}` in the server's folder, or start it with `npx -y`."
    package, _, inner = module.rstrip(".").partition(".")
    if inner:
        # If a whole package is missing, Python names only the package.
        return (
            f"Check the name of the module `{module.rstrip('.')}` in `args` or in the server's "
            f"code; install or update `{package}` only if it is missing or too old."
        )
    if Path(config.command or "").stem in ("uv", "uvx"):
        return f'Add `"--with", "{package}"` before the package in `args`.'
    return (
        f"Run `{how_to_install(package, config)}` (the package may have another name), or start "
        "the server with `uvx`, which installs what it needs."
    )


def _untrusted(matched: _MatchedLine) -> str:
    variable = "SSL_CERT_FILE"
    if Path(matched.config.command or "").stem in _OF_NODE:
        variable = "NODE_EXTRA_CA_CERTS"
    elif re.search(r"\brequests\b|urllib3", matched.words):
        variable = "REQUESTS_CA_BUNDLE"
    told = (
        f"Name the file with the certificates of your authority in {variable}, where you start "
        f'Pegboard (servers inherit it), or in `"defaults": {{"env": {{"{variable}": "FILE"}}}}` '
        "of the configuration file."
    )
    off = ' Its `"inherit_network": false` keeps the variable from it.'
    return told if matched.config.inherit_network else told + off


def _missing_setting(matched: _MatchedLine) -> str:
    given = {**matched.config.shared_env, **matched.config.env}
    names = [it for it in _VARIABLE.findall(matched.line) if it not in given]
    if not names:
        return "Add what it asks for to the `env` or `args` of its entry."
    name = names[0]
    seen = " It is set here, but a server sees only the variables that its entry names." * (
        name in os.environ
    )
    return f'Add `"env": {{"{name}": "${{{name}}}"}}` to its entry, and set {name}.{seen}'


def _itself(matched: _MatchedLine) -> str:
    return remedy_for_itself(matched.config)


_OF_NODE = frozenset({"npx", "npm", "node", "pnpm", "yarn", "bun", "bunx"})
_RULES: tuple[_Rule, ...] = (
    _Rule(
        "itself",
        re.compile(r"A Pegboard that serves .+ has started this one"),
        "is Pegboard itself with this same file",
        _itself,
    ),
    _Rule(
        "tls_untrusted",
        UNTRUSTED,
        "does not trust the certificate of an address that it needs",
        _untrusted,
    ),
    _Rule(
        "package_not_found",
        re.compile(
            r"'([^']+)' is not in (?:this|the npm) registry|\bE404\b"
            r"|([\w.\-]+) was not found in the (?:package registry|cache)"
            r"|No matching distribution found for (\S+)|manifest unknown|pull access denied"
        ),
        "asks for a package that no registry has",
        (
            "Check the spelling of the package in its `args`; a private package needs a login or "
            "another registry."
        ),
    ),
    _Rule(
        "wrong_python",
        re.compile(
            r"requires (?:a different )?Python|Requires-Python|requires-python"
            r"|(?:Python|python)\s?(?:version\s)?>=?\s?3\.\d+"
            r"|does not satisfy Python|SyntaxError: (?!Unexpected)"
            r"|unsupported operand type\(s\) for \|: 'type'"
        ),
        "does not run on this version of Python",
        (
            'Start it with a newer version: `"command": "uvx", "args": ["--python", "3.12", …]`, '
            "or give the full path of another Python as `command`. In a script of your own, check "
            "the line that the error names."
        ),
        re.compile(r"\bnode:internal|\bat \w[^\n]* \(|node_modules"),
    ),
    _Rule(
        "wrong_node",
        re.compile(
            r"EBADENGINE|Unsupported engine|ERR_UNKNOWN_BUILTIN_MODULE|ERR_REQUIRE_ESM"
            r"|requires? (?:a )?Node(?:\.js)?(?: version)?\s?[>=v^~\d]"
            r"|Node(?:\.js)? (?:version )?v?\d+[\d.]* "
            r"(?:or (?:higher|newer|later)|is (?:required|not supported))"
            r"|No such built-in module|Cannot find module 'node:"
            r"|SyntaxError: (?:Unexpected|Cannot use import|Invalid)"
            r"|(?:fetch|File|ReadableStream|structuredClone|crypto) is not defined"
        ),
        "does not run on this version of Node.js",
        (
            "Install a newer Node.js (`node --version` prints the current version), or give the "
            "full path of another `npx` or `node` as `command`."
        ),
    ),
    _Rule(
        "missing_module",
        re.compile(
            r"No module named '?([\w.]+)'?|Cannot find (?:module|package) '([^']+)'"
            r"|Error: Cannot resolve module \"([^\"]+)\""
        ),
        "lacks a module",
        _missing_module,
    ),
    _Rule(
        "exited",
        re.compile(r"can't open file '([^']+)': \[Errno 2\]"),
        "exited before it answered",
        "Correct the path in `args`.",
    ),
    _Rule(
        "port_in_use",
        re.compile(
            r"EADDRINUSE|[Aa]ddress already in use|port \d+ is (?:already )?(?:in use|taken)"
        ),
        "wants a port that another program already uses",
        (
            "Stop the other program, which may be an older run of this server, or give the "
            "server another port in its `args` or `env`."
        ),
    ),
    _Rule(
        "docker_not_running",
        re.compile(r"[Cc]annot connect to the Docker daemon|docker daemon is not running"),
        "needs Docker, which is not running",
        "Start Docker; `docker info` shows whether it runs.",
    ),
    _Rule(
        "no_network",
        re.compile(
            r"\b(?:ENOTFOUND|EAI_AGAIN|ENETUNREACH)\b|Temporary failure in name resolution"
            r"|[Cc]ould not resolve host|Name or service not known|[Nn]etwork is unreachable"
            r"|dns error|Failed to fetch: `?http"
        ),
        "could not reach the network",
        "Check whether this machine is online, and whether the server needs a proxy in its `env`.",
    ),
    _Rule(
        "bad_arguments",
        re.compile(
            r"unrecognized arguments?|the following arguments are required"
            r"|[Uu]nknown (?:option|argument)|[Uu]nexpected argument"
            r"|[Mm]issing (?:required )?argument|No such option|^\s*[Uu]sage:"
        ),
        "does not understand its arguments",
        "Correct the `args` of its entry; the server's documentation lists its arguments.",
    ),
    _Rule(
        "missing_setting",
        re.compile(
            rf"{_NAME}.{{0,80}}?\b{_LACK}|\b{_LACK}\b.{{0,80}}?{_NAME}"
            r"|KeyError: '([A-Z][A-Z0-9_]+)'"
            rf"|(?i:api[ _-]?key|access token|credentials?|environment variable).{{0,60}}?\b{_LACK}"
            rf"|{_LACK}\b.{{0,40}}?(?i:api[ _-]?key|access token|credentials?)"
        ),
        "reports that a setting is missing",
        _missing_setting,
    ),
    _Rule(
        "no_permission",
        re.compile(r"\bEACCES\b|\bEPERM\b|[Pp]ermission denied|PermissionError"),
        "has no permission for something that it needs",
        "Give the permission to the user who runs Pegboard, or choose another path.",
    ),
)
"""The rules, the most certain first."""


_LINES = 100


class CapturedStderr(logging.Filter):
    """A log filter that keeps the output of servers, and passes all other records on."""

    def __init__(self, level: int) -> None:
        super().__init__()
        self._level = level
        self._printed: dict[str, deque[str]] = {}
        self._said: dict[str, deque[str]] = {}

    def printed(self, server: str) -> list[str]:
        """Return the last lines of its standard output that were not messages."""
        return list(self._printed.get(server, ()))

    def said(self, server: str) -> list[str]:
        """Return the last lines of its standard error."""
        return list(self._said.get(server, ()))

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep a record of a server's output, and tell whether a record is passed on."""
        event = str(record.msg).partition(":")[0]
        kept = {"not_a_message": self._printed, "server_stderr": self._said}.get(event)
        server, line = getattr(record, "server", None), getattr(record, "line", None)
        if kept is not None and isinstance(server, str) and isinstance(line, str):
            kept.setdefault(server, deque(maxlen=_LINES)).append(line)
            return False
        return record.levelno >= self._level


@contextmanager
def capture_stderr() -> Generator[CapturedStderr]:
    """Capture the output of servers from their loggers; other log handlers see no more of it."""
    loggers = [logging.getLogger(name) for name in ("pegboard.upstream", "pegboard.server")]
    before = [logger.level for logger in loggers]
    captured = CapturedStderr(min(logger.getEffectiveLevel() for logger in loggers))
    try:
        for logger in loggers:
            logger.addFilter(captured)
            logger.setLevel(logging.DEBUG)
        yield captured
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.removeFilter(captured)
            logger.setLevel(level)
