from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pegboard.config import OAuthConfig, ServerConfig, Timeouts, TlsConfig, entry_of, load_servers
from pegboard.errors import ConfigError

TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
NAMES = st.text(
    st.characters(categories=["L", "N", "P"], exclude_characters="="), min_size=1, max_size=8
)
SECONDS = st.floats(min_value=0.001, max_value=1e8)
LISTS = st.lists(TEXT, max_size=3).map(tuple)
PATHS = st.text("abc ${}~.", min_size=1, max_size=8).map("/certs/{}.pem".format)
HEADER = st.text("abc ${}:,'~", max_size=8).map(str.strip)
HEADERS = st.dictionaries(
    st.sampled_from(["A", "x-api-key", "Authorization"]),
    HEADER,
)
OPTIONS: dict[str, st.SearchStrategy[Any]] = {
    "args": LISTS,
    "env": st.dictionaries(NAMES, TEXT, max_size=3),
    "cwd": TEXT.map(lambda text: "/srv/" + text.strip("/")),
    "headers": HEADERS,
    "bearer_token": HEADER,
    "oauth": st.builds(
        OAuthConfig,
        flow=st.sampled_from(["authorization_code", "client_credentials"]),
        client_id=st.none() | TEXT,
        client_secret=st.none() | TEXT,
        scopes=LISTS,
        redirect_port=st.integers(0, 65535),
        login_timeout=SECONDS,
        storage=st.sampled_from(["file", "keyring"]),
    ),
    "tls": st.builds(
        TlsConfig,
        ca=st.none() | PATHS,
        client_cert=PATHS,
        client_key=st.none() | PATHS,
        client_key_password=st.none() | TEXT.filter(bool),
    ),
    "proxy": st.sampled_from(["", "http://proxy.test:3128", "https://u:p${x}@proxy.test"]),
    "timeouts": st.builds(
        Timeouts, connect=SECONDS, list=SECONDS, call=SECONDS, idle=st.none() | SECONDS
    ),
    "protocol": st.sampled_from(["auto", "legacy", "2026-07-28"]),
    "allow": LISTS,
    "deny": LISTS,
    "prefix": TEXT,
    "tags": LISTS,
    "category": TEXT,
    "enabled": st.booleans(),
    "lazy": st.booleans(),
    "sharing": st.sampled_from(["shared", "per_client"]),
    "tasks": st.sampled_from(["always", "declared"]),
    "max_result_chars": st.integers(1, 10**9),
    "idempotent": LISTS,
    "trust_hints": st.booleans(),
}
REACHED = st.one_of(
    st.fixed_dictionaries(
        {"transport": st.just("stdio"), "command": TEXT.map(lambda text: "run" + text)}
    ),
    st.fixed_dictionaries(
        {
            "transport": st.sampled_from(["sse", "streamable_http"]),
            "url": st.sampled_from(["https://x.test/mcp", "http://u:p@x.test:8080/sse?a=${b}"]),
        }
    ),
    st.just({"transport": "websocket", "url": "wss://x.test"}),
    st.just({"transport": "streamable_http", "url": "https://x.test", "stateless": True}),
)


@st.composite
def configs(draw: st.DrawFn) -> ServerConfig:
    options = draw(st.fixed_dictionaries({}, optional=OPTIONS))
    return ServerConfig(name=draw(NAMES), **draw(REACHED), **options)


@given(st.lists(configs(), max_size=3, unique_by=lambda config: config.name))
def test_what_is_written_is_read_back(servers: list[ServerConfig]) -> None:
    content = {"mcpServers": {server.name: entry_of(server) for server in servers}}
    loaded = load_servers(content, environ={})
    assert loaded.servers == tuple(servers)
    assert [problem for problem in loaded.problems if problem.severity == "error"] == []


def test_only_what_differs_from_the_default_is_written() -> None:
    assert entry_of(ServerConfig(name="one", transport="stdio", command="x")) == {
        "type": "stdio",
        "command": "x",
    }


def test_an_object_of_this_process_cannot_be_written() -> None:
    with pytest.raises(ConfigError, match="object of this process"):
        entry_of(ServerConfig(name="one", transport="memory", server=object()))
