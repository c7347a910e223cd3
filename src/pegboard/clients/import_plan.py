"""What an import would do: which servers are new, there already, or in each other's way."""

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from pegboard.clients.found_servers import FoundServer
from pegboard.clients.identity import identity_of, same_among
from pegboard.clients.inputs import AskedInput, inputs_used
from pegboard.clients.our_entry import is_pegboard
from pegboard.config.interpret import RawEntry, Surroundings, interpret
from pegboard.config.mcp_json import LoadedConfig
from pegboard.config.paths import shown_path
from pegboard.config.plain_secrets import plain_secrets
from pegboard.config.servers import ServerConfig
from pegboard.config.variables import Variables

__all__ = ["OnConflict", "PlannedServer", "Status", "plan_import", "read_found"]

Status = Literal["new", "same", "conflict", "pegboard", "unusable"]
"""``same``: there already, maybe under another name; ``pegboard``: our own entry."""
OnConflict = Literal["skip", "rename", "replace"]
"""What becomes of a server whose name another one has."""


class PlannedServer(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of one server."""

    client: str
    path: Path
    name: str
    status: Status
    writes_as: str | None = None
    """The name it gets in our file; ``None`` when it is not written."""
    same_as: str | None = None
    is_enabled: bool = True
    transport: str = ""
    target: str = ""
    """Where it is reached, without secrets."""
    secrets: tuple[str, ...] = ()
    """The fields that hold a secret in plain text."""
    inputs: tuple[AskedInput, ...] = ()
    problem: str | None = None
    entry: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])

    def __repr__(self) -> str:
        # The entry may hold secrets.
        return f"PlannedServer({self.name!r}, {self.status!r})"


def plan_import(
    found: Iterable[FoundServer], present: LoadedConfig, *, on_conflict: OnConflict = "skip"
) -> list[PlannedServer]:
    """Decide what becomes of each server, in this order: the first of two that are the same stays.

    Args:
        found: the servers of clients.
        present: what our own file has, read with ``undefined="keep"``.
        on_conflict: what becomes of a server whose name another one has.
    """
    board = _Board(present)
    return [board.place(it, on_conflict) for it in found]


def read_found(server: FoundServer) -> ServerConfig | str:
    """Return the server, or what is wrong with its entry."""
    if server.entry is None:
        return server.problem or "It is no object."
    home = os.environ.get("HOME") or os.environ.get("USERPROFILE") or "~"
    variables = Variables(environ=os.environ, undefined="keep", home=home)
    raw = RawEntry(server.name, {**server.entry, "enabled": True})
    reading = interpret(raw, Surroundings(variables, server.path.parent))
    errors = [it.message for it in reading.problems if it.severity == "error"]
    if reading.config is None:
        return (errors or [it.message for it in reading.problems] or ["It cannot be read."])[0]
    return reading.config


class _Board:
    """What our file would hold so far."""

    def __init__(self, present: LoadedConfig) -> None:
        self.known = {identity_of(it): it.name for it in present.servers}
        self.names = {it.name for it in present.servers}
        self.names |= {it.server for it in present.problems if it.server is not None}

    def place(self, server: FoundServer, on_conflict: OnConflict) -> PlannedServer:
        plan = self.planner(server)
        # An address of that name may be this very gateway, which would serve itself.
        is_address = "command" not in (server.entry or {})
        if is_pegboard(server.name, server.entry) or (server.name == "pegboard" and is_address):
            return plan(status="pegboard")
        config = read_found(server)
        if isinstance(config, str):
            return plan(status="unusable", problem=config)
        assert server.entry is not None
        plan = self.planner(
            server,
            entry=server.entry,
            is_enabled=server.entry.get("enabled") is not False,
            transport=config.transport,
            target=config.target,
            secrets=tuple(shown_path(it.path) for it in plain_secrets(server.name, server.entry)),
            inputs=tuple(inputs_used(server.entry, server.inputs)),
        )
        identity = identity_of(config)
        same = same_among(identity, self.known)
        if same is not None:
            return plan(status="same", same_as=self.known[same])
        taken = server.name in self.names
        name = self.name_for(server, on_conflict) if taken else server.name
        if name is not None:
            # What stood under that name is there no more.
            self.known = {key: it for key, it in self.known.items() if it != name}
            self.known[identity] = name
            self.names.add(name)
        return plan(status="conflict" if taken else "new", writes_as=name)

    def planner(self, server: FoundServer, **about: Any) -> Callable[..., PlannedServer]:
        def plan(**fields: Any) -> PlannedServer:
            whose = {"client": server.client, "path": server.path, "name": server.name}
            return PlannedServer(**whose, **about, **fields)

        return plan

    def name_for(self, server: FoundServer, on_conflict: OnConflict) -> str | None:
        if on_conflict == "skip":
            return None
        if on_conflict == "replace":
            return server.name
        wanted = name = f"{server.name}-{server.client}"
        number = 1
        while name in self.names:
            number += 1
            name = f"{wanted}-{number}"
        return name
