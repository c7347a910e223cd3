"""Explain HTTP failures: wrong path or transport, redirect, web page, credentials, rate limit."""

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit, urlunsplit

import msgspec

from pegboard.config import ServerConfig, Transport
from pegboard.doctor.probes.probe import Probe
from pegboard.doctor.report import Finding, found, shown
from pegboard.errors import UntrustedAddressError
from pegboard.upstream.messages.failures import Failure

__all__ = [
    "NO_EVENTS",
    "TryOut",
    "speaks_https",
    "why_busy",
    "why_unauthorized",
    "why_untrusted",
    "why_wrong_place",
    "with_scheme",
]

TryOut = Callable[[ServerConfig], Awaitable[bool]]
"""Tells whether a server answers with another address or transport."""

NO_EVENTS = ("sent no events", "named its endpoint")
"""What an error says when a server answered with something other than a stream of events."""
_OTHERS: dict[str, tuple[Transport, str, str]] = {
    "streamable_http": ("sse", "sse", "server-sent events (the older transport)"),
    "sse": ("streamable_http", "http", "streamable HTTP (the newer transport)"),
}
_PATHS: tuple[tuple[str, Transport], ...] = (("/mcp", "streamable_http"), ("/sse", "sse"))


async def why_wrong_place(probe: Probe, failure: Failure | None, try_out: TryOut) -> Finding | None:
    """Return why an address does not answer as a server would; ``None`` if the cause is unknown."""
    status = (failure.status if failure is not None else None) or 0
    told = _said_itself(probe, failure, status)
    if told is None:
        told = await _transport_that_works(probe.config, try_out)
    if told is None and status == 404:
        return await _nothing_there(probe.config, try_out)
    return told or _no_server(probe, failure, status)


def _said_itself(probe: Probe, failure: Failure | None, status: int) -> Finding | None:
    name, url, message = probe.config.name, probe.config.target, str(probe.error)
    if status >= 500:
        return found(
            "server_error",
            f"Server {name!r} ({url}) itself fails: {_answer(failure)}.",
            "Try again later. If the problem stays, ask the operator of the server to check its "
            "log.",
            server=name,
        )
    if status == 400 and failure is not None and "HTTPS" in failure.message:
        return speaks_https(probe.config)
    if not (300 <= status < 400 or "Redirect to " in message):
        return None
    where = shown(message.partition("Redirect to ")[2].partition(" not followed")[0])
    remedy = "Open the `url` in a browser, and write the address it leads to into the entry."
    if where:
        remedy = (
            f'Write `"url": "{where}"` if that is the server; a login page means that credentials '
            "are missing."
        )
    to = where or "another address"
    what = f"The address of server {name!r} ({url}) redirects to {to}."
    return found("redirected", what, remedy, server=name)


def _no_server(probe: Probe, failure: Failure | None, status: int) -> Finding | None:
    name, url, message = probe.config.name, probe.config.target, str(probe.error)
    if 400 <= status < 500:
        return found(
            "http_error",
            f"Server {name!r} ({url}) refuses the request: {_answer(failure)}.",
            "Check its `url` and `type` against the documentation of the server.",
            server=name,
        )
    if any(it in message for it in ("does not speak MCP", "cannot be read", *NO_EVENTS)):
        return found(
            "not_mcp",
            f"The address of server {name!r} ({url}) answers, but does not speak MCP.",
            "Open the `url` in a browser. A web page means that the path is missing (often `/mcp` "
            "or `/sse`), or that the server requires a login.",
            server=name,
        )
    return None


async def _transport_that_works(config: ServerConfig, try_out: TryOut) -> Finding | None:
    if config.transport not in _OTHERS:
        return None
    other, written, words = _OTHERS[config.transport]
    if not await try_out(msgspec.structs.replace(config, transport=other, stateless=False)):
        return None
    return found(
        "wrong_transport",
        f"Server {config.name!r} ({config.target}) speaks {words}.",
        f'Write `"type": "{written}"` into its entry.',
        server=config.name,
    )


async def _nothing_there(config: ServerConfig, try_out: TryOut) -> Finding:
    name, url = config.name, config.target
    remedy = "Check the path of its `url`: most servers use `/mcp`, older ones `/sse`."
    for path, transport in _PATHS:
        parts = urlsplit(config.url or "")
        other = msgspec.structs.replace(
            config,
            url=urlunsplit((parts.scheme, parts.netloc, path, parts.query, "")),
            transport=transport,
            stateless=False,
        )
        if parts.path != path and await try_out(other):
            remedy = f'Write `"url": "{other.target}"`: the server answers there.'
            break
    return found(
        "wrong_path",
        f"The address of server {name!r} does not exist: {url} (HTTP 404).",
        remedy,
        server=name,
    )


def _answer(failure: Failure | None) -> str:
    words = "" if failure is None else failure.message.removeprefix("The server answered with ")
    return shown(words).rstrip(".")


def speaks_https(config: ServerConfig) -> Finding:
    """Return the finding for an address that speaks HTTPS although its `url` says `http`."""
    name, url = config.name, config.target
    return found(
        "tls_expected",
        f"Server {name!r} ({url}) speaks HTTPS, but its `url` says `http`.",
        f'Write `"url": "{with_scheme(url, "https")}"`.',
        server=name,
    )


def with_scheme(url: str, scheme: str) -> str:
    """Return an address with another scheme."""
    return f"{scheme}://{url.partition('://')[2]}"


def why_unauthorized(config: ServerConfig, failure: Failure) -> Finding:
    """Return which credentials a server requires, or rejects."""
    name, url = config.name, config.target
    if failure.status is None:
        # The message of a failed login explains itself.
        return found(
            "login_needed",
            shown(config.redact(failure.message)),
            f"Run `pegboard doctor {name} --login` to log in.",
            server=name,
        )
    if failure.status == 403:
        return found(
            "forbidden",
            f"Server {name!r} ({url}) refuses with HTTP 403: the credentials do not have enough "
            "rights.",
            "Grant them more rights at the service that issued them, or use other credentials in "
            "`headers`, `bearer_token` or `oauth`.",
            server=name,
        )
    challenge = failure.challenge or ""
    given = [it for it in ("bearer_token", "oauth") if getattr(config, it)]
    given += ["headers"] * any("auth" in it.lower() or "key" in it.lower() for it in config.headers)
    if given:
        return found(
            "unauthorized",
            f"Server {name!r} ({url}) rejects the credentials in its `{given[0]}` (HTTP 401).",
            "Check that the token is complete, belongs to this server, and has not expired.",
            server=name,
        )
    if "resource_metadata" in challenge or challenge.lower().startswith("bearer"):
        return found(
            "login_needed",
            f"Server {name!r} ({url}) requires a login (HTTP 401).",
            f'Add `"oauth": true` to its entry, then run `pegboard doctor {name} --login`. If you '
            'have a token, add `"bearer_token": "${TOKEN}"` instead.',
            server=name,
        )
    return found(
        "unauthorized",
        f"Server {name!r} ({url}) requires credentials, but its entry has none (HTTP 401).",
        'Add `"bearer_token": "${TOKEN}"`, or the header that the server requires: '
        '`"headers": {"X-API-Key": "${KEY}"}`.',
        server=name,
    )


def why_untrusted(config: ServerConfig, error: UntrustedAddressError) -> Finding:
    """Return where the login of a server leads, and how to trust that host."""
    return found(
        "untrusted_address",
        shown(config.redact(str(error).partition(" If you trust it")[0]), 300),
        "Ask the operator of the server why its login leads there. If you trust the host, write "
        f'`"oauth": {{"trusted_hosts": ["{shown(error.host)}"]}}` into the entry.',
        server=config.name,
    )


def why_busy(config: ServerConfig, failure: Failure) -> Finding:
    """Return the finding for a server that accepts no requests for now."""
    name, url = config.name, config.target
    wait = f" in {failure.retry_after:.0f} s" if failure.retry_after else " later"
    if failure.status == 429:
        return found(
            "rate_limited",
            f"Server {name!r} ({url}) accepts no more requests for now (HTTP 429).",
            f"Try again{wait}. If the problem stays, check the limits of your account.",
            server=name,
        )
    return found(
        "server_error",
        f"Server {name!r} ({url}) is not available (HTTP {failure.status}).",
        f"Try again{wait}. If the problem stays, ask the operator of the server.",
        server=name,
    )
