"""SyncServer: one server of a hub, for programs without an event loop."""

from collections.abc import Mapping
from typing import Any

from pegboard.config import ServerConfig
from pegboard.registry.background_loop import run_in_background
from pegboard.upstream import OnProgress, ServerStatus, UpstreamServer

__all__ = ["SyncServer"]


class SyncServer:
    """What an `UpstreamServer` can do, each verb waiting until it is done."""

    def __init__(self, server: UpstreamServer) -> None:
        self._server = server

    def __repr__(self) -> str:
        return f"<SyncServer {self.config.name!r}>"

    @property
    def config(self) -> ServerConfig:
        """What it was configured with."""
        return self._server.config

    @property
    def status(self) -> ServerStatus:
        """How the server is now."""
        return self._server.status

    def start(self) -> None:
        """Connect and put the tools on the board.

        Raises:
            UpstreamError: when connecting or listing failed.
        """
        run_in_background(self._server.start, tool="")

    def stop(self) -> None:
        """Disconnect; the tools stay on the board, and the next call connects again."""
        run_in_background(self._server.stop, tool="")

    def refresh(self) -> None:
        """List the tools anew and put them on the board.

        Raises:
            UpstreamError: when listing failed.
        """
        run_in_background(self._server.refresh, tool="")

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        on_progress: OnProgress | None = None,
    ) -> dict[str, Any]:
        """Send any request of the protocol, such as ``resources/read``, and return its raw result.

        Raises:
            UpstreamError: whatever went wrong.
            ToolTimeoutError: when the answer did not come in time.
        """
        return run_in_background(
            lambda: self._server.request(method, params, on_progress=on_progress), tool=method
        )

    def list_all(self, method: str) -> list[dict[str, Any]]:
        """Return the items of all pages of a list, such as ``resources/list``.

        Raises:
            UpstreamError: whatever went wrong.
        """
        return run_in_background(lambda: self._server.list_all(method), tool=method)

    def set_headers(self, headers: Mapping[str, str]) -> None:
        """Send these besides the configured headers from now on, without connecting again.

        Raises:
            ConfigError: when one is not legal, or reserved, or the server is not behind HTTP.
        """

        async def set_at_home() -> None:
            self._server.set_headers(headers)

        run_in_background(set_at_home, tool="")
