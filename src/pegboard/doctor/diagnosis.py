"""Diagnosis: every server of a configuration is started once, and looked at."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import msgspec

from pegboard.config import LoadedConfig, ServerConfig, load_servers
from pegboard.doctor.checks.configuration import look_at_configuration, look_at_file, unreadable
from pegboard.doctor.checks.definitions import KnownTool, look_at_definitions
from pegboard.doctor.checks.descriptions import look_at_descriptions, look_at_instructions
from pegboard.doctor.checks.duplicates import look_for_likeness
from pegboard.doctor.checks.names import look_at_names
from pegboard.doctor.checks.store import look_at_store
from pegboard.doctor.probes.conversation import why_conversation_failed
from pegboard.doctor.probes.http import TryOut
from pegboard.doctor.probes.probe import OnLogin, Probe, ProbeLimits, Prober
from pegboard.doctor.probes.process import noise_of, why_process_failed
from pegboard.doctor.probes.self_reference import is_itself, serves_itself
from pegboard.doctor.probes.stderr import overhearing
from pegboard.doctor.probes.tcp import why_address_failed
from pegboard.doctor.report import Checkup, Finding, Report, Stage, found
from pegboard.doctor.status import unusable_entries
from pegboard.errors import ConfigError, ServerNotFoundError
from pegboard.upstream.catalog.cache import CachedCatalog
from pegboard.upstream.catalog.cache_key import catalog_key

__all__ = ["OnCheckup", "diagnose"]

T = TypeVar("T")

OnCheckup = Callable[[Checkup], None]
"""Told how far the look at each server has come."""


async def diagnose(  # noqa: PLR0913 - each can be left out
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    *,
    names: Sequence[str] = (),
    store: str | None = None,
    limits: ProbeLimits | None = None,
    gateway: str | None = None,
    on_login: OnLogin | None = None,
    on_checkup: OnCheckup = lambda _: None,
) -> Report:
    """Start every server once and say what is wrong, and what to do about it.

    A caller who is cancelled leaves no process behind.

    Args:
        config: the file, or what is in one; looked for if left out.
        names: only these servers.
        store: the URL of a store to look at, too.
        limits: how long servers may take.
        gateway: the address of a gateway that serves this file already; it is no server of its own.
        on_login: shows a person the login page of a server; otherwise nobody is asked to log in.
        on_checkup: told how far each server has come.

    Raises:
        ServerNotFoundError: when there is no server of a name.
    """
    found_: list[Finding] = []
    if store is not None:
        found_ += await anyio.to_thread.run_sync(look_at_store, store, abandon_on_cancel=True)
    try:
        loaded = await anyio.to_thread.run_sync(load_servers, config)
    except ConfigError as error:
        return Report(config=error.path, findings=(unreadable(error), *found_))
    chosen = _chosen(loaded, names)
    itself = await _in_thread(lambda: [it for it in chosen if is_itself(it, loaded, gateway)])
    found_ = [
        *map(serves_itself, itself),
        *look_at_configuration(loaded, chosen, names),
        *await anyio.to_thread.run_sync(look_at_file, loaded),
        *found_,
    ]
    if not loaded.servers and all(it.severity == "warning" for it in loaded.problems):
        found_.insert(0, _nothing(loaded.path))
    rounds = _Rounds(limits or ProbeLimits(), on_checkup, on_login=on_login)
    others = [it for it in chosen if it not in itself]
    checkups = (*await rounds.make(others), *_unusable(loaded, names, itself))
    found_ += await _in_thread(rounds.findings)
    path = None if loaded.path is None else str(loaded.path)
    return Report(config=path, servers=checkups, findings=tuple(found_), learned=rounds.learned)


class _Rounds:
    """The visits to all servers, and what they have in common."""

    def __init__(
        self, limits: ProbeLimits, on_checkup: OnCheckup, *, on_login: OnLogin | None
    ) -> None:
        self._limits = limits
        self._on_checkup = on_checkup
        self._on_login = on_login
        self._places = anyio.CapacityLimiter(limits.at_once)
        self._found: dict[str, list[Finding]] = {}
        self._tools: dict[str, list[KnownTool]] = {}
        self._checkups: dict[str, Checkup] = {}
        self.learned: dict[str, CachedCatalog] = {}
        """What those offered that are well, by the keys under which servers are remembered."""

    async def make(self, configs: Sequence[ServerConfig]) -> tuple[Checkup, ...]:
        """Visit all servers that are switched on, some at a time."""
        for config in configs:
            self._found[config.name], self._tools[config.name] = [], []
            self._tell(config, "waiting" if config.enabled else "disabled")
        waiting = [config for config in configs if config.enabled]
        if waiting:
            with overhearing() as ears:
                visitor = Prober(ears, self._limits, on_login=self._on_login)
                await visitor.open()
                try:
                    async with anyio.create_task_group() as group:
                        for config in waiting:
                            group.start_soon(self._visit, visitor, config)
                finally:
                    await visitor.close()
        return tuple(self._checkups.values())

    def findings(self) -> list[Finding]:
        """Return what was found, server by server, and then what is between them."""
        tools = [tool for some in self._tools.values() for tool in some]
        return [
            *(finding for some in self._found.values() for finding in some),
            *look_at_names(tools),
            *look_for_likeness(tools),
        ]

    async def _visit(self, visitor: Prober, config: ServerConfig) -> None:
        async with self._places:
            visit = await visitor.visit(config, lambda phase: self._reached(config, phase))
            failure = await _why_failed(visit, visitor.would_start)
        found_, tools = await _in_thread(partial(self._examine, visit, failure))
        self._found[config.name], self._tools[config.name] = found_, tools
        said = visit.negotiated
        has_failed = any(it.severity == "error" for it in found_)
        if said is not None and visit.phase == "done" and not has_failed:
            self.learned[catalog_key(config)] = CachedCatalog(negotiated=said, tools=visit.listed)
        self._tell(
            config,
            "failed" if has_failed else "ok",
            era=said.era if said else None,
            protocol_version=said.version if said else None,
            server_version=(said.server_version or None) if said else None,
            tools=len(tools) if visit.phase == "done" else None,
            tokens=sum(it.tokens for it in tools) if visit.phase == "done" else None,
            startup_seconds=visit.startup_seconds,
        )

    def _examine(
        self, visit: Probe, failure: Finding | None
    ) -> tuple[list[Finding], list[KnownTool]]:
        found_ = [it for it in (failure, noise_of(visit), self._slow(visit)) if it is not None]
        if visit.phase != "done":
            return [_redacted(it, visit.config) for it in found_], []
        tools, wrong = look_at_definitions(visit)
        found_ += [*wrong, *look_at_instructions(visit)]
        for tool in tools:
            found_ += look_at_descriptions(tool)
        return [_redacted(it, visit.config) for it in found_], tools

    def _slow(self, visit: Probe) -> Finding | None:
        seconds = visit.startup_seconds
        if seconds is None or seconds <= self._limits.slow:
            return None
        config = visit.config
        remedy = 'Write `"lazy": true` into its entry, so that nobody waits before it is needed.'
        if config.lazy:
            remedy = "Nothing has to be done; only its first call waits so long."
        together = "" if len(self._checkups) < 2 else ", together with others"
        if together:
            remedy += f" `pegboard doctor {config.name}` measures it alone."
        what = f"Server {config.name!r} took {seconds:.1f} s to start{together}."
        return found("slow_start", what, remedy, server=config.name)

    def _reached(self, config: ServerConfig, phase: str) -> None:
        self._tell(config, "listing" if phase == "listing" else "starting")

    def _tell(self, config: ServerConfig, stage: Stage, **seen: Any) -> None:
        checkup = Checkup(
            server=config.name,
            stage=stage,
            transport=config.transport,
            target=config.target,
            **seen,
        )
        self._checkups[config.name] = checkup
        self._on_checkup(checkup)


async def _why_failed(visit: Probe, try_out: TryOut) -> Finding | None:
    if visit.wants_login:
        return why_conversation_failed(visit)
    if visit.config.transport == "stdio":
        nearest = await anyio.to_thread.run_sync(why_process_failed, visit)
    else:
        nearest = await why_address_failed(visit, try_out)
    return nearest or why_conversation_failed(visit)


async def _in_thread(work: Callable[[], T]) -> T:
    # Ten thousand definitions take seconds; whoever does not want to wait need not.
    return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)


def _chosen(loaded: LoadedConfig, names: Sequence[str]) -> list[ServerConfig]:
    by_name = {config.name: config for config in loaded.servers}
    known = [*by_name, *unusable_entries(loaded)]
    for name in names:
        if name not in known:
            raise ServerNotFoundError(name, known=known)
    if not names:
        return list(loaded.servers)
    return [by_name[name] for name in dict.fromkeys(names) if name in by_name]


def _unusable(
    loaded: LoadedConfig, names: Sequence[str], itself: Sequence[ServerConfig]
) -> list[Checkup]:
    # Why they are is told among what is wrong with the file.
    wrong = [it for it in unusable_entries(loaded) if not names or it in names]
    return [
        Checkup(server=name, stage="unusable", transport="", target="")
        for name in (*wrong, *(it.name for it in itself))
    ]


def _redacted(finding: Finding, config: ServerConfig) -> Finding:
    what, remedy = config.redact(finding.what), config.redact(finding.remedy)
    return msgspec.structs.replace(finding, what=what, remedy=remedy)


def _nothing(path: Path | None) -> Finding:
    what = "No configuration was found." if path is None else f"There is no server in {path}."
    remedy = (
        "`pegboard import` takes over the servers of your MCP clients, `pegboard add NAME -- "
        "COMMAND` adds one, and `pegboard serve --demo` shows how it works."
    )
    finding = found("no_configuration", what, remedy)
    return msgspec.structs.replace(finding, place=None if path is None else str(path))
