"""JWT access tokens of OAuth 2.1 authorization servers: check the signature and the claims."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import anyio
import jwt

from pegboard.auth.key_record import check_tenant
from pegboard.auth.settings import AuthSettings, TokenIssuer
from pegboard.auth.signing_keys import Fetch, SigningKeys, fetch_document
from pegboard.errors import UnauthenticatedError
from pegboard.model.principal import Principal, Scope
from pegboard.storage import check_key

__all__ = ["IssuedTokens"]

MOST_CACHED = 4096
"""How many checked tokens are cached."""
CACHED_FOR = 60.0
"""Seconds for which a checked token is cached."""
LATEST = 2**53
# A token for another purpose, such as a logout token, is not an access token.
_TYPES = frozenset({"jwt", "at+jwt", "application/at+jwt", "application/jwt"})


class _Checked(NamedTuple):
    principal: Principal
    at: float
    keys: SigningKeys
    generation: int


class IssuedTokens:
    """Accepts signed tokens that the configured issuers made for this gateway."""

    def __init__(self, settings: AuthSettings, *, fetch: Fetch = fetch_document) -> None:
        own = () if settings.resource is None else (settings.resource,)
        self._audiences = {it.issuer: it.audience or own for it in settings.issuers}
        self._issuers = {it.issuer: it for it in settings.issuers}
        self._keys = {it.issuer: SigningKeys(it, fetch=fetch) for it in settings.issuers}
        self._cached: OrderedDict[bytes, _Checked] = OrderedDict()

    def recognizes(self, credential: str) -> bool:
        """Tell whether a credential has the form of a signed token."""
        return credential.count(".") == 2

    async def authenticate(self, credential: str) -> Principal:
        """Return the principal that a token identifies.

        Raises:
            UnauthenticatedError: when it is not accepted, or its issuer's keys are unavailable.
        """
        # The cache holds a hash, so that the token itself does not stay in memory.
        fingerprint = hashlib.sha256(credential.encode()).digest()
        now = time.time()
        checked = self._cached.get(fingerprint)
        if checked is not None and _still_good(checked, now):
            return checked.principal
        issuer, header = self._named_issuer(credential)
        keys = self._keys[issuer.issuer]
        algorithm = _algorithm(header, issuer)
        key = await keys.find(_key_id(header), algorithm)
        claims = _claims(credential, key, issuer, audience=self._audiences[issuer.issuer])
        principal = _principal(claims, issuer)
        self._cache(fingerprint, _Checked(principal, now, keys, keys.generation))
        return principal

    async def keep_fresh(self) -> None:
        """Fetch the issuers' old keys again in the background, until cancelled.

        An issuer that does not answer does not delay the others.
        """
        async with anyio.create_task_group() as tasks:
            for keys in self._keys.values():
                tasks.start_soon(keys.keep_fresh)

    def close(self) -> None:
        """Clear the cache of tokens."""
        self._cached.clear()

    def _named_issuer(self, token: str) -> tuple[TokenIssuer, Mapping[str, Any]]:
        try:
            unchecked = jwt.decode_complete(token, options={"verify_signature": False})
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise UnauthenticatedError("This is not a token.", reason="malformed") from None
        name = unchecked["payload"].get("iss")
        issuer = self._issuers.get(name) if isinstance(name, str) else None
        if issuer is None:
            raise _invalid("Tokens of its issuer are not accepted here.")
        return issuer, unchecked["header"]

    def _cache(self, fingerprint: bytes, checked: _Checked) -> None:
        self._cached[fingerprint] = checked
        self._cached.move_to_end(fingerprint)
        if len(self._cached) > MOST_CACHED:
            self._cached.popitem(last=False)


def _still_good(checked: _Checked, now: float) -> bool:
    return (
        0 <= now - checked.at < CACHED_FOR
        and checked.generation == checked.keys.generation
        and now < cast("float", checked.principal.expires)
    )


def _algorithm(header: Mapping[str, Any], issuer: TokenIssuer) -> str:
    algorithm, kind = header.get("alg"), header.get("typ", "JWT")
    if not isinstance(algorithm, str) or algorithm not in issuer.algorithms:
        raise _invalid("Its signature algorithm is not accepted here.")
    if not isinstance(kind, str) or kind.lower() not in _TYPES or "crit" in header:
        raise _invalid("It is not an access token.")
    return algorithm


def _key_id(header: Mapping[str, Any]) -> str | None:
    key_id = header.get("kid")
    if key_id is not None and not isinstance(key_id, str):
        raise _invalid("Its key id (`kid`) is not a text.")
    return key_id


def _claims(
    token: str, key: jwt.PyJWK, issuer: TokenIssuer, *, audience: tuple[str, ...]
) -> Mapping[str, Any]:
    try:
        return jwt.decode(
            token,
            key,
            algorithms=[key.algorithm_name],
            audience=audience,
            issuer=issuer.issuer,
            leeway=issuer.leeway,
            options={"require": ["exp", "iss", "aud", "sub"], "enforce_minimum_key_length": True},
        )
    except jwt.ExpiredSignatureError:
        raise UnauthenticatedError("The token has expired.", reason="expired") from None
    except jwt.ImmatureSignatureError:
        raise _invalid("It is not valid yet.") from None
    except jwt.InvalidAudienceError:
        raise _invalid("It was issued for another audience (`aud`).") from None
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError):
        raise _invalid("Its signature or its claims are wrong.") from None


def _principal(claims: Mapping[str, Any], issuer: TokenIssuer) -> Principal:
    try:
        subject = check_key("subject", claims["sub"])
        tenant = check_tenant(
            issuer.tenant if issuer.tenant_claim is None else claims.get(issuer.tenant_claim)
        )
    except (ValueError, TypeError):
        raise _invalid("Its subject or its tenant is missing or not valid.") from None
    return Principal(
        tenant=tenant,
        # With the issuer: a subject of one issuer must not pass for a subject of another.
        subject=f"{issuer.issuer}|{subject}",
        scopes=frozenset(_scopes(claims, issuer)),
        servers=issuer.servers,
        tools=issuer.tools,
        expires=min(int(claims["exp"]), LATEST) + issuer.leeway,
        calls_per_minute=issuer.calls_per_minute,
        concurrent_calls=issuer.concurrent_calls,
    )


def _scopes(claims: Mapping[str, Any], issuer: TokenIssuer) -> list[Scope]:
    if issuer.scope_claim is None:
        said = claims.get("scope", claims.get("scp", ""))
    else:
        said = claims.get(issuer.scope_claim, "")
    words = said.split() if isinstance(said, str) else said
    if not isinstance(words, list):
        return []
    named = [it for it in cast("list[object]", words) if isinstance(it, str)]
    return [scope for name in named for scope in issuer.scopes.get(name, ())]


def _invalid(why: str) -> UnauthenticatedError:
    return UnauthenticatedError(f"The token is not accepted. {why}", reason="invalid")
