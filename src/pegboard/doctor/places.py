"""Wrong places: another path, another transport, a web page, an address that leads on."""

from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit, urlunsplit

import msgspec

from pegboard.config import ServerConfig, Transport
from pegboard.doctor.finding import Finding, found, shown
from pegboard.doctor.visit import Visit
from pegboard.upstream.errors.failures import Failure

__all__ = ["TryOut", "speaks_https", "why_wrong_place", "with_scheme"]

TryOut = Callable[[ServerConfig], Awaitable[bool]]
"""Tells whether a server can be started with another address or transport."""

_OTHERS: dict[str, tuple[Transport, str, str]] = {
    "streamable_http": ("sse", "sse", "server-sent events (the older transport)"),
    "sse": ("streamable_http", "http", "streamable HTTP (the newer transport)"),
}
_PATHS: tuple[tuple[str, Transport], ...] = (("/mcp", "streamable_http"), ("/sse", "sse"))


async def why_wrong_place(visit: Visit, failure: Failure | None, try_out: TryOut) -> Finding | None:
    """Return what is at an address that does not answer as a server would; ``None`` if unknown."""
    status = (failure.status if failure is not None else None) or 0
    told = _said_itself(visit, failure, status)
    if told is None:
        told = await _transport_that_works(visit.config, try_out)
    if told is None and status == 404:
        return await _nothing_there(visit.config, try_out)
    return told or _no_server(visit, failure, status)


def _said_itself(visit: Visit, failure: Failure | None, status: int) -> Finding | None:
    name, url, message = visit.config.name, visit.config.target, str(visit.error)
    if status >= 500:
        return found(
            "server_error",
            f"Server {name!r} ({url}) fails by itself: {_answer(failure)}.",
            "Try again later; if it stays so, whoever runs the server has to look at its log.",
            server=name,
        )
    if status == 400 and failure is not None and "HTTPS" in failure.message:
        return speaks_https(visit.config)
    if not (300 <= status < 400 or "Redirect to " in message):
        return None
    where = shown(message.partition("Redirect to ")[2].partition(" not followed")[0])
    remedy = "Open the `url` in a browser to see where, and write that into the entry."
    if where:
        remedy = (
            f'Write `"url": "{where}"` if that is the server; a login page means that it wants '
            "credentials."
        )
    to = f" to {where}" if where else ""
    what = f"The address of server {name!r} ({url}) leads on{to}."
    return found("redirected", what, remedy, server=name)


def _no_server(visit: Visit, failure: Failure | None, status: int) -> Finding | None:
    name, url, message = visit.config.name, visit.config.target, str(visit.error)
    if 400 <= status < 500:
        return found(
            "http_error",
            f"Server {name!r} ({url}) refuses: {_answer(failure)}.",
            "Check its `url` and `type`: the page of the server says which address takes MCP.",
            server=name,
        )
    if "does not speak MCP" in message or "cannot be read" in message or "no events" in message:
        return found(
            "not_mcp",
            f"What answers at the address of server {name!r} ({url}) does not speak MCP.",
            "Open the `url` in a browser: a web page means that the path is missing (often `/mcp` "
            "or `/sse`), or that a login is in between.",
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
    remedy = "Check the path of its `url`: most servers have `/mcp`, older ones `/sse`."
    for path, transport in _PATHS:
        parts = urlsplit(config.url or "")
        other = msgspec.structs.replace(
            config,
            url=urlunsplit((parts.scheme, parts.netloc, path, parts.query, "")),
            transport=transport,
            stateless=False,
        )
        if parts.path != path and await try_out(other):
            remedy = f'Write `"url": "{other.target}"`: there it answers.'
            break
    return found(
        "wrong_path",
        f"There is nothing at the address of server {name!r}: {url} (HTTP 404).",
        remedy,
        server=name,
    )


def _answer(failure: Failure | None) -> str:
    words = "" if failure is None else failure.message.removeprefix("The server answered with ")
    return shown(words).rstrip(".")


def speaks_https(config: ServerConfig) -> Finding:
    """Return that an address wants to be spoken to over HTTPS."""
    name, url = config.name, config.target
    return found(
        "tls_expected",
        f"Server {name!r} ({url}) speaks HTTPS, and its `url` says `http`.",
        f'Write `"url": "{with_scheme(url, "https")}"`.',
        server=name,
    )


def with_scheme(url: str, scheme: str) -> str:
    """Return an address with another scheme."""
    return f"{scheme}://{url.partition('://')[2]}"
