"""Who is let in: from the file, from the environment, and what cannot be."""

import json
from pathlib import Path
from typing import Any

import pytest

from pegboard.auth import AuthSettings, TokenIssuer, check_binding, load_auth_settings
from pegboard.auth.network_exposure import is_loopback
from pegboard.errors import ConfigError

RESOURCE = "https://tools.example.com/mcp"
ISSUER = "https://login.example.com"


def load(auth: object, **environ: str) -> AuthSettings:
    return load_auth_settings({"mcpServers": {}, "gateway": {"auth": auth}}, environ=environ)


def test_with_nothing_said_nobody_has_to_say_who_they_are() -> None:
    assert load_auth_settings({}, environ={}) == AuthSettings()
    assert not AuthSettings().required


def test_the_section_stands_in_the_file_with_the_servers(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    auth = {
        "keys": True,
        "resource": RESOURCE,
        "issuers": [
            {
                "issuer": ISSUER,
                "tenant_claim": "org",
                "scopes": {"tools": ["read", "call"]},
                "servers": ["git*"],
            }
        ],
    }
    path.write_text(
        "// with comments\n" + json.dumps({"mcpServers": {}, "gateway": {"auth": auth}}), "utf-8"
    )
    expected = AuthSettings(
        keys=True,
        resource=RESOURCE,
        issuers=(
            TokenIssuer(
                issuer=ISSUER,
                tenant_claim="org",
                scopes={"tools": ("read", "call")},
                servers=("git*",),
            ),
        ),
    )
    assert load_auth_settings(path, environ={}) == expected
    assert load_auth_settings(None, environ={"PEGBOARD_CONFIG": str(path)}) == expected


def test_variables_are_replaced() -> None:
    settings = load({"keys": True, "resource": "https://${HOST}/mcp"}, HOST="a.example.com")
    assert settings.resource == "https://a.example.com/mcp"
    with pytest.raises(ConfigError, match="HOST"):
        load({"keys": True, "resource": "https://${HOST}/mcp"})


def test_a_secret_file_is_looked_for_beside_the_file_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "etc").mkdir()
    path = tmp_path / "etc" / "mcp.json"
    for name in ("resource", ".resource"):
        path.with_name(name).write_text(RESOURCE, "utf-8")
    monkeypatch.chdir(tmp_path)
    for reference in ("${file:resource}", "${file:~/.resource}"):
        auth = {"keys": True, "resource": reference}
        path.write_text(json.dumps({"gateway": {"auth": auth}}), "utf-8")
        settings = load_auth_settings(path, environ={"HOME": str(path.parent)})
        assert settings.resource == RESOURCE


def test_the_environment_counts_more_than_the_file() -> None:
    assert load({}, PEGBOARD_AUTH="keys").keys
    opened = load({"keys": True}, PEGBOARD_AUTH="open")
    assert (opened.required, opened.allow_open) == (False, True)
    settings = load(
        {},
        PEGBOARD_AUTH_RESOURCE=RESOURCE,
        PEGBOARD_AUTH_ISSUER=ISSUER,
        PEGBOARD_AUTH_AUDIENCE="tools",
        PEGBOARD_AUTH_JWKS_URL=f"{ISSUER}/keys",
        PEGBOARD_AUTH_TENANT_CLAIM="org",
    )
    assert settings == AuthSettings(
        resource=RESOURCE,
        issuers=(
            TokenIssuer(
                issuer=ISSUER, audience=("tools",), jwks_url=f"{ISSUER}/keys", tenant_claim="org"
            ),
        ),
    )


def test_the_environment_may_name_several_audiences_separated_by_commas() -> None:
    named = {"PEGBOARD_AUTH_ISSUER": ISSUER, "PEGBOARD_AUTH_AUDIENCE": "tools, more,"}
    assert load({}, **named).issuers[0].audience == ("tools", "more")


@pytest.mark.parametrize(
    "auth",
    [
        [],
        {"keys": "yes"},
        {"key": True},
        {"resource": "tools.example.com"},
        {"resource": "https://tools.example.com/mcp#x"},
        {"issuers": [{}]},
        {"issuers": [{"issuer": ISSUER}]},
        {"issuers": [{"issuer": "http://login.example.com", "audience": ["a"]}]},
        {"issuers": [{"issuer": ISSUER, "audience": ["a"], "jwks_url": "file:///keys"}]},
        {"issuers": [{"issuer": ISSUER, "audience": ["a"], "algorithms": ["HS256"]}]},
        {"issuers": [{"issuer": ISSUER, "audience": ["a"], "algorithms": ["none"]}]},
        {"issuers": [{"issuer": ISSUER, "audience": ["a"], "algorithms": []}]},
        {"issuers": [{"issuer": ISSUER, "audience": ["a"], "leeway": 86_400}]},
        {"issuers": [{"issuer": ISSUER, "audience": ["a"], "tenant": "pegboard"}]},
        {"issuers": [{"issuer": ISSUER, "audience": ["a"], "scopes": {"x": ["write"]}}]},
        {"issuers": [{"issuer": ISSUER, "audience": ["a"], "calls_per_minute": 0}]},
        {"issuers": [{"issuer": ISSUER, "audience": ["a"], "concurrent_calls": 0}]},
        {"issuers": [{"issuer": ISSUER, "audience": ["a"], "concurrent_calls": -1}]},
        {"issuers": [{"issuer": ISSUER, "audience": ["a"]}] * 2},
    ],
)
def test_what_is_not_understood_is_refused_and_not_passed_over(auth: Any) -> None:
    with pytest.raises(ConfigError):
        load(auth)


def test_an_unknown_word_in_the_environment_is_refused() -> None:
    with pytest.raises(ConfigError, match="`keys` or `open`"):
        load({}, PEGBOARD_AUTH="off")


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("LOCALHOST.", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("192.168.1.7", False),
        ("localhost.example.com", False),
        ("127.0.0.1.example.com", False),
        ("2130706433", False),
    ],
)
def test_only_this_machine_is_served_where_nobody_says_who_they_are(
    host: str, loopback: bool
) -> None:
    assert is_loopback(host) is loopback
    for settings in (AuthSettings(keys=True), AuthSettings(allow_open=True)):
        check_binding(settings, host)
    if loopback:
        check_binding(AuthSettings(), host)
    else:
        with pytest.raises(ConfigError, match=r"PEGBOARD_AUTH=keys.*--allow-anonymous"):
            check_binding(AuthSettings(), host)
