"""Explain MCP failures of a reached server: login, handshake, protocol version, list of tools."""

from pegboard.doctor.probes.probe import Probe
from pegboard.doctor.report import Finding, found, shown
from pegboard.errors import (
    ConfigError,
    ConnectionLostError,
    ProtocolError,
    ServerUnavailableError,
)

__all__ = ["why_conversation_failed"]


def why_conversation_failed(probe: Probe) -> Finding | None:
    """Return why a reached server did not list its tools; ``None`` when it did."""
    name = probe.config.name
    if probe.wants_login:
        return found(
            "login_needed",
            f"Server {name!r} requires a login in a browser.",
            f"Run `pegboard doctor {name} --login` to log in.",
            server=name,
        )
    if probe.phase == "done" or (probe.error is None and probe.limit is None):
        return None
    return _start_failed(probe) if probe.phase == "starting" else _list_failed(probe)


def _start_failed(probe: Probe) -> Finding:
    name, target, words = probe.config.name, probe.config.target, shown(_words(probe))
    if probe.limit is not None:
        longer = round(4 * probe.limit)
        return found(
            "no_answer",
            f"Server {name!r} ({target}) did not answer within {probe.limit:g} s.",
            f'If it needs more time, write `"timeouts": {{"connect": {longer}}}` into its entry; '
            "otherwise check whether it hangs.",
            server=name,
        )
    match probe.error:
        case ConfigError():
            return found("bad_entry", words, "Correct its entry.", server=name)
        case ConnectionLostError():
            code = "not_mcp"
            words = f"Server {name!r} ({target}) closes the connection without an answer."
            remedy = "Check whether another program listens there, and read the log of the server."
        case ServerUnavailableError():
            code = "unreachable"
            remedy = "Check its `url`, and whether a firewall, a VPN or a proxy is in the way."
        case _ if "protocol version" in words.lower() or "version of the protocol" in words:
            code = "unsupported_protocol"
            words = f"Server {name!r} speaks an unsupported MCP version: {words}"
            remedy = "Update the server; Pegboard speaks the versions 2024-11-05 to 2026-07-28."
        case ProtocolError(rpc_code=int()):
            code = "handshake_refused"
            words = f"Server {name!r} answers the first request with an error: {words}"
            remedy = (
                "Read the error and the log of the server; an older server may need "
                '`"protocol": "legacy"` in its entry.'
            )
        case _:
            code = "not_mcp"
            remedy = "Check that the entry starts or names an MCP server, and update the server."
    return found(code, words, remedy, server=name)


def _list_failed(probe: Probe) -> Finding:
    name = probe.config.name
    if probe.limit is not None:
        return found(
            "list_failed",
            f"Server {name!r} did not list its tools within {probe.limit:g} s.",
            f'If it needs more time, write `"timeouts": {{"list": {round(4 * probe.limit)}}}` into '
            "its entry.",
            server=name,
        )
    if probe.lost_because is not None:
        return found(
            "list_failed",
            f"Server {name!r} ended when it was asked for its tools: it "
            f"{shown(probe.lost_because).rstrip('.')}.",
            f"This is a fault of the server: update it, or start it by hand "
            f"(`{probe.config.target}`) to see more.",
            server=name,
        )
    return found(
        "list_failed",
        f"Server {name!r} does not list its tools: {shown(_words(probe))}",
        "Read the error and the log of the server, or update the server.",
        server=name,
    )


def _words(probe: Probe) -> str:
    error = probe.error
    said = getattr(error, "rpc_message", None)
    text = said if isinstance(said, str) and said else str(error)
    text = probe.config.redact(text.strip())
    return text if text.endswith((".", "!", "?")) else f"{text}."
