"""Conversations that failed: servers that are there, and do not say what they should."""

from pegboard.doctor.probes.probe import Probe
from pegboard.doctor.report import Finding, found, shown
from pegboard.errors import (
    ConfigError,
    ConnectionLostError,
    ProtocolError,
    ServerUnavailableError,
)

__all__ = ["why_conversation_failed"]


def why_conversation_failed(visit: Probe) -> Finding | None:
    """Return why a server that was reached did not list its tools; ``None`` when it did."""
    name = visit.config.name
    if visit.wants_login:
        return found(
            "login_needed",
            f"Server {name!r} wants you to log in in a browser.",
            f"Log in by `pegboard doctor {name} --login`.",
            server=name,
        )
    if visit.phase == "done" or (visit.error is None and visit.limit is None):
        return None
    return _start_failed(visit) if visit.phase == "starting" else _list_failed(visit)


def _start_failed(visit: Probe) -> Finding:
    name, target, words = visit.config.name, visit.config.target, shown(_words(visit))
    if visit.limit is not None:
        longer = round(4 * visit.limit)
        return found(
            "no_answer",
            f"Server {name!r} ({target}) did not answer within {visit.limit:g} s.",
            f'If it needs longer, write `"timeouts": {{"connect": {longer}}}` into its entry; '
            "otherwise look whether it hangs.",
            server=name,
        )
    match visit.error:
        case ConfigError():
            return found("bad_entry", words, "Correct its entry.", server=name)
        case ConnectionLostError():
            code, words = "not_mcp", f"Server {name!r} ({target}) closes the connection unanswered."
            remedy = "Look whether something else listens there, and into the log of the server."
        case ServerUnavailableError():
            code = "unreachable"
            remedy = "Check its `url`, and whether a firewall, a VPN or a proxy is in between."
        case _ if "protocol version" in words.lower():
            code, words = "unsupported_protocol", f"Server {name!r} speaks another MCP: {words}"
            remedy = "Update the server; versions from 2024-11-05 to 2026-07-28 are spoken here."
        case ProtocolError(rpc_code=int()):
            code = "handshake_refused"
            words = f"Server {name!r} answers the first request with an error: {words}"
            remedy = (
                "Look at what it says, and into its own log; an older server may need "
                '`"protocol": "legacy"` in its entry.'
            )
        case _:
            code = "not_mcp"
            remedy = "Check that its entry starts or names an MCP server, and update the server."
    return found(code, words, remedy, server=name)


def _list_failed(visit: Probe) -> Finding:
    name = visit.config.name
    if visit.limit is not None:
        return found(
            "list_failed",
            f"Server {name!r} did not list its tools within {visit.limit:g} s.",
            f'If it needs longer, write `"timeouts": {{"list": {round(4 * visit.limit)}}}` into '
            "its entry.",
            server=name,
        )
    if visit.lost_because is not None:
        return found(
            "list_failed",
            f"Server {name!r} ended when it was asked for its tools: it "
            f"{shown(visit.lost_because).rstrip('.')}.",
            f"That is a mistake of the server: update it, or start it by hand "
            f"(`{visit.config.target}`) to see more.",
            server=name,
        )
    return found(
        "list_failed",
        f"Server {name!r} does not list its tools: {shown(_words(visit))}",
        "Look at what it says, and into its own log; the server may need to be updated.",
        server=name,
    )


def _words(visit: Probe) -> str:
    error = visit.error
    said = getattr(error, "rpc_message", None)
    text = said if isinstance(said, str) and said else str(error)
    text = visit.config.redact(text.strip())
    return text if text.endswith((".", "!", "?")) else f"{text}."
