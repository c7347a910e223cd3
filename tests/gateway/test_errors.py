import logging

import pytest

from pegboard import ServerConfig
from pegboard.errors import (
    CircuitOpenError,
    ConfigError,
    ConnectionLostError,
    NotConnectedError,
    PegboardError,
    ProtocolError,
    SearchDataError,
    ServerAuthenticationError,
    ServerNotFoundError,
    ServerTimeoutError,
    ServerUnavailableError,
    StoreUnavailableError,
)
from pegboard.gateway import Gateway, RpcError
from pegboard.gateway.errors import failure_of, rpc_error_of
from pegboard.model.principal import LOCAL, Principal
from tests.gateway.clients import Caller, text_of
from tests.gateway.servers import hub

INNER = "/opt/secret/server --token abc; its last words: no database"
CALLER = Principal(subject="key", scopes=frozenset({"call"}))
TELLING = [
    *(
        kind(INNER, server="calc")
        for kind in (
            ServerAuthenticationError,
            CircuitOpenError,
            ConnectionLostError,
            NotConnectedError,
            ProtocolError,
            ServerTimeoutError,
            ServerUnavailableError,
        )
    ),
    StoreUnavailableError(INNER, url="postgresql://db"),
    ServerNotFoundError("calc", known=[INNER]),
    ConfigError(INNER),
    SearchDataError(INNER),
]


@pytest.mark.parametrize("error", TELLING, ids=lambda error: type(error).__name__)
def test_how_servers_are_run_is_told_to_operators_and_to_the_log_only(
    error: PegboardError, caplog: pytest.LogCaptureFixture
) -> None:
    assert INNER in text_of(failure_of(error, LOCAL))
    assert INNER in rpc_error_of(error, LOCAL).message
    assert not caplog.records
    with caplog.at_level(logging.DEBUG, "pegboard.gateway"):
        told = [text_of(failure_of(error, CALLER)), rpc_error_of(error, CALLER).message]
    assert not any(word in words for words in told for word in ("secret", "database"))
    if not isinstance(error, ServerNotFoundError):
        assert INNER in caplog.text


def test_what_a_server_says_itself_is_passed_on() -> None:
    error = ProtocolError("Server 'calc' answered: no.", server="calc", rpc_code=-32000)
    error.rpc_message = "no"
    assert text_of(failure_of(error, CALLER)) == str(error)
    assert rpc_error_of(error, CALLER).message == "no"


async def test_a_server_that_cannot_be_started_is_called_so_and_no_more() -> None:
    gone = ServerConfig(name="gone", transport="stdio", command="/nonexistent/secret/server")
    async with hub(gone) as it, Gateway(it) as gateway:
        for principal, is_told in ((CALLER, False), (LOCAL, True)):
            with pytest.raises(RpcError) as caught:
                await Caller(gateway, principal=principal).send("resources/read", uri="gone+file:a")
            assert ("secret" in caught.value.message) == is_told
            assert "'gone'" in caught.value.message
