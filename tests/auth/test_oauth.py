"""What OAuth clients are told."""

import re

import pytest

from pegboard.auth import (
    AuthSettings,
    TokenIssuer,
    challenge,
    metadata_path,
    resource_metadata,
    scope_challenge,
)
from pegboard.errors import UnauthenticatedError

SETTINGS = AuthSettings(
    resource="https://tools.example.com/mcp",
    issuers=(
        TokenIssuer(issuer="https://one.example.com"),
        TokenIssuer(issuer="https://two.example.com", scopes={"use": ("call",)}),
    ),
)
PARAMETER = re.compile(r'(\w+)="([^"\\]*)"')


def said(header: str) -> dict[str, str]:
    scheme, _, rest = header.partition(" ")
    assert scheme == "Bearer"
    assert ", ".join(f'{name}="{text}"' for name, text in PARAMETER.findall(rest)) == rest
    return dict(PARAMETER.findall(rest))


def test_the_metadata_says_where_to_get_a_token() -> None:
    assert resource_metadata(SETTINGS) == {
        "resource": "https://tools.example.com/mcp",
        "resource_name": "Pegboard",
        "authorization_servers": ["https://one.example.com", "https://two.example.com"],
        "scopes_supported": ["pegboard:call", "pegboard:read", "use"],
        "bearer_methods_supported": ["header"],
    }
    assert metadata_path(SETTINGS) == "/.well-known/oauth-protected-resource/mcp"


def test_where_only_keys_are_accepted_there_is_no_metadata() -> None:
    keys = AuthSettings(keys=True, resource="https://tools.example.com/")
    assert resource_metadata(keys) is None
    assert metadata_path(keys) == "/.well-known/oauth-protected-resource"
    missing = UnauthenticatedError("Who?", reason="missing")
    assert said(challenge(keys, missing)) == {"realm": "pegboard"}


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        ("missing", None),
        ("malformed", "invalid_token"),
        ("expired", "invalid_token"),
        ("unknown", "invalid_token"),
    ],
)
def test_a_refusal_leads_to_the_metadata_and_says_what_was_wrong(
    reason: str, error: str | None
) -> None:
    failure = UnauthenticatedError("Not so.", reason=reason)  # pyright: ignore[reportArgumentType]
    told = said(challenge(SETTINGS, failure))
    assert told.get("error") == error
    assert told["scope"] == "pegboard:call pegboard:read use"
    assert told["resource_metadata"] == (
        "https://tools.example.com/.well-known/oauth-protected-resource/mcp"
    )


def test_where_one_scope_grants_everything_clients_are_told_of_it() -> None:
    whole = TokenIssuer(issuer="https://one.example.com", scopes={"all": ("admin",)})
    told = resource_metadata(AuthSettings(resource="https://a.example.com", issuers=(whole,)))
    assert told is not None
    assert told["scopes_supported"] == ["all"]


def test_nothing_breaks_out_of_the_header() -> None:
    evil = UnauthenticatedError('a"b\\c\r\nSet-Cookie: x=1 ключ', reason="invalid")
    header = challenge(SETTINGS, evil)
    assert header.isascii()
    assert header.isprintable()
    assert said(header)["error_description"] == "a'bc??Set-Cookie: x=1 ????"


def test_who_lacks_a_scope_is_told_which_to_ask_for() -> None:
    told = said(scope_challenge(SETTINGS, "call"))
    assert (told["error"], told["scope"]) == ("insufficient_scope", "pegboard:call use")
