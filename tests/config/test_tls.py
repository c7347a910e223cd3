"""The settings `tls` and `proxy` of a server."""

from pathlib import Path
from typing import Any

import pytest

from pegboard.config import LoadedConfig, Problem, ServerConfig, TlsConfig, entry_of, load_servers
from pegboard.errors import ConfigError

URL = "https://x.test/mcp"
PEM = "-----BEGIN PRIVATE KEY-----\nhunter2!\n"


def load(entry: dict[str, Any], **environ: str) -> LoadedConfig:
    return load_servers({"mcpServers": {"one": {"url": URL, **entry}}}, environ=environ)


def one(entry: dict[str, Any], **environ: str) -> ServerConfig:
    loaded = load(entry, **environ)
    assert loaded.problems == ()
    return loaded.servers[0]


def refusal(entry: dict[str, Any]) -> Problem:
    loaded = load(entry)
    assert loaded.servers == ()
    (problem,) = (it for it in loaded.problems if it.severity == "error")
    return problem


def test_paths_start_at_the_file_or_at_home_and_may_contain_variables(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(
        """{"mcpServers": {"one": {"url": "https://x.test", "tls": {
            "ca": "certs/ca.pem", "clientCert": "~/me.pem", "client_key": "${CERTS}/me.key",
            "clientKeyPassword": "${KEY_PASSWORD}"}}}}""",
        "utf-8",
    )
    environ = {"CERTS": "/etc/certs", "KEY_PASSWORD": "hunter2!", "HOME": "/home/me"}
    loaded = load_servers(file, environ=environ)
    assert loaded.problems == ()
    assert loaded.servers[0].tls == TlsConfig(
        ca=str(tmp_path / "certs/ca.pem"),
        client_cert="/home/me/me.pem",
        client_key="/etc/certs/me.key",
        client_key_password="hunter2!",
    )


def test_the_password_of_the_client_key_is_never_shown() -> None:
    tls = TlsConfig(client_cert="/me.pem", client_key_password="hunter2!")
    assert repr(tls) == "TlsConfig(client_cert='/me.pem')"
    assert tls.__rich_repr__() == [("client_cert", "/me.pem")]
    server = ServerConfig(name="one", transport="sse", url=URL, tls=tls)
    assert server.redact("wrong password hunter2!") == "wrong password ***"


def test_the_password_of_the_proxy_is_never_shown() -> None:
    server = one({"proxy": "http://me:${PW}@proxy.test:3128"}, PW="hunter2!")
    assert server.proxy == "http://me:hunter2!@proxy.test:3128"
    assert server.redact(f"407 from {server.proxy}") == "407 from http://me:***@proxy.test:3128"
    direct = ServerConfig(name="one", transport="sse", url=URL, proxy=server.proxy)
    assert "hunter2" not in direct.redact(f"407 from {direct.proxy}")


@pytest.mark.parametrize("written", [False, "", "none", " None "])
def test_a_server_may_do_without_the_proxy_of_the_environment(written: object) -> None:
    assert one({"proxy": written}).proxy == ""


def test_without_the_setting_the_environment_decides_on_the_proxy() -> None:
    assert one({}).proxy is None


@pytest.mark.parametrize("tls", [{}, {"ca": ""}, {"ca": None}, {"ca": "${CA:-}"}])
def test_empty_tls_settings_are_none(tls: dict[str, Any]) -> None:
    assert one({"tls": tls}).tls is None


@pytest.mark.parametrize(
    "proxy",
    [
        *("proxy.test:3128", "socks5://proxy.test", "http://", "http://proxy.test/path"),
        *("http://a b", "http://proxy.test:99999", "http://hunter2!@proxy.test\n.x"),
        *("http://[::1", True),
    ],
)
def test_an_unusable_proxy_is_refused_without_showing_it(proxy: object) -> None:
    message = refusal({"proxy": proxy}).message
    assert "`proxy` of server 'one' must be" in message
    assert "hunter2" not in message


@pytest.mark.parametrize("field", ["ca", "client_cert", "client_key"])
def test_the_content_of_a_pem_file_is_no_path_and_is_not_shown(field: str) -> None:
    message = refusal({"tls": {"client_cert": "me.pem", field: PEM}}).message
    assert message == (
        f"Server 'one': `tls.{field}` must be the path of a PEM file, not the content of the file."
    )


@pytest.mark.parametrize("field", ["client_key", "client_key_password"])
def test_a_key_needs_its_certificate(field: str) -> None:
    assert f"`tls.{field}` is given, so `tls.client_cert` is needed" in (
        refusal({"tls": {field: "${T:-x}"}}).message
    )


def test_a_wrong_type_names_the_field() -> None:
    assert "invalid `tls.ca`: expected `str`" in refusal({"tls": {"ca": ["a.pem"]}}).message
    assert "invalid `tls`: expected `object`" in refusal({"tls": "ca.pem"}).message


def test_a_misspelt_field_is_pointed_out() -> None:
    (problem,) = load({"tls": {"client_crt": "me.pem"}}).problems
    assert "unknown field `tls.client_crt`. Did you mean `clientCert`?" in problem.message


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({"proxy": "http://me:hunter2!@proxy.test"}, "proxy"),
        (
            {"tls": {"client_cert": "me.pem", "clientKeyPassword": "hunter2!"}},
            "tls.clientKeyPassword",
        ),
    ],
)
def test_a_secret_in_plain_text_is_pointed_out(entry: dict[str, Any], field: str) -> None:
    (problem,) = load(entry).problems
    assert problem.kind == "plain_secret"
    assert f"in plain text in `{field}`" in problem.message


def test_paths_of_keys_are_no_secrets() -> None:
    key = "/etc/ssl/private/client-0123456789abcdef.key"
    assert one({"tls": {"client_cert": "me.pem", "client_key": key}}).tls is not None


def test_a_server_that_is_switched_off_may_have_a_proxy_without_a_value() -> None:
    loaded = load({"proxy": "${NO_SUCH_PROXY}", "enabled": False})
    assert loaded.problems == ()
    assert loaded.servers[0].proxy == "${NO_SUCH_PROXY}"


def test_no_tls_settings_are_written_when_none_are_given() -> None:
    server = ServerConfig(name="one", transport="sse", url=URL, tls=TlsConfig(), proxy="")
    assert server.tls is None
    assert entry_of(server) == {"type": "sse", "url": URL, "proxy": ""}


def test_a_server_object_is_refused_like_an_entry() -> None:
    with pytest.raises(ConfigError, match="must be an address that begins with http://"):
        ServerConfig(name="one", transport="sse", url=URL, proxy="proxy.test")


@pytest.mark.parametrize(
    "entry",
    [{"tls": {"verify": False}}, {"verify_ssl": False}, {"tls": {"rejectUnauthorized": False}}],
)
def test_verification_cannot_be_switched_off_and_the_file_is_told_so(entry: dict[str, object]):
    loaded = load_servers({"mcpServers": {"a": {"url": "https://example.com/mcp", **entry}}})
    (problem,) = loaded.problems
    assert (problem.severity, problem.kind) == ("warning", "unknown_field")
    assert "cannot be switched off" in problem.message
    assert len(loaded.servers) == 1
