"""The doctor's report: findings, their stable codes and severities, and one checkup per server."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

import msgspec

from pegboard.model.json_values import FrozenDict
from pegboard.upstream.catalog.cache import CachedCatalog

__all__ = [
    "CODES",
    "Checkup",
    "CheckupState",
    "Code",
    "Finding",
    "Report",
    "Severity",
    "found",
    "shown",
]

Severity = Literal["error", "warning", "advice"]
"""An ``error`` stops something from working. A ``warning`` works, but should be corrected. An
``advice`` is optional."""


class Code(NamedTuple):
    """The severity and the meaning of a code."""

    severity: Severity
    meaning: str


CODES: dict[str, Code] = {
    # The configuration
    "no_configuration": Code("error", "there is no configuration, or it contains no server"),
    "config_unreadable": Code("error", "the configuration file cannot be read"),
    "bad_entry": Code("error", "an entry of the file cannot be used"),
    "unset_variable": Code("error", "a variable in the file is not set"),
    "unknown_field": Code("warning", "Pegboard does not know a field of an entry"),
    "not_allowed": Code("error", "the lists of the file do not allow a server"),
    "doubtful_entry": Code("warning", "an entry probably does not mean what it says"),
    "plain_secret": Code("warning", "the file contains a secret as plain text"),
    "readable_by_others": Code("warning", "other users can read a file or a folder with secrets"),
    "same_server_twice": Code("warning", "two entries are the same server"),
    "shell_syntax": Code("warning", "only a shell would understand an argument"),
    "itself": Code("error", "an entry is Pegboard itself with the same file"),
    "disabled": Code("advice", "the server is switched off"),
    "bad_skill": Code("warning", "a skill in the folder of skills cannot be served"),
    "store_unusable": Code("error", "the store cannot be opened or read"),
    # Processes
    "command_not_found": Code("error", "the server's program was not found"),
    "not_executable": Code("error", "the server's program cannot be executed"),
    "missing_interpreter": Code("error", "the first line of a script names a missing program"),
    "windows_command": Code("error", "the command works only on Windows"),
    "bad_directory": Code("error", "the working directory does not exist"),
    "wrong_node": Code("error", "the server needs another version of Node.js"),
    "wrong_python": Code("error", "the server needs another version of Python"),
    "missing_module": Code("error", "the server imports a module that is not installed"),
    "package_not_found": Code("error", "no package registry has the package"),
    "missing_setting": Code("error", "the server reports that a setting is missing"),
    "bad_arguments": Code("error", "the server does not understand its arguments"),
    "port_in_use": Code("error", "another program already uses the server's port"),
    "docker_not_running": Code("error", "Docker is not running"),
    "no_network": Code("error", "the server could not reach the network"),
    "no_permission": Code("error", "the server has no permission for something it needs"),
    "serves_http": Code("error", "the program serves HTTP instead of using standard input/output"),
    "exited": Code("error", "the program exited before it answered"),
    "stdout_noise": Code("warning", "the program prints text that is not an MCP message"),
    # Addresses
    "host_unknown": Code("error", "the host name cannot be resolved"),
    "connection_refused": Code("error", "nothing listens at the address"),
    "unreachable": Code("error", "the address cannot be reached"),
    "proxy_unreachable": Code("error", "the proxy on the way to the server cannot be reached"),
    "proxy_refused": Code("error", "the proxy does not connect to the server (407, 403, 5xx)"),
    "tls_untrusted": Code("error", "no trusted authority signed a certificate"),
    "tls_expired": Code("error", "the certificate has expired"),
    "tls_not_yet_valid": Code("error", "the certificate is not valid yet"),
    "tls_wrong_name": Code("error", "the certificate was issued for another name"),
    "tls_not_spoken": Code("error", "the `url` says `https`, but the server speaks plain HTTP"),
    "tls_client_certificate": Code("error", "the server requires another client certificate"),
    "tls_no_answer": Code("error", "the server does not finish the TLS handshake"),
    "tls_closed": Code("error", "the server closes the connection during the TLS handshake"),
    "tls_version": Code("error", "the server speaks only versions of TLS that are not safe"),
    "tls_failed": Code("error", "the TLS handshake fails for another reason"),
    "bad_tls": Code("error", "a file of `tls` or of SSL_CERT_FILE cannot be used"),
    "tls_expected": Code("error", "the `url` says `http`, but the server speaks HTTPS"),
    "login_needed": Code("error", "the server requires a login"),
    "untrusted_address": Code("error", "the login leads to an address that is not trusted"),
    "unauthorized": Code("error", "the server rejects the credentials, or needs some (401)"),
    "forbidden": Code("error", "the credentials do not have enough rights (403)"),
    "wrong_path": Code("error", "the path does not exist (404)"),
    "wrong_transport": Code("error", "the server speaks the other HTTP transport"),
    "redirected": Code("error", "the address redirects to another one"),
    "rate_limited": Code("error", "the server accepts no more requests for a while (429)"),
    "server_error": Code("error", "the server itself fails (5xx)"),
    "http_error": Code("error", "the server refuses the request with another status"),
    "missing_extra": Code("error", "a library that Pegboard needs for the server is not installed"),
    # The conversation
    "not_mcp": Code("error", "the other end does not speak MCP"),
    "unsupported_protocol": Code("error", "Pegboard does not support the server's MCP version"),
    "handshake_refused": Code("error", "the server answers the first request with an error"),
    "no_answer": Code("error", "the server did not answer in time"),
    "slow_start": Code("advice", "the server takes long to start"),
    "list_failed": Code("error", "the server does not list its tools"),
    # Tools
    "no_tools": Code("warning", "the server has no tools"),
    "unmatched_pattern": Code("warning", "a pattern of `allow` or `deny` matches no tool"),
    "unusable_tool": Code("error", "the definition of a tool is invalid"),
    "bad_schema": Code("error", "a schema of a tool is not a valid JSON Schema"),
    "unresolved_reference": Code("error", "a schema refers to something that does not exist"),
    "name_too_long": Code("advice", "a tool's name is too long for clients, and is shortened"),
    "illegal_name": Code("advice", "a tool's name has characters that clients refuse"),
    "colliding_names": Code("warning", "two tools want the same name"),
    "near_duplicates": Code("advice", "two servers have tools with similar descriptions"),
    "no_description": Code("advice", "a tool does not say what it does"),
    "heavy_tool": Code("advice", "the definition of a tool takes many tokens"),
    "hidden_characters": Code("warning", "a text for the model contains invisible characters"),
    "instructions_to_model": Code("warning", "a description gives orders to the model"),
}
"""Every code; `docs/guides/troubleshooting.md` says more about each."""


_LONGEST = 240


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A problem in one sentence, and its remedy. A finding never contains a secret."""

    code: str
    """One of `CODES`, which are stable."""
    severity: Severity
    what: str
    remedy: str
    server: str | None = None
    """``None`` when the finding is not about one server."""
    tool: str | None = None
    """The tool's name, as its server spells it."""
    place: str | None = None
    """The file, with the line and column if they are known."""


def found(
    code: str,
    what: str,
    remedy: str,
    *,
    server: str | None = None,
    tool: str | None = None,
) -> Finding:
    """Return a finding with the severity of its code."""
    severity = CODES[code].severity
    return Finding(code=code, severity=severity, what=what, remedy=remedy, server=server, tool=tool)


def shown(text: str, limit: int = _LONGEST) -> str:
    """Return a foreign text as one printable line, cut at the limit."""
    start = text[: 4 * limit]
    line = " ".join("".join(it if it.isprintable() else " " for it in start).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


CheckupState = Literal["waiting", "starting", "listing", "ready", "down", "disabled", "unusable"]
"""The state of a server, in the words of `ServerState`, or how far its check has come. A server
whose entry is ``unusable`` is not checked."""


class Checkup(msgspec.Struct, frozen=True, kw_only=True):
    """What the doctor saw of one server; it contains no secret."""

    server: str
    state: CheckupState
    transport: str
    target: str
    era: str | None = None
    protocol_version: str | None = None
    server_version: str | None = None
    tools: int | None = None
    tokens: int | None = None
    """About how many tokens its tool definitions take in a model's context."""
    startup_seconds: float | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Every server that was checked, and every finding."""

    config: str | None = None
    """The path of the file that was read."""
    servers: tuple[Checkup, ...] = ()
    findings: tuple[Finding, ...] = ()
    learned: Mapping[str, CachedCatalog] = msgspec.field(default_factory=FrozenDict)
    """What the working servers offered, by their keys in the catalog cache."""

    @property
    def is_ok(self) -> bool:
        """True when the findings are all advice."""
        return all(it.severity == "advice" for it in self.findings)
