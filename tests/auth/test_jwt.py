"""Tokens of a real authorization server, and what attackers make of them."""

import hmac
import json
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from anyio.to_thread import run_sync
from hypothesis import given
from hypothesis import strategies as st
from joserfc.jwk import RSAKey

from pegboard.auth import AuthSettings, TokenIssuer, jwt
from pegboard.auth.authenticator import LONGEST_CREDENTIAL, CredentialAuthenticator
from pegboard.auth.jwt import IssuedTokens
from pegboard.errors import UnauthenticatedError
from pegboard.model.principal import OPERATOR, Principal
from tests.auth.token_server import RESOURCE, TokenServer, new_key, token_server


@pytest.fixture(scope="module")
def running() -> Iterator[TokenServer]:
    with token_server() as server:
        yield server


@pytest.fixture
def issuer(running: TokenServer) -> TokenIssuer:
    return TokenIssuer(issuer=running.issuer)


@pytest.fixture
def tokens(issuer: TokenIssuer) -> IssuedTokens:
    return accepting(issuer)


def accepting(issuer: TokenIssuer, **more: Any) -> IssuedTokens:
    changed = msgspec.structs.replace(issuer, **more)
    return IssuedTokens(AuthSettings(issuers=(changed,), resource=RESOURCE))


async def reason_of(tokens: IssuedTokens, token: str) -> str:
    with pytest.raises(UnauthenticatedError) as refused:
        await tokens.authenticate(token)
    return refused.value.reason


@pytest.mark.parametrize("alg", ["RS256", "ES256"])
async def test_a_token_from_the_server_says_whom_it_is_about(
    running: TokenServer, tokens: IssuedTokens, alg: str
) -> None:
    token = await run_sync(running.token, "pegboard:read pegboard:register openid", "ci", alg)
    assert tokens.recognizes(token)
    found = await tokens.authenticate(token)
    assert found.expires is not None
    assert found.expires > time.time()
    assert msgspec.structs.replace(found, expires=None) == Principal(
        tenant="default",
        subject=f"{running.issuer}|ci",
        scopes=frozenset({"read", "register"}),
    )


async def test_keys_of_every_family_are_known(running: TokenServer, tokens: IssuedTokens) -> None:
    edwards = new_key("OKP")
    running.keys.append(edwards)
    try:
        for key in running.keys:
            await tokens.authenticate(running.sign(key))
    finally:
        running.keys.remove(edwards)


async def test_where_the_keys_are_can_be_said(running: TokenServer, issuer: TokenIssuer) -> None:
    running.fetches.clear()
    await accepting(issuer, jwks_url=f"{running.issuer}/jwks").authenticate(running.sign())
    assert running.fetches == {"/jwks": 1}


@pytest.mark.parametrize(
    ("claims", "reason"),
    [
        ({"exp": 1}, "expired"),
        ({"exp": None}, "invalid"),
        ({"exp": "never"}, "invalid"),
        ({"exp": 10**400}, ""),
        ({"nbf": 10**11}, "invalid"),
        ({"iat": 10**11}, "invalid"),
        ({"aud": "https://other.example.com"}, "invalid"),
        ({"aud": RESOURCE + "/"}, "invalid"),
        ({"aud": []}, "invalid"),
        ({"aud": None}, "invalid"),
        ({"aud": 7}, "invalid"),
        ({"aud": ["https://other.example.com", RESOURCE]}, ""),
        ({"iss": "https://evil.example.com"}, "invalid"),
        ({"iss": None}, "invalid"),
        ({"iss": ["a"]}, "invalid"),
        ({"sub": None}, "invalid"),
        ({"sub": ""}, "invalid"),
        ({"sub": 7}, "invalid"),
        ({"sub": "a\nb"}, "invalid"),
        ({"sub": "x" * 999}, "invalid"),
    ],
)
async def test_what_a_token_says_must_be_right(
    running: TokenServer, tokens: IssuedTokens, claims: dict[str, Any], reason: str
) -> None:
    token = running.sign(**claims)
    if reason:
        assert await reason_of(tokens, token) == reason
    else:
        await tokens.authenticate(token)


@pytest.mark.parametrize(
    ("claims", "scopes"),
    [
        ({"scope": "pegboard:call"}, {"call"}),
        ({"scope": ""}, set()),
        ({"scope": "read call register admin"}, set()),
        ({"scope": None, "scp": ["pegboard:admin", 7, None]}, {"admin"}),
        ({"scope": None, "scp": "pegboard:read pegboard:call"}, {"read", "call"}),
        ({"scope": {"pegboard:admin": True}}, set()),
        ({"scope": 7}, set()),
        ({"scope": "PEGBOARD:ADMIN pegboard:admin\u00a0x"}, {"admin"}),
    ],
)
async def test_scopes_that_nobody_mapped_grant_nothing(
    running: TokenServer, tokens: IssuedTokens, claims: dict[str, Any], scopes: set[str]
) -> None:
    assert (await tokens.authenticate(running.sign(**claims))).scopes == scopes


async def test_claims_can_be_called_otherwise(running: TokenServer, issuer: TokenIssuer) -> None:
    tokens = accepting(
        issuer,
        scope_claim="permissions",
        scopes={"tools.use": ("read", "call")},
        tenant_claim="org",
        servers=("github",),
        calls_per_minute=60,
    )
    token = running.sign(permissions=["tools.use"], org="acme")
    found = await tokens.authenticate(token)
    assert (found.tenant, found.scopes, found.servers, found.calls_per_minute) == (
        "acme",
        {"read", "call"},
        ("github",),
        60,
    )


@pytest.mark.parametrize("tenant", [None, "", 7, OPERATOR, "a\x00b", ["acme"], "x" * 999])
async def test_nobody_gets_in_without_a_tenant_or_with_the_operators(
    running: TokenServer, issuer: TokenIssuer, tenant: object
) -> None:
    tokens = accepting(issuer, tenant_claim="org")
    assert await reason_of(tokens, running.sign(org=tenant)) == "invalid"


async def test_a_token_of_one_issuer_is_nobody_of_another(
    running: TokenServer, issuer: TokenIssuer
) -> None:
    with token_server() as other:
        both = AuthSettings(issuers=(issuer, TokenIssuer(issuer=other.issuer)), resource=RESOURCE)
        tokens = IssuedTokens(both)
        mine = await tokens.authenticate(running.sign(sub="me"))
        theirs = await tokens.authenticate(other.sign(sub="me"))
        assert mine.subject != theirs.subject
        # Signed by one in the name of the other.
        assert await reason_of(tokens, other.sign(iss=running.issuer)) == "invalid"


def part(value: object) -> str:
    return urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


async def test_a_token_without_a_signature_is_refused(
    running: TokenServer, tokens: IssuedTokens
) -> None:
    _, claims, signature = running.sign().split(".")
    for alg in ("none", "None", "NONE", "nOnE", "", None, [], 7):
        for ending in ("", signature):
            forged = f"{part({'alg': alg, 'typ': 'JWT'})}.{claims}.{ending}"
            assert await reason_of(tokens, forged) in ("invalid", "malformed")


async def test_the_public_key_is_no_shared_secret(
    running: TokenServer, tokens: IssuedTokens
) -> None:
    """The oldest trick: sign with HMAC, and the public key, which everybody has, as the secret."""
    public = running.keys[0]
    assert isinstance(public, RSAKey)
    _, claims, _ = running.sign().split(".")
    signed = f"{part({'alg': 'HS256', 'kid': public.kid})}.{claims}"
    for text in (public.as_pem(private=False), json.dumps(public.as_dict(private=False)).encode()):
        signature = urlsafe_b64encode(hmac.digest(text, signed.encode(), "sha256")).rstrip(b"=")
        assert await reason_of(tokens, f"{signed}.{signature.decode()}") == "invalid"


async def test_a_key_in_the_token_itself_is_not_looked_at(
    running: TokenServer, tokens: IssuedTokens
) -> None:
    mine = new_key("RSA")
    running.fetches.clear()
    for header in (
        {"jwk": mine.as_dict(private=False)},
        {"jku": f"{running.issuer}/evil"},
        {"x5u": f"{running.issuer}/evil"},
        {"kid": running.keys[0].kid},
        {"kid": None},
    ):
        assert await reason_of(tokens, running.sign(mine, header=header)) == "invalid"
    assert "/evil" not in running.fetches


@pytest.mark.parametrize(
    "header",
    [
        {"typ": "logout+jwt"},
        {"typ": "dpop+jwt"},
        {"crit": ["exp"], "exp": 1},
        {"crit": ["b64"], "b64": True},
        {"alg": "PS256"},
    ],
)
async def test_a_token_for_another_purpose_is_refused(
    running: TokenServer, tokens: IssuedTokens, header: dict[str, Any]
) -> None:
    _, claims, signature = running.sign().split(".")
    whole = {"alg": "RS256", "kid": running.keys[0].kid, **header}
    assert await reason_of(tokens, f"{part(whole)}.{claims}.{signature}") in (
        "invalid",
        "malformed",
    )


async def test_a_changed_token_is_refused(running: TokenServer, tokens: IssuedTokens) -> None:
    header, claims, signature = running.sign().split(".")
    await tokens.authenticate(f"{header}.{claims}.{signature}")
    more = part({**json.loads(part_of(claims)), "scope": "pegboard:admin"})
    assert await reason_of(tokens, f"{header}.{more}.{signature}") == "invalid"
    for changed in (signature[:-4], signature[::-1], ""):
        assert await reason_of(tokens, f"{header}.{claims}.{changed}") in ("invalid", "malformed")


def part_of(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


async def test_an_algorithm_that_is_not_listed_is_refused(
    running: TokenServer, issuer: TokenIssuer
) -> None:
    tokens = accepting(issuer, algorithms=("ES256",))
    assert await reason_of(tokens, running.sign(running.keys[0])) == "invalid"
    await tokens.authenticate(running.sign(running.keys[1]))


HOSTILE = [
    "..",
    "a.b.c",
    "ä.b.c",
    f"{part({'alg': 'RS256'})}..",
    f"{part([])}.{part({})}.x",
    f"{part({'alg': 'RS256'})}.{part([])}.x",
    f"{urlsafe_b64encode(b'[' * 5_000).decode()}.{part({})}.x",
    f"{part({'alg': 'RS256'})}.{urlsafe_b64encode(b'[' * 5_000).decode()}.x",
    f"{part({'alg': 'RS256', 'kid': {}})}.{part({'iss': 'x'})}.x",
    f"{part({'alg': 'RS256'})}.{urlsafe_b64encode(b'9' * 6_000).decode()}.x",
]


@pytest.mark.parametrize("token", HOSTILE, ids=range(len(HOSTILE)))
async def test_garbage_is_an_authentication_that_failed(tokens: IssuedTokens, token: str) -> None:
    assert await reason_of(tokens, token) in ("malformed", "invalid")


@given(parts=st.lists(st.text(max_size=30), min_size=3, max_size=3))
async def test_any_text_is_an_authentication_that_failed(parts: list[str]) -> None:
    tokens = IssuedTokens(
        AuthSettings(issuers=(TokenIssuer(issuer="https://x"),), resource=RESOURCE)
    )
    assert await reason_of(tokens, ".".join(parts)) in ("malformed", "invalid")


async def test_a_huge_token_is_not_looked_at(running: TokenServer, tokens: IssuedTokens) -> None:
    door = CredentialAuthenticator([tokens])
    huge = running.sign(padding="x" * LONGEST_CREDENTIAL)
    with pytest.raises(UnauthenticatedError) as refused:
        await door.authenticate(huge)
    assert refused.value.reason == "malformed"


async def test_a_token_that_was_checked_is_remembered_until_it_expires(
    running: TokenServer, tokens: IssuedTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = running.sign(exp=int(time.time()) + 30)
    first = await tokens.authenticate(token)
    assert await tokens.authenticate(token) is first
    later = time.time() + 45
    monkeypatch.setattr(time, "time", lambda: later)
    assert first.expires is not None
    assert later >= first.expires


async def test_only_so_many_tokens_are_remembered(
    running: TokenServer, tokens: IssuedTokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jwt, "MOST_CACHED", 3)
    made = [running.sign(jti=str(number)) for number in range(5)]
    found = [await tokens.authenticate(token) for token in made]
    again = [await tokens.authenticate(token) for token in made[::-1]]
    assert [one is other for one, other in zip(found[::-1], again, strict=True)] == [
        *[True] * 3,
        *[False] * 2,
    ]
