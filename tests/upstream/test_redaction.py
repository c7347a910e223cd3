"""What the libraries below us log shows no secret of any server that is alive."""

import gc
import logging

import pytest

from pegboard.config import ServerConfig
from pegboard.upstream.transport import hide_secrets_of


def docs(secret: str) -> ServerConfig:
    config = ServerConfig(
        name="docs", transport="streamable_http", url=f"https://x.test/mcp?api_key={secret}"
    )
    hide_secrets_of(config)
    return config


def logged(caplog: pytest.LogCaptureFixture, text: str) -> str:
    caplog.clear()
    with caplog.at_level(logging.INFO):
        logging.getLogger("httpx2").info("HTTP Request: %s", text)
    return caplog.messages[0]


def test_servers_of_one_name_all_keep_their_secrets(caplog: pytest.LogCaptureFixture) -> None:
    servers = [docs("first-secret"), docs("second-secret")]
    text = " ".join(str(server.url) for server in servers)
    assert logged(caplog, text).count("?api_key=***") == 2


def test_servers_that_are_gone_are_not_kept_for_their_secrets(
    caplog: pytest.LogCaptureFixture,
) -> None:
    secret = "secret-of-no-server"
    docs(secret)
    gc.collect()
    assert secret in logged(caplog, secret)
