"""OAuth protected-resource metadata (RFC 9728) and `WWW-Authenticate` headers for clients."""

from typing import Any
from urllib.parse import urlsplit

from pegboard.auth.settings import AuthSettings
from pegboard.errors import UnauthenticatedError
from pegboard.model.principal import Scope

__all__ = ["challenge", "metadata_path", "resource_metadata", "scope_challenge"]

WELL_KNOWN = "/.well-known/oauth-protected-resource"
_ENOUGH: frozenset[Scope] = frozenset({"read", "call"})


def resource_metadata(settings: AuthSettings) -> dict[str, Any] | None:
    """Return the metadata of this gateway (RFC 9728), or ``None`` where no tokens are accepted."""
    if not settings.issuers or settings.resource is None:
        return None
    return {
        "resource": settings.resource,
        "resource_name": "Pegboard",
        "authorization_servers": [it.issuer for it in settings.issuers],
        "scopes_supported": _ordinary(settings),
        "bearer_methods_supported": ["header"],
    }


def metadata_path(settings: AuthSettings) -> str:
    """Return the path of the metadata, which ends with the path of the resource."""
    return WELL_KNOWN + urlsplit(settings.resource or "").path.rstrip("/")


def challenge(settings: AuthSettings, failure: UnauthenticatedError) -> str:
    """Return the ``WWW-Authenticate`` header of a 401 response."""
    asked = {"scope": " ".join(_ordinary(settings))} if settings.issuers else {}
    # Nothing was sent, so nothing was wrong with it (RFC 6750, 3.1).
    if failure.reason == "missing":
        return _bearer(settings, **asked)
    return _bearer(settings, error="invalid_token", error_description=str(failure), **asked)


def scope_challenge(settings: AuthSettings, scope: Scope) -> str:
    """Return the ``WWW-Authenticate`` header of a 403 response, with the scope to ask for."""
    names = {name for it in settings.issuers for name, given in it.scopes.items() if scope in given}
    wanted = {"scope": " ".join(sorted(names))} if names else {}
    return _bearer(settings, error="insufficient_scope", **wanted)


def _ordinary(settings: AuthSettings) -> list[str]:
    """Return the scopes for finding and calling; clients request every scope that is listed."""
    granting = [pair for it in settings.issuers for pair in it.scopes.items()]
    modest = {name for name, given in granting if _ENOUGH.issuperset(given)}
    return sorted(modest or {name for name, _ in granting})


def _bearer(settings: AuthSettings, **words: str) -> str:
    said = {"realm": "pegboard", **words}
    if resource_metadata(settings) is not None:
        parts = urlsplit(settings.resource or "")
        said["resource_metadata"] = f"{parts.scheme}://{parts.netloc}{metadata_path(settings)}"
    return "Bearer " + ", ".join(f"{name}={_quoted(text)}" for name, text in said.items())


def _quoted(text: str) -> str:
    plain = "".join(it if it.isascii() and it.isprintable() else "?" for it in text)
    return '"' + plain.replace("\\", "").replace('"', "'") + '"'
