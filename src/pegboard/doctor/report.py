"""The codes of what the doctor finds: how bad each is, and what it means."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from pegboard.model.json_values import FrozenDict
from pegboard.upstream.catalog.cache import CachedCatalog

__all__ = ["CODES", "Checkup", "Code", "Finding", "Report", "Severity", "Stage", "found", "shown"]

Severity = Literal["error", "warning", "advice"]
"""An ``error`` does not work, a ``warning`` works but should not stay so, and an ``advice`` is no
more than that."""


class Code(NamedTuple):
    """What stands behind a code."""

    severity: Severity
    meaning: str


CODES: dict[str, Code] = {
    # The configuration
    "no_configuration": Code("error", "there is no configuration, or no server in it"),
    "config_unreadable": Code("error", "the configuration file cannot be read"),
    "bad_entry": Code("error", "an entry of the file cannot be used"),
    "unset_variable": Code("error", "a variable in the file is not set"),
    "unknown_field": Code("warning", "a field of an entry that nobody reads"),
    "doubtful_entry": Code("warning", "an entry hardly means what it says"),
    "plain_secret": Code("warning", "a secret stands in the file as plain text"),
    "readable_by_others": Code("warning", "a file with secrets that other users can read"),
    "same_server_twice": Code("warning", "two entries are the same server"),
    "shell_syntax": Code("warning", "an argument that only a shell would understand"),
    "itself": Code("error", "an entry is Pegboard itself with the same file"),
    "disabled": Code("advice", "a server that is switched off"),
    "store_unusable": Code("error", "what Pegboard keeps cannot be opened or read"),
    # Processes
    "command_not_found": Code("error", "the program of a server is not there"),
    "not_executable": Code("error", "the program of a server cannot be executed"),
    "missing_interpreter": Code("error", "the first line of a script names a missing program"),
    "windows_command": Code("error", "a command that only Windows has"),
    "bad_directory": Code("error", "the working directory is not there"),
    "wrong_node": Code("error", "the server needs another version of Node.js"),
    "wrong_python": Code("error", "the server needs another version of Python"),
    "missing_module": Code("error", "the server lacks a module that it imports"),
    "package_not_found": Code("error", "no registry has the package"),
    "missing_setting": Code("error", "the server says that a setting is missing"),
    "bad_arguments": Code("error", "the server does not understand its arguments"),
    "port_in_use": Code("error", "the server wants a port that another program has"),
    "docker_not_running": Code("error", "Docker does not run"),
    "no_network": Code("error", "the server could not reach the network"),
    "no_permission": Code("error", "the server may not use something that it needs"),
    "serves_http": Code("error", "the program serves HTTP instead of talking on its pipes"),
    "exited": Code("error", "the program ended before it answered"),
    "stdout_noise": Code("warning", "the program prints what is no message"),
    # Addresses
    "host_unknown": Code("error", "the name of the host is not known"),
    "connection_refused": Code("error", "nothing listens at the address"),
    "unreachable": Code("error", "the address is not reached"),
    "tls_untrusted": Code("error", "nobody trusted has signed the certificate"),
    "tls_expired": Code("error", "the certificate has expired"),
    "tls_wrong_name": Code("error", "the certificate belongs to another name"),
    "tls_not_spoken": Code("error", "`https` where the server speaks plain HTTP"),
    "tls_expected": Code("error", "`http` where the server speaks HTTPS"),
    "login_needed": Code("error", "somebody has to log in"),
    "unauthorized": Code("error", "the server does not accept the credentials (401)"),
    "forbidden": Code("error", "the credentials are not enough (403)"),
    "wrong_path": Code("error", "there is nothing at that path (404)"),
    "wrong_transport": Code("error", "the server speaks the other HTTP transport"),
    "redirected": Code("error", "the address leads to another one"),
    "rate_limited": Code("error", "the server takes no more requests for a while (429)"),
    "server_error": Code("error", "the server itself fails (5xx)"),
    "http_error": Code("error", "the server refuses with another status"),
    "missing_extra": Code("error", "a library is not installed that Pegboard needs for it"),
    # The conversation
    "not_mcp": Code("error", "what answers does not speak MCP"),
    "unsupported_protocol": Code("error", "the server speaks a version that nobody else does"),
    "handshake_refused": Code("error", "the server answers the first request with an error"),
    "no_answer": Code("error", "the server did not answer in time"),
    "slow_start": Code("advice", "the server takes long to start"),
    "list_failed": Code("error", "the server does not list its tools"),
    # Tools
    "no_tools": Code("warning", "the server has no tools"),
    "unmatched_pattern": Code("warning", "a pattern of `allow` or `deny` matches no tool"),
    "unusable_tool": Code("error", "the definition of a tool is not one"),
    "bad_schema": Code("error", "a schema of a tool is not a JSON Schema"),
    "unresolved_reference": Code("error", "a schema refers to something that is not there"),
    "name_too_long": Code("advice", "a tool's name is too long for clients, and is shortened"),
    "illegal_name": Code("advice", "a tool's name has characters that clients refuse"),
    "colliding_names": Code("warning", "two tools want the same name"),
    "near_duplicates": Code("advice", "two servers have tools that are described alike"),
    "no_description": Code("advice", "a tool does not say what it does"),
    "heavy_tool": Code("advice", "the definition of a tool takes many tokens"),
    "hidden_characters": Code("warning", "a text for the model holds characters nobody sees"),
    "instructions_to_model": Code("warning", "a description gives orders to the model"),
}
"""Every code; `docs/guides/troubleshooting.md` says more about each."""


_LONGEST = 240


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What is the matter, in one sentence; and the remedy in the next. It never holds a secret."""

    code: str
    """One of `CODES`; these stay what they are."""
    severity: Severity
    what: str
    remedy: str
    server: str | None = None
    """``None`` when it is about no single server."""
    tool: str | None = None
    """The name that the server has for it."""
    place: str | None = None
    """The file, and the line and column in it, as far as there are."""


def found(
    code: str,
    what: str,
    remedy: str,
    *,
    server: str | None = None,
    tool: str | None = None,
) -> Finding:
    """Return a finding, as bad as its code is."""
    severity = CODES[code].severity
    return Finding(code=code, severity=severity, what=what, remedy=remedy, server=server, tool=tool)


def shown(text: str, limit: int = _LONGEST) -> str:
    """Return a text that somebody else wrote, on one line and printable, cut where it is long."""
    start = text[: 4 * limit]
    line = " ".join("".join(it if it.isprintable() else " " for it in start).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


Stage = Literal["waiting", "starting", "listing", "ok", "failed", "disabled", "unusable"]
"""How far the look at a server has come; of one whose entry is unusable there is none."""


class Checkup(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of one server; nothing in it is secret."""

    server: str
    stage: Stage
    transport: str
    target: str
    era: str | None = None
    protocol_version: str | None = None
    server_version: str | None = None
    tools: int | None = None
    tokens: int | None = None
    """What the definitions of its tools take in a model's context, about."""
    startup_seconds: float | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Every server that was looked at, and everything that was found."""

    config: str | None = None
    """The file that was read."""
    servers: tuple[Checkup, ...] = ()
    findings: tuple[Finding, ...] = ()
    learned: Mapping[str, CachedCatalog] = msgspec.field(default_factory=FrozenDict)
    """What the servers offered that are well, by the keys under which a store remembers them."""

    @property
    def is_ok(self) -> bool:
        """True when there is nothing but advice."""
        return all(it.severity == "advice" for it in self.findings)
