"""No secret is shown by anything that reading a configuration gives or raises."""

import json
import string
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.config import (
    LoadedConfig,
    ServerConfig,
    load_servers,
    parse_jsonc,
    secret_detection,
)
from pegboard.config.redaction import environment_read_once
from pegboard.errors import ConfigError

# What a message of ours could hold anyway, such as a word of English, proves nothing.
SECRETS = st.text(string.ascii_letters + string.digits + "-_.~+/=!", min_size=8, max_size=40).map(
    lambda text: f"q7{text}Zx9"
)
PLACES = (
    *("env", "header", "bearer", "flag", "flag=", "url password", "url query", "variable"),
    *("key", "auth", "pass", "json", "json in json", "command line", "default", "shell"),
    *("docker json", "docker escaped json", "docker pass", "dsn", "odbc", "account key", "slash"),
)
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
        "key": {"command": "npx", "args": ["run", "x", "--key", secret]},
        "auth": {"command": "run", "args": ["--auth", secret]},
        "pass": {"command": "run", "args": [f"--pass={secret}"]},
        "json": {"command": "run", "args": ["--config", json.dumps({"apiKey": secret})]},
        "json in json": {"command": "run", "args": [json.dumps(json.dumps({"token": [secret]}))]},
        "command line": {"command": f"node server.js --api-key '{secret}'"},
        "default": {"command": "run", "args": [f"${{NOT_SET:-{secret}}}"]},
        "shell": {
            "command": "sh",
            "args": ["-c", f"export API_KEY={secret} && exec npx server --token '{secret}'"],
        },
        "docker json": {"command": "docker", "args": ["-e", f"H={_headers(secret)}"]},
        "docker escaped json": {
            "command": "docker",
            "args": ["--env=H=" + _headers(secret).replace('"', '\\"')],
        },
        "docker pass": {"command": "docker", "args": ["run", f"-eDB_PASS={secret}"]},
        "dsn": {"command": "run", "args": ["--dsn", f"host=h password={secret} user=u"]},
        "odbc": {"command": "run", "args": ["--connect", f"Server=h;Pwd={secret};Uid=u"]},
        "account key": {"command": "run", "args": [f"Name=a;AccountKey={secret};Suffix=b"]},
        "slash": {"command": "cmd", "args": ["/c", "run", f"/token:{secret}"]},
        "variable": {"command": "run-${SECRET}", "args": ["${SECRET}"], "cwd": "/${SECRET}"},
    }
    return entries[place]


def _headers(secret: str) -> str:
    return json.dumps({"Accept": "text/html", "Authorization": f"Bearer {secret}"})


def shown(loaded: LoadedConfig) -> str:
    parts = [repr(loaded), *map(str, loaded.problems), *map(repr, loaded.problems)]
    for server in loaded.servers:
        parts += [repr(server), str(server), server.target, server.redact(f"failed: {server.args}")]
        parts += [repr(list(server.__rich_repr__()))]
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


ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "json": json.dumps,
    "json with accents": lambda text: json.dumps(text, ensure_ascii=False),
    "json in json": lambda text: json.dumps(json.dumps(text)),
    "python": repr,
    "path": quote,
    "form": quote_plus,
    "component": lambda text: quote(text, safe=""),
    "parameter": lambda text: str(httpx2.URL("https://x.test", params={"a": text})),
    "address": lambda text: str(httpx2.URL(f"https://x.test/?a={text}")),
}


@pytest.mark.parametrize("way", ENCODINGS)
@given(st.text(string.ascii_letters + "\"\\'/ é+&#%<{", min_size=6))
def test_a_secret_is_hidden_however_it_is_written(way: str, secret: str) -> None:
    server = ServerConfig(name="one", transport="stdio", command="x", env={"A": f"q7{secret}Zx9"})
    shown = server.redact(ENCODINGS[way](f"q7{secret}Zx9"))
    assert "q7" not in shown
    assert "***" in shown


def _basic(secret: str) -> str:
    return b64encode(f"ada:{secret}".encode()).decode()


# Values that hold a secret among other things, in `env`, `headers` or a variable.
COMPOSITES: dict[str, Callable[[str], str]] = {
    "address": lambda secret: f"postgres://ada:{quote(secret, safe='')}@host/db",
    "json": _headers,
    "json in json": lambda secret: json.dumps(_headers(secret)),
    "bearer": lambda secret: f"Bearer {secret}",
    "basic": lambda secret: f"Basic {_basic(secret)}",
    "cookie": lambda secret: f"password={secret}; y=1",
    "pairs": lambda secret: f"id=4,api_key={secret}",
    "dsn": lambda secret: f"host=h password={secret}",
    "options": lambda secret: f"--verbose --api-key {secret}",
}


@pytest.mark.parametrize("form", COMPOSITES)
@given(SECRETS, st.sampled_from(["env", "headers", "secrets"]))
def test_a_secret_within_a_value_is_hidden_also_alone(form: str, secret: str, field: str) -> None:
    value = COMPOSITES[form](secret)
    options: dict[str, Any] = {field: {value} if field == "secrets" else {"SETTING": value}}
    server = ServerConfig(name="one", transport="stdio", command="x", **options)
    assert secret not in server.redact(f"login failed: password={secret}!")


@given(SECRETS)
def test_a_cookie_is_hidden_whatever_it_is_called(secret: str) -> None:
    headers = {"Cookie": f"sid={secret}; y=1"}
    server = ServerConfig(name="one", transport="sse", url="https://x.test", headers=headers)
    assert secret not in server.redact(f"no session {secret}")


def test_a_password_of_an_address_is_hidden_as_http_sends_it() -> None:
    server = ServerConfig(name="one", transport="sse", url="https://ada:hunter%212@x.test/sse")
    assert server.redact(f"Authorization: Basic {_basic('hunter!2')}") == "Authorization: Basic ***"


@given(SECRETS)
def test_the_words_around_a_secret_stay_readable(secret: str) -> None:
    line = f"API_KEY={secret} exec server --verbose"
    server = ServerConfig(
        name="one",
        transport="stdio",
        command="sh",
        args=("-c", line),
        headers={"Authorization": f"Bearer {secret}"},
    )
    text = "Bearer token refused: the server could not exec"
    assert server.redact(text) == text


@pytest.mark.parametrize(
    ("args", "target"),
    [
        (("--password", "root"), "run --password ***"),
        (("--password=a", "--all", "-a"), "run --password=*** --all -***"),
        (("postgresql://postgres:admin@h/db",), "run postgresql://postgres:***@h/db"),
        (("-e", '{"apiKey": "a\\"b"}'), 'run -e {"apiKey": "***"}'),
        (("sh", "-c", "API_KEY=ab exec run --token 'cd'"), "run sh -c API_KEY=***"),
        (("--token", "*"), "run --token *"),
        (("--pass", ""), "run --pass "),
    ],
)
def test_a_short_secret_is_hidden_where_its_place_is_known(
    args: tuple[str, ...], target: str
) -> None:
    server = ServerConfig(name="one", transport="stdio", command="run", args=args)
    assert server.target == target


def test_a_target_is_one_short_line() -> None:
    args = ("-c", "import os\n\x1b[31m\u202e", "x" * 300_000, "--token", "hunter2hunter2")
    target = ServerConfig(name="one", transport="stdio", command="python", args=args).target
    assert target.startswith(r"python -c import os\n\x1b[31m\u202e xxx")
    assert len(target) == 200
    assert target.endswith("x…")


def test_a_secret_is_hidden_before_a_target_is_cut() -> None:
    args = ("x" * 180, "--token", "q7" * 20)
    server = ServerConfig(name="one", transport="stdio", command="run", args=args)
    assert "q7" not in server.target


def test_an_address_is_hidden_as_it_is_sent() -> None:
    url = """https://x.test/mcp?token=q7%20a'b"c&q7-alone#q7-behind"""
    server = ServerConfig(name="one", transport="sse", url=url)
    assert "q7" not in server.redact(f"GET {httpx2.URL(url)}, {url}")


def test_every_line_of_a_secret_is_hidden() -> None:
    key = "-----BEGIN KEY-----\nq7first\nq7second\n-----END KEY-----"
    server = ServerConfig(name="one", transport="stdio", command="x", env={"KEY": key})
    assert "q7" not in "".join(map(server.redact, key.splitlines()))


@pytest.mark.parametrize(
    "entry",
    [
        {"url": "https://x.test", "headers": {"X-Key: q7-hidden": "1"}},
        {"url": "https://x.test", "headers": {"q7-hidden :": "1"}},
        {"command": "x", "env": {"q7-hidden=": "1"}},
        {"command": "x", "env": {"TOKEN=q7-hidden": "hunter2!"}},
        {"command": "x", "env": {"TOKEN: q7-hidden": []}},
        {"command": "x", "--api-key q7-hidden": 1},
        {"command": "x", "ghp_q7hiddenq7hiddenq7hidden": 1},
        {"url": "https://x.test", "oauth": {"secret=q7-hidden": 1}},
        {"command": "x", "Q7hidden-0123456789abcdef": 1},
        {"url": "https://x.test", "headers": {"Q7hidden0123456789abcd": "\n"}},
        {"command": "x", "args": ["${input:Q7hidden0123456789abcd}"]},
        {"command": "x", "args": ["${ghp_q7hiddenq7hiddenq7hidden}"]},
    ],
)
def test_a_secret_in_the_place_of_a_name_is_not_quoted(
    tmp_path: Path, entry: dict[str, Any]
) -> None:
    fields = json.dumps(entry)[1:-1]
    path = tmp_path / "mcp.json"
    # All of it twice, so that duplicates are told of, too.
    path.write_text(f'{{"mcpServers": {{"one": {{{fields}, {fields}}}}}}}', "utf-8")
    problems = load_servers(path, environ={}).problems
    assert len(problems) >= 2
    assert "q7" not in "".join(map(str, problems)).lower()


@pytest.mark.parametrize("entry", [5, {"command": 5}, {"command": "x", "timeouts": {"call": 1e12}}])
def test_a_secret_in_the_place_of_a_servers_name_is_not_quoted(entry: object) -> None:
    content = {"mcpServers": {"sk-q7hiddenq7hiddenq7hidden": entry}}
    (problem,) = load_servers(content, environ={}).problems
    assert "q7" not in repr(problem)
    assert "Server '…'" in problem.message


def test_pretty_printers_are_shown_no_more_than_others() -> None:
    server = ServerConfig(
        name="one",
        transport="sse",
        url="https://x.test/sse?token=hunter2",
        bearer_token="hunter2",
    )
    assert list(server.__rich_repr__()) == [
        ("name", "one"),
        ("transport", "sse"),
        ("target", "https://x.test/sse"),
    ]
    loaded = LoadedConfig(servers=(server,))
    assert "hunter2" not in repr(list(loaded.__rich_repr__()))


@given(st.from_regex(secret_detection._SIMPLE, fullmatch=True))  # pyright: ignore[reportPrivateUsage]
def test_a_simple_text_has_neither_parts_nor_the_form_of_a_secret(text: str) -> None:
    assert list(secret_detection._parts(text)) == []  # pyright: ignore[reportPrivateUsage]
    assert list(secret_detection._by_their_form(text)) == []  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("address", "password"),
    [
        ("http://user:canary-42@proxy.test:3128", "canary-42"),
        ("user:canary-42@proxy.test:3128", "canary-42"),
        ("//user:canary-42@proxy.test:3128", "canary-42"),
        ("canary-42@proxy.test:3128", "canary-42"),
        ("http://user:canary/42@proxy.test:3128", "canary/42"),
        ("http://user:canary#42@proxy.test:3128", "canary#42"),
        ("http://user:can%61ry-42@proxy.test:3128", "canary-42"),
        ("user:canary-42@proxy.test:3128", b64encode(b"user:canary-42").decode()),
    ],
)
@pytest.mark.parametrize("name", ["HTTPS_PROXY", "all_proxy", "PIP_PROXY"])
def test_a_password_of_an_inherited_proxy_is_hidden_however_its_address_is_written(
    monkeypatch: pytest.MonkeyPatch, name: str, address: str, password: str
) -> None:
    monkeypatch.setenv(name, address)
    (server,) = load_servers({"mcpServers": {"a": {"command": "run"}}}).servers
    shown = server.redact(f"The proxy {address} refused {password}.")
    assert "canary" not in shown
    assert password not in shown
    assert "proxy.test:3128 refused ***." in shown


def test_what_programs_inherit_is_hidden_also_where_it_is_looked_up_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://ada:canary-0031@proxy.test:3128")
    entry = inheriting("a")
    other = inheriting("b")
    with environment_read_once():
        assert entry.target == "run *** canary-0032"
        # It is read once, and again behind the block.
        monkeypatch.setenv("HTTPS_PROXY", "http://ada:canary-0032@proxy.test:3128")
        assert other.target == "run *** canary-0032"
    last = inheriting("c")
    assert last.target == "run canary-0031 ***"


def inheriting(name: str) -> ServerConfig:
    args = ("canary-0031", "canary-0032")
    return ServerConfig(name=name, transport="stdio", command="run", args=args)
