"""The gateway that runs with the same configuration: found, and asked without the MCP SDK."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from pegboard.cli.terminal.output import warn
from pegboard.config import ServerConfig, Timeouts, locate_config
from pegboard.errors import InvalidQueryError, ServerUnavailableError
from pegboard.model import Tool
from pegboard.search.searcher import SearchResponse
from pegboard.server.process.instance_discovery import (
    RunningInstance,
    place_of_store,
    running_instances,
)

__all__ = ["RunningGateway", "ShownTool", "find_gateway"]

T = TypeVar("T")

_PATIENCE = 30.0
_SIGN_OF_LIFE = 1.5
"""Seconds: a gateway says that it is there at once, however busy its servers are."""
_REFUSED = 400
_DESK = "/owner/"
_LONGEST_CALL = 24 * 3600.0
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")


class ShownTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of a gateway, and the definition that its server gave of it."""

    tool: Tool
    raw: Mapping[str, Any] | None = None


def find_gateway(config: str | Path | None, store: str | None) -> "RunningGateway | None":
    """Return the gateway of this user that serves the same configuration, if one runs.

    Args:
        config: the file that is named on the command line; ``None`` to look for it.
        store: the store that is named there; ``None`` for whichever the gateway has.

    Raises:
        ConfigError: when the file that is named is none.
    """
    running = list(running_instances())
    if not running:
        return None
    found = locate_config(config).path
    wanted = None if found is None else str(found.resolve())
    for it in running:
        is_same = it.config == wanted and (store is None or it.store == place_of_store(store))
        if is_same and RunningGateway(it).is_there():
            return RunningGateway(it)
    return None


class RunningGateway:
    """Asks a gateway on this machine, in the name of its owner."""

    def __init__(self, announced: RunningInstance) -> None:
        self._announced = announced

    @property
    def address(self) -> str:
        """Where it is."""
        return self._announced.address

    @property
    def token(self) -> str:
        """By which its owner is known to it."""
        return self._announced.token

    def is_there(self) -> bool:
        """Tell whether it takes requests."""
        try:
            status, _ = self._exchange("GET", "/healthz", patience=_SIGN_OF_LIFE)
        except TimeoutError:
            warn(f"The gateway at {self.address} does not answer; this command does without it.")
            return False
        except OSError:
            return False
        return status < _REFUSED

    def as_server(self, group: str) -> ServerConfig:
        """Return it as a server that shows the tools of one of its own under their names here."""
        path = f"/mcp-full/{group}" if _PLAIN.fullmatch(group) else "/mcp-full"
        return ServerConfig(
            name="gateway",
            transport="streamable_http",
            url=f"{self.address}{path}",
            bearer_token=self.token,
            prefix="",
            protocol="2026-07-28",
            # It has limits of its own.
            timeouts=Timeouts(call=_LONGEST_CALL),
        )

    def servers(self) -> list[dict[str, Any]]:
        """Return how each of its servers is: the fields of a `ServerStatus`.

        Raises:
            ServerUnavailableError: when it does not answer.
        """
        return self._ask("GET", "/owner/servers", kind=list[dict[str, Any]])

    def tools(self) -> list[ShownTool]:
        """Return its tools, in the order of their names.

        Raises:
            ServerUnavailableError: when it does not answer.
        """
        return self._ask("GET", "/owner/tools", kind=list[ShownTool])

    def search(self, text: str, options: Mapping[str, Any]) -> SearchResponse:
        """Return what it finds.

        Raises:
            InvalidQueryError: when that cannot be searched for.
            ServerUnavailableError: when it does not answer.
        """
        wanted = msgspec.json.encode({"text": text, "options": dict(options)})
        return self._ask("POST", "/owner/search", wanted, kind=SearchResponse)

    def _ask(self, method: str, path: str, body: bytes | None = None, *, kind: type[T]) -> T:
        try:
            status, content = self._exchange(method, path, body)
            if status == _REFUSED:
                said = msgspec.json.decode(content, type=dict[str, Any])
                raise InvalidQueryError(str(said.get("error", "The gateway refused it.")))
            if status > _REFUSED:
                raise self._silent(f"it answered with status {status}")
            return msgspec.json.decode(content, type=kind)
        except (OSError, msgspec.MsgspecError) as error:
            raise self._silent(str(error) or type(error).__name__) from error

    def _exchange(
        self, method: str, path: str, body: bytes | None = None, *, patience: float = _PATIENCE
    ) -> tuple[int, bytes]:
        # Only here: mostly no gateway runs, and it takes a while to import.
        from http.client import HTTPConnection, HTTPException  # noqa: PLC0415

        try:
            place = urlsplit(self.address)
            connection = HTTPConnection(place.hostname or "", place.port, timeout=patience)
        except ValueError as error:
            raise OSError("its address is none") from error
        headers = {"Content-Type": "application/json"}
        if path.startswith(_DESK):
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except HTTPException as error:
            raise OSError(f"its answer is no HTTP ({type(error).__name__})") from error
        finally:
            connection.close()

    def _silent(self, reason: str) -> ServerUnavailableError:
        return ServerUnavailableError(
            f"The gateway at {self.address} could not be asked: {reason}. With `--alone` this "
            "command does without it.",
            server="gateway",
        )
