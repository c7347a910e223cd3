"""No secret is shown by anything that reading a configuration gives or raises."""

import json
import string
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.config import LoadedConfig, ServerConfig, load_servers, parse_jsonc
from pegboard.errors import ConfigError

# What a message of ours could hold anyway, such as a word of English, proves nothing.
SECRETS = st.text(string.ascii_letters + string.digits + "-_.~+/=!", min_size=8, max_size=40).map(
    lambda text: f"q7{text}Zx9"
)
PLACES = ("env", "header", "bearer", "flag", "flag=", "url password", "url query", "variable")
FLAWS: list[dict[str, Any]] = [
    {},
    {"lazy": "yes"},
    {"command": "x", "url": "https://x.test"},
    {"type": "unheard-of"},
    {"surprise": 1},
    {"cwd": "${NO_SUCH_THING}"},
    {"timeouts": {"call": -1}},
    {"envFile": "nowhere.env"},
]


def entry_with(secret: str, place: str) -> dict[str, Any]:
    remote = {"url": "https://x.test/mcp"}
    entries: dict[str, dict[str, Any]] = {
        "env": {"command": "run", "env": {"SETTING": secret}, "args": [secret]},
        "header": {**remote, "headers": {"Authorization": f"Bearer {secret}"}},
        "bearer": {**remote, "bearer_token": secret},
        "flag": {"command": "run", "args": ["--api-key", secret]},
        "flag=": {"command": "run", "args": [f"--password={secret}"]},
        "url password": {"url": f"https://user:{quote(secret, safe='')}@x.test/mcp"},
        "url query": {"url": f"https://x.test/mcp?token={quote(secret, safe='')}"},
        "variable": {"command": "run-${SECRET}", "args": ["${SECRET}"], "cwd": "/${SECRET}"},
    }
    return entries[place]


def shown(loaded: LoadedConfig) -> str:
    parts = [repr(loaded), *map(str, loaded.problems), *map(repr, loaded.problems)]
    for server in loaded.servers:
        parts += [repr(server), str(server), server.target, server.redact(f"failed: {server.args}")]
    return "\n".join(parts)


@given(SECRETS, st.sampled_from(PLACES), st.sampled_from(FLAWS))
def test_a_secret_is_never_shown(secret: str, place: str, flaw: dict[str, Any]) -> None:
    content = {"mcpServers": {"one": {**entry_with(secret, place), **flaw}}}
    environ = {"SECRET": secret}
    told = shown(load_servers(content, environ=environ))
    try:
        load_servers(content, environ=environ, strict=True)
    except ConfigError as error:
        told += f"{error}{error!r}{error.__cause__!r}{error.__context__!r}"
    assert secret not in told
    assert quote(secret, safe="") not in told


@given(SECRETS, st.sampled_from(PLACES), st.integers(min_value=1))
def test_a_broken_file_does_not_show_it_either(secret: str, place: str, cut: int) -> None:
    text = json.dumps({"mcpServers": {"one": entry_with(secret, place)}})
    text = text[: -(cut % (len(text) - 1) + 1)]
    with pytest.raises(ConfigError) as caught:
        parse_jsonc(text)
    assert secret not in str(caught.value) + repr(caught.value)


@pytest.mark.parametrize("wrong", ["sk-verysecretvalue", ["sk-verysecretvalue"], {"a": [5]}])
@pytest.mark.parametrize("field", ["command", "args", "env", "url", "headers", "bearer_token"])
@pytest.mark.parametrize("strange", ["oauth", "protocol", "type", "timeouts", "tags", "sharing"])
def test_a_value_in_the_wrong_place_is_not_quoted(wrong: object, field: str, strange: str) -> None:
    content = {"mcpServers": {"one": {field: wrong, strange: "sk-verysecretvalue"}}}
    loaded = load_servers(content, environ={})
    assert "verysecret" not in "".join(map(str, loaded.problems))


def test_a_server_hides_its_secrets_in_any_text() -> None:
    server = ServerConfig(
        name="one",
        transport="sse",
        url="https://ada:pass%21word@x.test/t/0123456789abcdef0123/sse?key=query-value",
        headers={"Authorization": "Bearer header-value"},
        bearer_token="bearer-value",
        args=("--token", "flag-value"),
        secrets=frozenset({"other-value"}),
    )
    text = (
        "pass%21word pass!word query-value header-value bearer-value flag-value other-value "
        "0123456789abcdef0123"
    )
    assert set(server.redact(text).split()) == {"***"}
    assert server.target == "https://x.test/t/***/sse"
