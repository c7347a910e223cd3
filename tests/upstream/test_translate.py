"""What the SDK, the network or a process raised, as one of our errors."""

from pegboard.config import ServerConfig
from pegboard.errors import ConfigError
from pegboard.upstream.session.translate import error_of


def test_an_error_of_ours_inside_another_ends_in_one_full_stop() -> None:
    config = ServerConfig(name="socket", transport="websocket", url="wss://a.example/mcp")
    missing = ConfigError("It needs the extra `pegboard[websocket]`: run `pip install it`.")
    told = str(error_of(missing, config))
    assert told.endswith("`pip install it`.")
