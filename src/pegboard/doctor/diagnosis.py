"""Diagnose a configuration: check the file, start every server once, and collect the findings."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import msgspec

from pegboard.config import LoadedConfig, ServerConfig, load_servers
from pegboard.doctor.checks.configuration import check_configuration, check_file_mode, unreadable
from pegboard.doctor.checks.definitions import KnownTool, check_definitions
from pegboard.doctor.checks.descriptions import check_descriptions, check_instructions
from pegboard.doctor.checks.duplicates import find_duplicates
from pegboard.doctor.checks.names import check_names
from pegboard.doctor.checks.skills import check_skills
from pegboard.doctor.checks.store import check_folders, check_store
from pegboard.doctor.probes.conversation import why_conversation_failed
from pegboard.doctor.probes.http import TryOut
from pegboard.doctor.probes.probe import OnLogin, Probe, ProbeLimits, Prober
from pegboard.doctor.probes.process import noise_of, why_process_failed
from pegboard.doctor.probes.self_reference import is_itself, serves_itself
from pegboard.doctor.probes.stderr import capture_stderr
from pegboard.doctor.probes.tcp import why_address_failed
from pegboard.doctor.report import Checkup, CheckupState, Finding, Report, found
from pegboard.doctor.status import unusable_entries
from pegboard.errors import ConfigError, ServerNotFoundError
from pegboard.upstream.catalog.cache import CachedCatalog
from pegboard.upstream.catalog.offline_catalog import catalog_key

__all__ = ["OnCheckup", "diagnose"]

T = TypeVar("T")

OnCheckup = Callable[[Checkup], None]
"""Receives the checkup of a server whenever its state changes."""


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
    """Start every server once, and report what is wrong and the remedy.

    A cancelled diagnosis leaves no process behind.

    Args:
        config: the path of the file, or its parsed content; by default the file is searched for.
        names: check only these servers.
        store: the URL of a store to check as well.
        limits: how long servers may take.
        gateway: the address of a running gateway that serves this file. An entry with this address
            is reported as ``itself``.
        on_login: shows the user the login page of a server. Without it, a server that requires a
            login is reported, and no page is opened.
        on_checkup: receives the checkup of a server whenever its state changes.

    Raises:
        ServerNotFoundError: when the configuration has no server of a given name.
    """
    findings: list[Finding] = []
    if store is not None:
        findings += await anyio.to_thread.run_sync(check_folders)
        findings += await anyio.to_thread.run_sync(check_store, store, abandon_on_cancel=True)
    try:
        loaded = await anyio.to_thread.run_sync(load_servers, config)
    except ConfigError as error:
        return Report(config=error.path, findings=(unreadable(error), *findings))
    chosen = _chosen(loaded, names)
    itself = await _in_thread(lambda: [it for it in chosen if is_itself(it, loaded, gateway)])
    findings = [
        *map(serves_itself, itself),
        *check_configuration(loaded, chosen, names),
        *await anyio.to_thread.run_sync(check_file_mode, loaded),
        *await anyio.to_thread.run_sync(check_skills, loaded),
        *findings,
    ]
    is_empty = not loaded.servers and loaded.skills is None
    if is_empty and all(it.severity == "warning" for it in loaded.problems):
        findings.insert(0, _no_servers(loaded.path))
    checks = _ServerChecks(limits or ProbeLimits(), on_checkup, on_login=on_login)
    others = [it for it in chosen if it not in itself]
    checkups = (*await checks.run(others), *_unusable(loaded, names, itself))
    findings += await _in_thread(checks.findings)
    path = None if loaded.path is None else str(loaded.path)
    return Report(config=path, servers=checkups, findings=tuple(findings), learned=checks.learned)


class _ServerChecks:
    """The probes of all servers, and the findings that concern several of them."""

    def __init__(
        self, limits: ProbeLimits, on_checkup: OnCheckup, *, on_login: OnLogin | None
    ) -> None:
        self._limits = limits
        self._on_checkup = on_checkup
        self._on_login = on_login
        self._slots = anyio.CapacityLimiter(limits.at_once)
        self._found: dict[str, list[Finding]] = {}
        self._tools: dict[str, list[KnownTool]] = {}
        self._checkups: dict[str, Checkup] = {}
        self.learned: dict[str, CachedCatalog] = {}
        """What the working servers offered, by their keys in the catalog cache."""

    async def run(self, configs: Sequence[ServerConfig]) -> tuple[Checkup, ...]:
        """Probe all enabled servers, a limited number at a time."""
        for config in configs:
            self._found[config.name], self._tools[config.name] = [], []
            self._tell(config, "waiting" if config.enabled else "disabled")
        waiting = [config for config in configs if config.enabled]
        if waiting:
            with capture_stderr() as captured:
                prober = Prober(captured, self._limits, on_login=self._on_login)
                await prober.open()
                try:
                    async with anyio.create_task_group() as group:
                        for config in waiting:
                            group.start_soon(self._probe, prober, config)
                finally:
                    await prober.close()
        return tuple(self._checkups.values())

    def findings(self) -> list[Finding]:
        """Return the findings server by server, then those that concern several servers."""
        tools = [tool for some in self._tools.values() for tool in some]
        return [
            *(finding for some in self._found.values() for finding in some),
            *check_names(tools),
            *find_duplicates(tools),
        ]

    async def _probe(self, prober: Prober, config: ServerConfig) -> None:
        async with self._slots:
            probe = await prober.probe(config, lambda phase: self._reached(config, phase))
            failure = await _why_failed(probe, prober.would_start)
        findings, tools = await _in_thread(partial(self._examine, probe, failure))
        self._found[config.name], self._tools[config.name] = findings, tools
        said = probe.negotiated
        has_failed = any(it.severity == "error" for it in findings)
        if said is not None and probe.phase == "done" and not has_failed:
            self.learned[catalog_key(config)] = CachedCatalog(negotiated=said, tools=probe.listed)
        self._tell(
            config,
            "ready" if probe.phase == "done" else "down",
            era=said.era if said else None,
            protocol_version=said.version if said else None,
            server_version=(said.server_version or None) if said else None,
            tools=len(tools) if probe.phase == "done" else None,
            tokens=sum(it.tokens for it in tools) if probe.phase == "done" else None,
            startup_seconds=probe.startup_seconds,
        )

    def _examine(
        self, probe: Probe, failure: Finding | None
    ) -> tuple[list[Finding], list[KnownTool]]:
        findings = [it for it in (failure, noise_of(probe), self._slow(probe)) if it is not None]
        if probe.phase != "done":
            return [_redacted(it, probe.config) for it in findings], []
        tools, wrong = check_definitions(probe)
        findings += [*wrong, *check_instructions(probe)]
        for tool in tools:
            findings += check_descriptions(tool)
        return [_redacted(it, probe.config) for it in findings], tools

    def _slow(self, probe: Probe) -> Finding | None:
        seconds = probe.startup_seconds
        if seconds is None or seconds <= self._limits.slow:
            return None
        config = probe.config
        remedy = 'Write `"lazy": true` into its entry. Pegboard then starts it when it is needed.'
        if config.lazy:
            remedy = "No action is needed: only its first call waits that long."
        together = "" if len(self._checkups) < 2 else " while other servers were starting too"
        if together:
            remedy += f" `pegboard doctor {config.name}` measures this server alone."
        what = f"Server {config.name!r} took {seconds:.1f} s to start{together}."
        return found("slow_start", what, remedy, server=config.name)

    def _reached(self, config: ServerConfig, phase: str) -> None:
        self._tell(config, "listing" if phase == "listing" else "starting")

    def _tell(self, config: ServerConfig, state: CheckupState, **seen: Any) -> None:
        checkup = Checkup(
            server=config.name,
            state=state,
            transport=config.transport,
            target=config.target,
            **seen,
        )
        self._checkups[config.name] = checkup
        self._on_checkup(checkup)


async def _why_failed(probe: Probe, try_out: TryOut) -> Finding | None:
    if probe.wants_login:
        return why_conversation_failed(probe)
    if probe.config.transport == "stdio":
        nearest = await anyio.to_thread.run_sync(why_process_failed, probe)
    else:
        nearest = await why_address_failed(probe, try_out)
    return nearest or why_conversation_failed(probe)


async def _in_thread(work: Callable[[], T]) -> T:
    # Ten thousand definitions take seconds; a caller who cancels does not wait for them.
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
    # The findings about the file say why they are unusable.
    wrong = [it for it in unusable_entries(loaded) if not names or it in names]
    return [
        Checkup(server=name, state="unusable", transport="", target="")
        for name in (*wrong, *(it.name for it in itself))
    ]


def _redacted(finding: Finding, config: ServerConfig) -> Finding:
    what, remedy = config.redact(finding.what), config.redact(finding.remedy)
    return msgspec.structs.replace(finding, what=what, remedy=remedy)


def _no_servers(path: Path | None) -> Finding:
    what = "No configuration was found." if path is None else f"There is no server in {path}."
    remedy = (
        "Run `pegboard import` to import the servers of your MCP clients, or `pegboard add NAME -- "
        "COMMAND` to add one. `pegboard serve --demo` shows how it works."
    )
    finding = found("no_configuration", what, remedy)
    return msgspec.structs.replace(finding, place=None if path is None else str(path))
