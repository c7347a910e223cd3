"""Servers that refuse: credentials that are missing, wrong or not enough, and too many requests."""

from pegboard.config import ServerConfig
from pegboard.doctor.finding import Finding, found, shown
from pegboard.upstream.errors.failures import Failure

__all__ = ["why_busy", "why_unauthorized"]


def why_unauthorized(config: ServerConfig, failure: Failure) -> Finding:
    """Return which credentials a server wants, or does not accept."""
    name, url = config.name, config.target
    if failure.status is None:
        # A login that failed says itself what to do.
        return found(
            "login_needed",
            shown(config.redact(failure.message)),
            f"Log in by `pegboard doctor {name} --login`.",
            server=name,
        )
    if failure.status == 403:
        return found(
            "forbidden",
            f"Server {name!r} ({url}) refuses with HTTP 403: the credentials are not enough.",
            "Give them more rights where they were made, or use others in its `headers`, "
            "`bearer_token` or `oauth`.",
            server=name,
        )
    challenge = failure.challenge or ""
    given = [it for it in ("bearer_token", "oauth") if getattr(config, it)]
    given += ["headers"] * any("auth" in it.lower() or "key" in it.lower() for it in config.headers)
    if given:
        return found(
            "unauthorized",
            f"Server {name!r} ({url}) does not accept the credentials in its `{given[0]}` "
            "(HTTP 401).",
            "Look whether the token is whole, meant for this server, and has not expired.",
            server=name,
        )
    if "resource_metadata" in challenge or challenge.lower().startswith("bearer"):
        return found(
            "login_needed",
            f"Server {name!r} ({url}) wants you to log in (HTTP 401).",
            f'Add `"oauth": true` to its entry, then `pegboard doctor {name} --login`; or '
            'add `"bearer_token": "${TOKEN}"` if you have a token.',
            server=name,
        )
    return found(
        "unauthorized",
        f"Server {name!r} ({url}) wants credentials, and its entry has none (HTTP 401).",
        'Add `"bearer_token": "${TOKEN}"`, or the header that the server asks for: '
        '`"headers": {"X-API-Key": "${KEY}"}`.',
        server=name,
    )


def why_busy(config: ServerConfig, failure: Failure) -> Finding:
    """Return that a server takes no requests for now."""
    name, url = config.name, config.target
    wait = f" in {failure.retry_after:.0f} s" if failure.retry_after else " later"
    if failure.status == 429:
        return found(
            "rate_limited",
            f"Server {name!r} ({url}) takes no more requests for now (HTTP 429).",
            f"Try again{wait}; if it stays so, look at the limits of your account there.",
            server=name,
        )
    return found(
        "server_error",
        f"Server {name!r} ({url}) is not available (HTTP {failure.status}).",
        f"Try again{wait}; if it stays so, whoever runs the server has to look.",
        server=name,
    )
