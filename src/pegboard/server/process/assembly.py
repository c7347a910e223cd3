"""Assembly: the hub, gateway, audit and metrics of one serving process, opened and closed."""

import logging
import os
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import anyio
import anyio.to_thread
import msgspec

from pegboard.auth import CallLimits, SharedLimits
from pegboard.config import ServerConfig
from pegboard.config.files.mcp_json import approval_in
from pegboard.doctor.status import unusable_entries
from pegboard.errors import ConfigError
from pegboard.gateway import Gateway, GatewayOptions, Surface
from pegboard.gateway.request import Client
from pegboard.hub import Hub
from pegboard.hub.options import HubOptions
from pegboard.hub.sources import is_own_address
from pegboard.model import CallRecord
from pegboard.model.hidden_characters import visible
from pegboard.model.principal import DEFAULT_TENANT, OPERATOR
from pegboard.observe import Audit, AuditRecord
from pegboard.observe.call_files import CallFiles
from pegboard.observe.call_reporter import CallReporter
from pegboard.observe.json_lines import open_file_to_append
from pegboard.observe.server_log import LogLine, ServerLog, TenantLog
from pegboard.policies.fair_share import LimitUse
from pegboard.server.http.request import Limits
from pegboard.server.metrics import Metrics
from pegboard.server.process.drain import DRAIN_SECONDS
from pegboard.server.process.instance_discovery import has_others
from pegboard.server.process.loop_watchdog import watched
from pegboard.server.request_pipeline import RequestPipeline
from pegboard.server.settings import GatewaySettings, load_gateway_settings
from pegboard.server.startup import Startup
from pegboard.storage import Store, open_store
from pegboard.storage.open_store import calls_place, is_on_this_machine, scheme_of
from pegboard.upstream import DefinitionsChanged, ServerEvent
from pegboard.upstream.messages.response_limits import RESPONSES

__all__ = ["Activity", "ServeOptions", "Serving", "open_serving"]

logger: logging.Logger = logging.getLogger("pegboard.server")

DEFINITION_CHANGED = "definition_changed"
"""The action in the audit when a tool is defined in another way than it was."""


class Activity(Protocol):
    """What shows an operator who connects and what happens; each function returns at once."""

    def client(self, client: Client, /) -> None:
        """Take a client that has connected."""
        ...

    def call(self, record: CallRecord, /) -> None:
        """Take a call that has ended."""
        ...

    def server(self, line: LogLine, /) -> None:
        """Take what happened to a server."""
        ...


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a process serves, where, and to whom."""

    config: str | Mapping[str, Any] | None = None
    """The file with the servers, or its content; ``None`` to look for the file."""
    storage: str | None = None
    """Where definitions, keys, usage and the audit are stored; ``None`` to store nothing."""
    audit_file: str | None = None
    """A file that also gets the audit, as lines of JSON."""
    log_folder: str | None = None
    """The folder of the log of the servers; ``None`` to keep no log."""
    activity: Activity | None = None
    """Is told of clients, calls and servers."""
    host: str = "127.0.0.1"
    port: int = 8765
    surface: Surface = "search"
    """The surface that ``/mcp`` and standard input show."""
    allow_hosts: tuple[str, ...] = ()
    """Host names of this server, besides IP addresses and ``localhost``."""
    allow_origins: tuple[str, ...] = ()
    """Origins of web pages that may call this server, besides local ones."""
    allow_anonymous: bool = False
    """Serve other machines although callers need no credential."""
    allow_register: bool = False
    """Let callers register tools although they need no credential."""
    drain_seconds: float = DRAIN_SECONDS
    """How long running calls may take to finish at shutdown."""
    notice_seconds: float = 0.0
    """How long requests are still accepted after readiness went false."""
    limits: Limits | None = None
    """Instead of the limits in the configuration."""


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a serving process."""

    hub: Hub
    gateway: Gateway
    pipeline: RequestPipeline
    startup: Startup
    audit: Audit
    reporter: CallReporter
    log: TenantLog
    calls: CallFiles | None = None
    """The calls that are kept; ``None`` without a store."""
    tenants: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """The configuration files of the further tenants, by tenant."""
    limits: Limits = Limits()
    shared_limits: SharedLimits | None = None
    """What holds the limits of callers across replicas, while its ``run()`` runs."""


@asynccontextmanager
async def open_serving(
    options: ServeOptions, *, port: int | None = None
) -> AsyncGenerator[Serving]:
    """Open the hub and the gateway; ``startup.run()`` starts the hub, and leaving closes it.

    Args:
        options: what is served.
        port: the port of this process; a server at this port is this process itself, and is
            left out.

    Raises:
        ConfigError: when the section ``gateway`` of the configuration cannot be used, or the audit
            file cannot be written.
        StorageError: when the storage cannot be opened.
    """
    settings = await anyio.to_thread.run_sync(load_gateway_settings, options.config)
    approval = await anyio.to_thread.run_sync(approval_in, options.config)
    RESPONSES.most = settings.options.response_bytes
    metrics = Metrics()
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(_open_operators_store(options.storage))
        audit = await stack.enter_async_context(_open_audit(options, store))
        shared_limits = _shared_limits(store)
        log = await stack.enter_async_context(_open_log(options, settings.options))
        activity = options.activity

        calls = await stack.enter_async_context(_open_calls(options.storage, settings.options))
        told = (metrics.note_call, audit, calls, None if activity is None else activity.call)
        reporter = CallReporter(
            *(it for it in told if it is not None),
            arguments=settings.options.record_arguments,
            results=settings.options.record_results,
        )

        def observed(hub: Hub, tenant: str = DEFAULT_TENANT) -> Hub:
            hub.registry.observe(reporter.observer(hub.server))
            hub.on_change(partial(_audit_definitions, audit, tenant))
            return hub

        known: HubOptions = {
            "storage": options.storage,
            "relays_questions": True,
            "relays_apps": settings.options.apps,
            # Of tenants whose own files say nothing about names.
            "naming": settings.naming,
            "leave_out": partial(_is_itself, options.host, port),
        }
        hub = observed(Hub(options.config, **_logged(known, log.of())))
        startup = Startup(hub)
        stack.push_async_callback(hub.close)

        def open_tenant(name: str) -> Hub | None:
            # The file of a tenant may be written by people whom the operator does not know.
            own: HubOptions = {**_logged(known, log.of(name)), "approval": approval}
            tenants_hub = _hub_of(name, settings, own)
            return None if tenants_hub is None else observed(tenants_hub, name)

        gateway = await stack.enter_async_context(
            Gateway(hub, settings.options, open_tenant=open_tenant, reporter=reporter, store=store)
        )
        pipeline = RequestPipeline(
            gateway,
            limits=CallLimits(shared=shared_limits),
            metrics=metrics,
            startup=startup,
            audit=audit,
            reporter=reporter,
        )
        pipeline.on_client = None if activity is None else activity.client
        _watch(metrics, hub)
        metrics.watch_limits(gateway.limits)
        metrics.watch_limits(lambda: [_use_of_responses()])
        stack.enter_context(watched(settings.options.loop_stall_seconds, metrics.note_stall))
        yield Serving(
            hub=hub,
            gateway=gateway,
            pipeline=pipeline,
            startup=startup,
            audit=audit,
            reporter=reporter,
            log=log.of(),
            calls=calls,
            tenants=settings.tenants,
            limits=options.limits or settings.limits,
            shared_limits=shared_limits,
        )


def _hub_of(name: str, settings: GatewaySettings, known: HubOptions) -> Hub | None:
    """Return the hub of a tenant, with the servers of its file or with its registered tools."""
    config = settings.tenants.get(name)
    is_kept = known.get("storage") is not None
    if config is None and not is_kept:
        return None
    source: str | Mapping[str, Any] = {"mcpServers": {}} if config is None else config
    own: HubOptions = {**known, "tenant": name} if is_kept else known
    return Hub(source, **own)


def _logged(known: HubOptions, log: TenantLog) -> HubOptions:
    return {**known, "server_log": log}


def _audit_definitions(audit: Audit, tenant: str, event: ServerEvent) -> None:
    """Record the definitions that a server has changed since they were last seen."""
    if not isinstance(event, DefinitionsChanged):
        return
    changed = AuditRecord(
        at=time.time(),
        action=DEFINITION_CHANGED,
        outcome="done",
        tenant=tenant,
        source=f"server {event.server}",
    )
    for it in event.tools:
        reason = f"sha256:{it.before} -> sha256:{it.after}"
        audit.add(msgspec.structs.replace(changed, target=visible(it.tool), reason=reason))
    if event.more:
        audit.add(msgspec.structs.replace(changed, reason="more", count=event.more))


def _is_itself(host: str, port: int | None, config: ServerConfig) -> bool:
    """Tell whether a server is this process, which would then show each tool twice."""
    is_itself = port is not None and is_own_address(config, host, port)
    if is_itself:
        logger.warning("Server %r is this gateway itself and is left out.", config.name)
    return is_itself


@asynccontextmanager
async def _open_operators_store(storage: str | None) -> AsyncGenerator[Store | None]:
    if storage is None:
        yield None
        return
    store = await anyio.to_thread.run_sync(partial(open_store, storage, tenant=OPERATOR))
    try:
        yield store
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(store.close)


def _shared_limits(store: Store | None) -> SharedLimits | None:
    """Return what replicas on one store hold the limits of callers together with."""
    if store is None:
        return None
    if is_on_this_machine(store.url):
        if scheme_of(store.url) != "sqlite":
            return None
        return SharedLimits(store.fill_buckets, has_others=partial(has_others, store.url))
    return SharedLimits(store.fill_buckets)


@asynccontextmanager
async def _open_audit(options: ServeOptions, store: Store | None) -> AsyncGenerator[Audit]:
    if options.audit_file is not None:
        await anyio.to_thread.run_sync(_try_file, options.audit_file)
    audit = Audit(store, path=options.audit_file)
    try:
        yield audit
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(audit.close)


@asynccontextmanager
async def _open_log(options: ServeOptions, limits: GatewayOptions) -> AsyncGenerator[ServerLog]:
    is_kept = options.log_folder is not None and limits.log_bytes > 0
    log = ServerLog(
        Path(options.log_folder) if is_kept and options.log_folder else None,
        most=limits.log_bytes,
        most_each=limits.log_bytes_per_server,
        watch=None if options.activity is None else options.activity.server,
    )
    log.of().note("", "started", f"process {os.getpid()}")
    try:
        yield log
    finally:
        log.of().note("", "stopped")
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(log.close)


@asynccontextmanager
async def _open_calls(
    storage: str | None, options: GatewayOptions
) -> AsyncGenerator[CallFiles | None]:
    place = None if storage is None else await anyio.to_thread.run_sync(calls_place, storage)
    if place is None:
        yield None
        return
    calls = CallFiles(place, days=options.calls_days, size=options.calls_bytes)
    try:
        yield calls
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(calls.close)


def _try_file(path: str) -> None:
    try:
        os.close(open_file_to_append(path))
    except OSError as error:
        words = f"The file of `--audit` cannot be written: {path!r}: {error.strerror}."
        raise ConfigError(words) from error


def _use_of_responses() -> LimitUse:
    return LimitUse(
        name="response bytes",
        used=RESPONSES.held,
        limit=RESPONSES.most,
        setting="gateway.response_bytes",
    )


def _watch(metrics: Metrics, hub: Hub) -> None:
    metrics.watch(
        "servers",
        "Servers by their state.",
        ("server", "state"),
        lambda: {
            **{(name, "unusable"): 1.0 for name in unusable_entries(hub.loaded)},
            **{(name, it.state): 1.0 for name, it in hub.servers.items()},
        },
    )
    metrics.watch("tools", "Tools on the board.", (), lambda: {(): float(len(hub.registry))})
