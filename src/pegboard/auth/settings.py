"""Authentication settings: read `gateway.auth` and `PEGBOARD_AUTH*`, and check them."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import msgspec

from pegboard.auth.key_record import check_tenant
from pegboard.auth.network_exposure import is_safe_address, is_web_address
from pegboard.config import Variables, locate_config, read_jsonc
from pegboard.config.problems import value_at
from pegboard.errors import ConfigError
from pegboard.model.principal import DEFAULT_TENANT, Scope

__all__ = [
    "SAFE_ALGORITHMS",
    "AuthSettings",
    "TokenIssuer",
    "load_auth_settings",
]

SAFE_ALGORITHMS = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
"""The public-key algorithms: with the others, each party that can check a token can forge one."""


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
    """The exact value of ``iss`` in its tokens."""
    audience: tuple[str, ...] = ()
    """The accepted values of ``aud``; by default the address of this gateway."""
    jwks_url: str | None = None
    """The address of its public keys; by default its metadata (RFC 8414) names it."""
    algorithms: tuple[str, ...] = ("RS256", "PS256", "ES256", "EdDSA")
    scope_claim: str | None = None
    """The claim that holds the scopes; by default ``scope``, or else ``scp``."""
    scopes: Mapping[str, tuple[Scope, ...]] = msgspec.field(default_factory=_own_scopes)
    """What each scope of a token grants in this gateway; other scopes grant nothing."""
    tenant_claim: str | None = None
    """The claim that names the tenant; a token without it is refused."""
    tenant: str = DEFAULT_TENANT
    """The tenant of all its callers, unless ``tenant_claim`` is set."""
    servers: tuple[str, ...] = ("*",)
    tools: tuple[str, ...] = ("*",)
    calls_per_minute: int | None = None
    concurrent_calls: int | None = None
    leeway: float = 10.0
    """The accepted clock skew, in seconds."""


class AuthSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How clients authenticate. By default every client on this machine is let in, and no other."""

    keys: bool = False
    """Accept API keys."""
    issuers: tuple[TokenIssuer, ...] = ()
    """Accept tokens of these authorization servers."""
    resource: str | None = None
    """The address at which clients reach this gateway, such as ``https://tools.example.com/mcp``."""
    plugins: Mapping[str, Mapping[str, Any]] = msgspec.field(
        default_factory=dict[str, Mapping[str, Any]]
    )
    """Other kinds of credentials: the name of each plug-in's entry point, with its options."""
    allow_open: bool = False
    """Serve other machines even without authentication."""
    allow_register: bool = False
    """Let clients register tools over HTTP where no authentication is required."""

    @property
    def required(self) -> bool:
        """Whether every client has to authenticate."""
        return self.keys or bool(self.issuers) or bool(self.plugins)


SECTION = ("gateway", "auth")
MOST_LEEWAY = 300.0


def load_auth_settings(
    source: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> AuthSettings:
    """Read ``gateway.auth`` in the configuration file; environment variables override it.

    | Variable | Stands for |
    | --- | --- |
    | ``PEGBOARD_AUTH`` | ``keys`` accepts API keys, ``open`` lets every client in |
    | ``PEGBOARD_AUTH_RESOURCE`` | ``resource`` |
    | ``PEGBOARD_AUTH_ISSUER`` | one ``issuer``, instead of those in the file |
    | ``PEGBOARD_AUTH_AUDIENCE`` | its ``audience``; several, separated by commas |
    | ``PEGBOARD_AUTH_JWKS_URL`` | its ``jwks_url`` |
    | ``PEGBOARD_AUTH_TENANT_CLAIM`` | its ``tenant_claim`` |

    Args:
        source: the file, its content, or ``None`` to look for it as `load_servers` does.
        environ: instead of the environment of this process.

    Raises:
        ConfigError: when the settings cannot be used; the gateway then lets no client in.
    """
    environ = os.environ if environ is None else environ
    path, content = _read(source, environ)
    section = value_at(content, SECTION)
    said: object = {} if section is None else _expanded(section, _variables(environ, path), path)
    settings = _converted(said, path)
    return _checked(_with_environment(settings, environ), path)


def _read(
    source: str | os.PathLike[str] | Mapping[str, Any] | None, environ: Mapping[str, str]
) -> tuple[str | None, object]:
    if isinstance(source, Mapping):
        return None, source
    found = locate_config(source, environ=environ)
    if found.path is None:
        return None, {}
    return str(found.path), read_jsonc(found.path).value


def _variables(environ: Mapping[str, str], path: str | None) -> Variables:
    # As for the servers of the same file.
    home = environ.get("HOME") or environ.get("USERPROFILE") or "~"
    folder = "." if path is None else str(Path(path).parent)
    return Variables(environ=environ, home=home, folder=folder)


def _expanded(value: object, variables: Variables, path: str | None) -> object:
    try:
        match value:
            case str():
                return variables.expand(value).text
            case list():
                return [_expanded(it, variables, path) for it in cast("list[object]", value)]
            case Mapping():
                members = cast("Mapping[str, object]", value)
                return {key: _expanded(it, variables, path) for key, it in members.items()}
            case _:
                return value
    except ConfigError as error:
        raise ConfigError(error.problem, path=path) from None


def _converted(section: object, path: str | None) -> AuthSettings:
    try:
        return msgspec.convert(section, AuthSettings)
    except msgspec.ValidationError as error:
        problem = str(error).replace("`$", "`" + ".".join(SECTION))
        raise ConfigError(f"`gateway.auth` cannot be used: {problem}.", path=path) from error


def _with_environment(settings: AuthSettings, environ: Mapping[str, str]) -> AuthSettings:
    def said(name: str) -> str | None:
        return environ.get(f"PEGBOARD_AUTH{name}") or None

    changes: dict[str, Any] = {}
    match said(""):
        case None:
            pass
        case "keys":
            changes["keys"] = True
        case "open":
            changes.update(keys=False, issuers=(), plugins={}, allow_open=True)
        case other:
            raise ConfigError(f"`PEGBOARD_AUTH` is `keys` or `open`, not {other!r}.")
    if said("_RESOURCE"):
        changes["resource"] = said("_RESOURCE")
    issuer = said("_ISSUER")
    if issuer is not None:
        audience = (said("_AUDIENCE") or "").split(",")
        changes["issuers"] = (
            TokenIssuer(
                issuer=issuer,
                audience=tuple(it for part in audience if (it := part.strip())),
                jwks_url=said("_JWKS_URL"),
                tenant_claim=said("_TENANT_CLAIM"),
            ),
        )
    return msgspec.structs.replace(settings, **changes)


def _checked(settings: AuthSettings, path: str | None) -> AuthSettings:
    for issuer in settings.issuers:
        for problem in _problems(issuer, settings):
            raise ConfigError(f"Issuer {issuer.issuer!r}: {problem}", path=path)
    if settings.resource is not None and not is_web_address(settings.resource):
        raise ConfigError(
            "`resource` is the address at which clients reach this gateway, "
            "such as `https://tools.example.com/mcp`.",
            path=path,
        )
    if len({it.issuer for it in settings.issuers}) < len(settings.issuers):
        raise ConfigError("Two `issuers` have the same `issuer`.", path=path)
    return settings


def _problems(issuer: TokenIssuer, settings: AuthSettings) -> Iterator[str]:
    if not issuer.audience and settings.resource is None:
        yield "set `audience` or `resource`, which its tokens must name in `aud`."
    unsafe = sorted(set(issuer.algorithms) - set(SAFE_ALGORITHMS))
    if unsafe or not issuer.algorithms:
        has, accepted = ", ".join(unsafe) or "nothing", ", ".join(SAFE_ALGORITHMS)
        yield f"`algorithms` contains {has}; the accepted ones are {accepted}."
    for address in (issuer.issuer, issuer.jwks_url):
        if address is not None and not is_safe_address(address):
            yield f"{address!r} is not an `https://` address."
    if not 0 <= issuer.leeway <= MOST_LEEWAY:
        yield f"`leeway` is 0 to {MOST_LEEWAY:g} seconds."
    for name in ("calls_per_minute", "concurrent_calls"):
        limit: int | None = getattr(issuer, name)
        if limit is not None and limit < 1:
            yield f"`{name}` is at least 1, not {limit}; leave it out for no limit."
    try:
        check_tenant(issuer.tenant)
    except ValueError as error:
        yield str(error)
