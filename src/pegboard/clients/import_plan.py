"""Plan an import of servers: which are new, which are duplicates, and which names conflict."""

import os
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from pegboard.clients.found_servers import AskedInput, FoundServer, inputs_used
from pegboard.clients.identity import Identity, KnownServers, identity_of, is_same
from pegboard.clients.import_record import ImportRecord
from pegboard.clients.our_entry import is_pegboard
from pegboard.config.files.entry_validation import EntryContext, RawEntry, interpret
from pegboard.config.files.mcp_json import LoadedConfig
from pegboard.config.problems import shown_path
from pegboard.config.secrets.plain_secrets import plain_secrets
from pegboard.config.secrets.variables import Variables
from pegboard.config.servers import ServerConfig

__all__ = ["OnConflict", "PlannedServer", "Status", "plan_import", "read_found"]

Status = Literal["new", "same", "conflict", "pegboard", "unusable"]
"""``same``: our file has the server, maybe under another name; ``pegboard``: our own entry."""
OnConflict = Literal["skip", "rename", "replace"]
"""What to do with a server whose name another server has."""


class PlannedServer(msgspec.Struct, frozen=True, kw_only=True):
    """What the import does with one server."""

    client: str
    path: Path
    name: str
    status: Status
    writes_as: str | None = None
    """Its name in our file; ``None`` when it is not written."""
    same_as: str | None = None
    is_edited: bool = False
    """Whether it was imported as that server, and one of the two was edited since."""
    is_enabled: bool = True
    transport: str = ""
    target: str = ""
    """Its command line or address, without secrets."""
    secrets: tuple[str, ...] = ()
    """The fields that contain a secret in plain text."""
    inputs: tuple[AskedInput, ...] = ()
    problem: str | None = None
    entry: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])

    def __repr__(self) -> str:
        # The entry may contain secrets.
        return f"PlannedServer({self.name!r}, {self.status!r})"


def plan_import(
    found: Iterable[FoundServer],
    present: LoadedConfig,
    *,
    on_conflict: OnConflict | Sequence[OnConflict] = "skip",
    imported: ImportRecord | None = None,
) -> list[PlannedServer]:
    """Decide what to do with each server, in the given order; the first of two duplicates is kept.

    No name is written twice, and no server gets two names. If clients have different servers under
    one name, the first replaces the server in our file, unless another client has that very server;
    the others get new names.

    Args:
        found: the servers of clients.
        present: our own file, read with ``undefined="keep"``.
        on_conflict: what to do with a server whose name another server has; a list has a choice
            for each server.
        imported: knows which servers were imported before.
    """
    read = [_read(it) for it in found]
    same: list[OnConflict] = [on_conflict] * len(read) if isinstance(on_conflict, str) else []
    choices = same if isinstance(on_conflict, str) else on_conflict
    chosen = list(zip(read, choices, strict=True))
    giving_way = {id(it) for it, choice in chosen if choice == "replace"}
    replaced = _replaced(read, present, giving_way) if giving_way else {}
    draft = _Plan(present, replaced, imported)
    return [draft.place(it, choice) for it, choice in chosen]


def read_found(server: FoundServer) -> ServerConfig | str:
    """Return the server, or what is wrong with its entry."""
    if server.entry is None:
        return server.problem or "It is not an object."
    home = os.environ.get("HOME") or os.environ.get("USERPROFILE") or "~"
    variables = Variables(environ=os.environ, undefined="keep", home=home)
    raw = RawEntry(server.name, {**server.entry, "enabled": True})
    reading = interpret(raw, EntryContext(variables, server.path.parent))
    errors = [it.message for it in reading.problems if it.severity == "error"]
    if reading.config is None:
        return (errors or [it.message for it in reading.problems] or ["It cannot be read."])[0]
    return reading.config


class _Read(NamedTuple):
    server: FoundServer
    config: ServerConfig | str | None
    """The server, or its problem; ``None`` for Pegboard itself."""
    identity: Identity | None
    """``None`` when there is nothing to import."""


def _read(server: FoundServer) -> _Read:
    # An address of that name may be this gateway, which would serve itself.
    is_address = "command" not in (server.entry or {})
    if is_pegboard(server.name, server.entry) or (server.name == "pegboard" and is_address):
        return _Read(server, None, None)
    config = read_found(server)
    return _Read(server, config, None if isinstance(config, str) else identity_of(config))


def _replaced(
    found: Sequence[_Read], present: LoadedConfig, replacing: Container[int]
) -> dict[str, Identity]:
    """Return the names in our file that get another server, and its identity.

    ``replacing`` has the ids of the servers that may replace another one.
    """
    ours = {it.name: identity_of(it) for it in present.servers}
    holders, wanted = KnownServers(ours), KnownServers({})
    taken = _names(present)
    named = [(it.server.name, it.identity) for it in found if it.identity is not None]
    settled = {name for name, it in named if name in ours and is_same(it, ours[name])}
    theirs: dict[str, Identity] = {}
    for it in found:
        name, identity = it.server.name, it.identity
        if identity is None or id(it) not in replacing:
            continue
        is_free = name in taken and name not in settled and name not in theirs
        if is_free and not wanted.names_of(identity):
            theirs[name] = identity
            wanted.add(identity, name)
    # A server that stays in our file under another name is not written again, so more names stay.
    waiting: dict[str, list[str]] = {}
    for name, identity in theirs.items():
        for holder in holders.names_of(identity):
            waiting.setdefault(holder, []).append(name)
    stays = [it for it in taken if it not in theirs]
    while stays:
        freed = waiting.get(stays.pop(), ())
        stays += [it for it in freed if theirs.pop(it, None) is not None]
    return theirs


def _names(present: LoadedConfig) -> set[str]:
    broken = {it.server for it in present.problems if it.server is not None}
    return {it.name for it in present.servers} | broken


class _Plan:
    """What our file would hold so far."""

    def __init__(
        self,
        present: LoadedConfig,
        replaced: Mapping[str, Identity],
        imported: ImportRecord | None,
    ) -> None:
        self.imported = imported
        self.ours = {it.name: it for it in present.servers if it.name not in replaced}
        kept = {it.name: identity_of(it) for it in present.servers if it.name not in replaced}
        self.known = KnownServers({**kept, **replaced})
        self.names = _names(present)
        self.replaced = dict(replaced)

    def place(self, read: _Read, on_conflict: OnConflict) -> PlannedServer:
        server, config, identity = read
        plan = self.planner(server)
        if config is None:
            return plan(status="pegboard")
        if isinstance(config, str) or identity is None or server.entry is None:
            return plan(status="unusable", problem=config)
        plan = self.planner(
            server,
            entry=server.entry,
            is_enabled=server.entry.get("enabled") is not False,
            transport=config.transport,
            target=config.target,
            secrets=tuple(shown_path(it.path) for it in plain_secrets(server.name, server.entry)),
            inputs=tuple(inputs_used(server.entry, server.inputs)),
        )
        if self.replaced.get(server.name) == identity:
            del self.replaced[server.name]
            return plan(status="conflict", writes_as=server.name)
        same = self.known.names_of(identity)
        if same:
            return plan(status="same", same_as=server.name if server.name in same else same[-1])
        known = self.imported_as(server, config) if on_conflict != "replace" else None
        if known is not None:
            return plan(status="same", same_as=known, is_edited=True)
        taken = server.name in self.names
        name = self.name_for(server, on_conflict) if taken else server.name
        if name is not None:
            self.known.add(identity, name)
            self.names.add(name)
        return plan(status="conflict" if taken else "new", writes_as=name)

    def imported_as(self, server: FoundServer, config: ServerConfig) -> str | None:
        if self.imported is None:
            return None
        return self.imported.name_of(server.path, server.name, config, self.ours)

    def planner(self, server: FoundServer, **about: Any) -> Callable[..., PlannedServer]:
        def plan(**fields: Any) -> PlannedServer:
            whose = {"client": server.client, "path": server.path, "name": server.name}
            return PlannedServer(**whose, **about, **fields)

        return plan

    def name_for(self, server: FoundServer, on_conflict: OnConflict) -> str | None:
        # Replacements are settled by now; a name that this import has used gets a suffix.
        if on_conflict == "skip":
            return None
        wanted = name = f"{server.name}-{server.client}"
        number = 1
        while name in self.names:
            number += 1
            name = f"{wanted}-{number}"
        return name
