"""RunningGateway: find the gateway that serves the same file, and query it without the SDK."""

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from pegboard.cli.terminal.output import warn
from pegboard.config import ServerConfig, Timeouts, locate_config
from pegboard.errors import InvalidQueryError, PegboardError, ServerUnavailableError
from pegboard.model import Tool
from pegboard.observe.call_entry import CallEntry, CallFilter
from pegboard.search.searcher import SearchResponse
from pegboard.server.process.instance_discovery import (
    RunningInstance,
    place_of_store,
    running_instances,
)
from pegboard.storage import default_url
from pegboard.storage.open_store import without_password

__all__ = ["RunningGateway", "ShownTool", "find_gateway", "gateways_with_store", "store_meant"]

T = TypeVar("T")

_PATIENCE = 30.0
_SIGN_OF_LIFE = 1.5
"""Seconds: a gateway answers /healthz at once, however busy its servers are."""
_REFUSED = 400
_LOCAL_API = "/owner/"
_LONGEST_CALL = 24 * 3600.0
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")


class ShownTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool of a gateway, and the definition that its server gave of it."""

    tool: Tool
    raw: Mapping[str, Any] | None = None


class _CallsFound(msgspec.Struct, frozen=True):
    calls: list[CallEntry] | None


def find_gateway(config: str | Path | None, store: str | None) -> "RunningGateway | None":
    """Return the gateway of this user that serves the same configuration, if one runs.

    Args:
        config: the file on the command line; ``None`` to look for it.
        store: the store on the command line; ``None`` for any.

    Raises:
        ConfigError: when the named file cannot be used.
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


def gateways_with_store(url: str) -> "list[RunningGateway]":
    """Return the gateways of this user that keep their calls beside a store."""
    place = place_of_store(url)
    found = [RunningGateway(it) for it in running_instances() if it.store == place]
    return [it for it in found if it.is_there()]


def store_meant(named: str | None) -> str:
    """Return the URL of the named store, or of the user's own.

    A warning says if a gateway runs, and none uses the user's own store.
    """
    if named is not None:
        return named
    url = default_url()
    running = list(running_instances())
    if running and all(it.store != place_of_store(url) for it in running):
        latest = running[0]
        has = "has no store, like any `serve --demo`"
        if latest.store is not None:
            has = f"has its store in {latest.store}"
        warn(f"The gateway at {latest.address} {has}; this command uses {without_password(url)}.")
    return url


class RunningGateway:
    """Sends requests to a gateway on this machine, as the user who runs it."""

    def __init__(self, announced: RunningInstance) -> None:
        self._announced = announced

    @property
    def address(self) -> str:
        """The base URL of the gateway."""
        return self._announced.address

    @property
    def token(self) -> str:
        """The token of the gateway's local API."""
        return self._announced.token

    def is_there(self) -> bool:
        """Tell whether the gateway accepts requests."""
        try:
            status, _ = self._send("GET", "/healthz", patience=_SIGN_OF_LIFE)
        except TimeoutError:
            warn(f"The gateway at {self.address} does not respond; this command does without it.")
            return False
        except OSError:
            return False
        return status < _REFUSED

    def as_server(self, group: str) -> ServerConfig:
        """Return the gateway as a server that lists the tools of one of its servers."""
        path = f"/mcp-full/{group}" if _PLAIN.fullmatch(group) else "/mcp-full"
        return ServerConfig(
            name="gateway",
            transport="streamable_http",
            url=f"{self.address}{path}",
            bearer_token=self.token,
            prefix="",
            protocol="2026-07-28",
            # The gateway has limits of its own.
            timeouts=Timeouts(call=_LONGEST_CALL),
        )

    def servers(self) -> list[dict[str, Any]]:
        """Return the status of each of its servers: the fields of a `ServerStatus`.

        Raises:
            ServerUnavailableError: when the gateway does not respond.
        """
        return self._ask("GET", "/owner/servers", kind=list[dict[str, Any]])

    def limits(self) -> list[dict[str, Any]]:
        """Return how much is used up of each of its limits: the fields of a `LimitUse`.

        Raises:
            ServerUnavailableError: when the gateway does not respond.
        """
        return self._ask("GET", "/owner/limits", kind=list[dict[str, Any]])

    def status(self) -> list[dict[str, Any]]:
        """Return what `pegboard status` shows of each server: the fields of a `KnownStatus`.

        Raises:
            ServerUnavailableError: when the gateway does not respond.
        """
        return self._ask("GET", "/owner/status", kind=list[dict[str, Any]])

    def console_link(self) -> str | None:
        """Return the path of a new link to its pages; ``None`` if it has none.

        Raises:
            ServerUnavailableError: when the gateway does not respond.
        """
        return self._ask("POST", "/owner/console", b"", kind=dict[str, str | None])["path"]

    def calls(self, wanted: CallFilter) -> list[CallEntry] | None:
        """Return the calls that a filter chooses, the newest first; ``None`` if it keeps none.

        Raises:
            InvalidQueryError: when the filter is invalid, or the calls cannot be read.
            ServerUnavailableError: when the gateway does not respond.
        """
        body = msgspec.json.encode(wanted)
        return self._ask("POST", "/owner/calls", body, kind=_CallsFound).calls

    def write_calls(self) -> None:
        """Let the gateway write the calls that are over; without an answer, it does so soon."""
        with suppress(PegboardError):
            self._ask("POST", "/owner/calls/written", kind=dict[str, Any])

    def note_refused(self, tool: str, code: str) -> None:
        """Let the gateway record a call that was refused here; without an answer, it is lost."""
        body = msgspec.json.encode({"tool": tool, "code": code})
        with suppress(PegboardError):
            self._ask("POST", "/owner/calls/refused", body, kind=dict[str, Any])

    def tools(self) -> list[ShownTool]:
        """Return its tools, in the order of their names.

        Raises:
            ServerUnavailableError: when the gateway does not respond.
        """
        return self._ask("GET", "/owner/tools", kind=list[ShownTool])

    def search(self, text: str, options: Mapping[str, Any]) -> SearchResponse:
        """Return the tools that the gateway finds.

        Raises:
            InvalidQueryError: when the query is invalid.
            ServerUnavailableError: when the gateway does not respond.
        """
        wanted = msgspec.json.encode({"text": text, "options": dict(options)})
        return self._ask("POST", "/owner/search", wanted, kind=SearchResponse)

    def _ask(self, method: str, path: str, body: bytes | None = None, *, kind: type[T]) -> T:
        try:
            status, content = self._send(method, path, body)
            if status == _REFUSED:
                said = msgspec.json.decode(content, type=dict[str, Any])
                raise InvalidQueryError(str(said.get("error", "The gateway refused the query.")))
            if status > _REFUSED:
                raise self._silent(f"it responded with status {status}")
            return msgspec.json.decode(content, type=kind)
        except (OSError, msgspec.MsgspecError) as error:
            raise self._silent(str(error) or type(error).__name__) from error

    def _send(
        self, method: str, path: str, body: bytes | None = None, *, patience: float = _PATIENCE
    ) -> tuple[int, bytes]:
        # Only here: mostly no gateway runs, and it takes a while to import.
        from http.client import HTTPConnection, HTTPException  # noqa: PLC0415

        try:
            place = urlsplit(self.address)
            connection = HTTPConnection(place.hostname or "", place.port, timeout=patience)
        except ValueError as error:
            raise OSError("its address is invalid") from error
        headers = {"Content-Type": "application/json"}
        if path.startswith(_LOCAL_API):
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return response.status, response.read()
        except HTTPException as error:
            raise OSError(f"its response is not HTTP ({type(error).__name__})") from error
        finally:
            connection.close()

    def _silent(self, reason: str) -> ServerUnavailableError:
        return ServerUnavailableError(
            f"The gateway at {self.address} does not work: {reason}. With `--alone`, this command "
            "does without it.",
            server="gateway",
        )
