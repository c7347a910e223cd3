"""The authenticator: which credential is sent, and who is asked about it."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.to_thread import run_sync

from pegboard.auth import (
    AnonymousAuthenticator,
    ApiKeys,
    AuthSettings,
    CredentialAuthenticator,
    KeyGrant,
    TokenIssuer,
    credential_in,
    open_authenticator,
)
from pegboard.auth.signing_keys import SECONDS
from pegboard.errors import ConfigError, UnauthenticatedError
from pegboard.model import Principal
from pegboard.model.principal import ANONYMOUS, LOCAL, OPERATOR
from pegboard.storage import open_store
from tests.auth.token_server import RESOURCE, token_server


class Passphrase:
    """A kind of credential that a package might bring."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.word = options["word"]
        self.closed = False

    def recognizes(self, credential: str) -> bool:
        return credential.startswith("open ")

    async def authenticate(self, credential: str) -> Principal:
        if credential != f"open {self.word}":
            raise UnauthenticatedError("Wrong word.", reason="unknown")
        return Principal(subject="friend")

    def close(self) -> None:
        self.closed = True


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, **offers: str) -> None:
    """Let a package be there that offers authenticators."""
    about = folder / "locks-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: locks\nVersion: 1.0\n", "utf-8")
    lines = [f"{name} = {place}" for name, place in offers.items()]
    (about / "entry_points.txt").write_text(
        "\n".join(["[pegboard.authenticators]", *lines]), "utf-8"
    )
    monkeypatch.syspath_prepend(str(folder))


@pytest.mark.parametrize(
    ("authorization", "api_key", "found"),
    [
        (None, None, None),
        ("", "", None),
        ("Bearer abc", None, "abc"),
        ("bearer   abc ", None, "abc"),
        ("BEARER abc", "", "abc"),
        (None, "abc", "abc"),
        (None, " abc ", "abc"),
        ("Bearer abc", "abc", "abc"),
        ("Bearer", None, None),
        ("Bearer ", None, None),
    ],
)
def test_the_credential_is_in_one_of_two_headers(
    authorization: str | None, api_key: str | None, found: str | None
) -> None:
    assert credential_in(authorization, api_key) == found


@pytest.mark.parametrize(
    ("authorization", "api_key"),
    [("Basic dXNlcjpwdw==", None), ("abc", None), ("Bearer abc", "other"), ("Basic x", "abc")],
)
def test_headers_that_say_something_else_or_two_things_are_malformed(
    authorization: str, api_key: str | None
) -> None:
    with pytest.raises(UnauthenticatedError) as refused:
        credential_in(authorization, api_key)
    assert refused.value.reason == "malformed"


@pytest.mark.covers("R-REG-37")
async def test_without_credentials_every_caller_is_the_same_and_registers_only_if_allowed() -> None:
    assert await AnonymousAuthenticator().authenticate(None) is ANONYMOUS
    assert await AnonymousAuthenticator(allow_register=True).authenticate(None) is LOCAL
    for allowed, principal in ((False, ANONYMOUS), (True, LOCAL)):
        async with open_authenticator(AuthSettings(allow_register=allowed)) as authenticator:
            assert await authenticator.authenticate("whatever") is principal


@pytest.mark.parametrize(
    ("credential", "reason"),
    [
        (None, "missing"),
        ("", "missing"),
        ("a.b.c", "unknown"),
        ("pb_x", "unknown"),
        ("ключ", "malformed"),
        ("x" * 20_000, "malformed"),
        ("open sesame", "unknown"),
    ],
)
async def test_a_door_lets_in_nobody_it_does_not_know(credential: str | None, reason: str) -> None:
    authenticator = CredentialAuthenticator([Passphrase({"word": "please"})])
    with pytest.raises(UnauthenticatedError) as refused:
        await authenticator.authenticate(credential)
    assert refused.value.reason == reason
    assert (await authenticator.authenticate("open please")).subject == "friend"


async def test_nobody_becomes_the_operator_by_a_plugin() -> None:
    class Careless(Passphrase):
        async def authenticate(self, credential: str) -> Principal:
            return Principal(tenant=OPERATOR, subject="anybody")

    with pytest.raises(UnauthenticatedError) as refused:
        await CredentialAuthenticator([Careless({"word": ""})]).authenticate("open please")
    assert refused.value.reason == "invalid"


async def test_keys_tokens_and_plugins_open_the_same_door(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, words=f"{__name__}:Passphrase")
    path = tmp_path / "pegboard.db"

    def make_key() -> str:
        with open_store(path, tenant=OPERATOR) as store, ApiKeys(store) as keys:
            return keys.create(KeyGrant(tenant="team")).secret

    secret = await run_sync(make_key)
    with token_server() as running:
        settings = AuthSettings(
            keys=True,
            issuers=(TokenIssuer(issuer=running.issuer),),
            resource=RESOURCE,
            plugins={"words": {"word": "please"}},
        )
        async with open_authenticator(settings, storage=path) as authenticator:
            assert (await authenticator.authenticate(secret)).tenant == "team"
            assert (await authenticator.authenticate(running.sign())).tenant == "default"
            assert (await authenticator.authenticate("open please")).subject == "friend"
            with pytest.raises(UnauthenticatedError):
                await authenticator.authenticate(None)


async def test_while_an_issuer_is_away_tokens_with_known_keys_are_let_in_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pegboard.auth.signing_keys.FRESH", -1.0)
    monkeypatch.setattr("pegboard.auth.signing_keys.PAUSE", 0.0)
    with token_server() as running:
        issuers = (TokenIssuer(issuer=running.issuer),)
        settings = AuthSettings(issuers=issuers, resource=RESOURCE)
        async with open_authenticator(settings) as authenticator:
            await authenticator.authenticate(running.sign())
            running.is_open.clear()
            try:
                # A fetch that nobody answers takes longer.
                with anyio.fail_after(SECONDS / 2):
                    for subject in "abc":
                        await authenticator.authenticate(running.sign(sub=subject))
            finally:
                running.is_open.set()


async def test_what_goes_wrong_while_the_door_is_open_is_raised_as_it_is() -> None:
    settings = AuthSettings(
        issuers=(TokenIssuer(issuer="https://login.example.com"),), resource=RESOURCE
    )
    with pytest.raises(KeyError, match="mine"):
        async with open_authenticator(settings):
            raise KeyError("mine")


async def test_a_plugin_that_nobody_offers_keeps_the_door_shut() -> None:
    settings = AuthSettings(plugins={"nobody": {}})
    with pytest.raises(ConfigError, match=r"No installed package provides .* 'nobody'"):
        async with open_authenticator(settings):
            pass


async def test_a_plugin_that_cannot_be_loaded_keeps_the_door_shut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch, broken="nowhere:Thing")
    with pytest.raises(ConfigError, match="cannot be used"):
        async with open_authenticator(AuthSettings(plugins={"broken": {}})):
            pass
