"""AuthSettings: who is let into the gateway."""

import ipaddress
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from pegboard.errors import ConfigError
from pegboard.model.principal import DEFAULT_TENANT, Scope

__all__ = [
    "SAFE_ALGORITHMS",
    "AuthSettings",
    "TokenIssuer",
    "check_binding",
    "is_loopback",
    "is_safe_address",
    "is_web_address",
]

SAFE_ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
"""Those with a public key: of the others, whoever can check a token can make one."""


def _own_scopes() -> dict[str, tuple[Scope, ...]]:
    return {
        "pegboard:read": ("read",),
        "pegboard:call": ("call",),
        "pegboard:register": ("register",),
        "pegboard:admin": ("admin",),
    }


class TokenIssuer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An authorization server whose tokens are accepted."""

    issuer: str
    """What its tokens say under ``iss``, to the letter."""
    audience: tuple[str, ...] = ()
    """What one of the token's ``aud`` must be; if left out, the address of this gateway."""
    jwks_url: str | None = None
    """Where its public keys are; if left out, its metadata (RFC 8414) says so."""
    algorithms: tuple[str, ...] = ("RS256", "PS256", "ES256", "EdDSA")
    scope_claim: str | None = None
    """The claim that holds the scopes; if left out, ``scope``, or else ``scp``."""
    scopes: Mapping[str, tuple[Scope, ...]] = msgspec.field(default_factory=_own_scopes)
    """What each scope of a token grants here; others grant nothing."""
    tenant_claim: str | None = None
    """The claim that names the tenant; a token without it is refused."""
    tenant: str = DEFAULT_TENANT
    """Where everybody belongs if no claim says so."""
    servers: tuple[str, ...] = ("*",)
    tools: tuple[str, ...] = ("*",)
    calls_per_minute: int | None = None
    concurrent_calls: int | None = None
    leeway: float = 10.0
    """Seconds by which clocks may differ."""


class AuthSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who is let in. With nothing switched on, everybody is, and only from this machine."""

    keys: bool = False
    """Accept API keys."""
    issuers: tuple[TokenIssuer, ...] = ()
    """Accept tokens of these."""
    resource: str | None = None
    """The address of this gateway as clients have it, such as ``https://tools.example.com/mcp``."""
    plugins: Mapping[str, Mapping[str, Any]] = msgspec.field(
        default_factory=dict[str, Mapping[str, Any]]
    )
    """Further kinds of credentials, by the name of their entry point, with their options."""
    allow_open: bool = False
    """Serve other machines too although nobody has to say who they are."""

    @property
    def required(self) -> bool:
        """Whether everybody has to say who they are."""
        return self.keys or bool(self.issuers) or bool(self.plugins)


def check_binding(settings: AuthSettings, host: str) -> None:
    """Refuse to serve other machines where nobody has to say who they are.

    Raises:
        ConfigError: naming the ways out.
    """
    if settings.required or settings.allow_open or is_loopback(host):
        return
    raise ConfigError(
        f"Everybody who reaches {host!r} could call every tool. Switch on API keys "
        "(`PEGBOARD_AUTH=keys`, then `pegboard keys create`) or serve 127.0.0.1 only; if something "
        "else keeps others out, say `--allow-anonymous` (or `PEGBOARD_AUTH=open`)."
    )


def is_loopback(host: str) -> bool:
    """Tell whether an address is reached from this machine only."""
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return host.lower().rstrip(".") == "localhost"
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def is_safe_address(address: str) -> bool:
    """Tell whether keys can be fetched there: by TLS, or on this machine."""
    if not is_web_address(address):
        return False
    parts = urlsplit(address)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def is_web_address(address: str) -> bool:
    """Tell whether this is an address of the web, without a fragment."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.fragment
