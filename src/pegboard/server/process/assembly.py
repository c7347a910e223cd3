"""Assembly: the hub, gateway, audit and metrics of one serving process, opened and closed."""

import logging
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from pegboard.config import ServerConfig
from pegboard.errors import ConfigError
from pegboard.gateway import Gateway, Surface
from pegboard.hub import Hub
from pegboard.hub.options import HubOptions
from pegboard.hub.sources import is_own_address
from pegboard.model.principal import OPERATOR
from pegboard.observe import Audit
from pegboard.observe.json_lines import open_file_to_append
from pegboard.server.http.request import Limits
from pegboard.server.metrics import Metrics
from pegboard.server.process.drain import DRAIN_SECONDS
from pegboard.server.request_pipeline import RequestPipeline
from pegboard.server.settings import GatewaySettings, load_gateway_settings
from pegboard.server.startup import Startup
from pegboard.storage import open_store

__all__ = ["ServeOptions", "Serving", "open_serving"]

logger: logging.Logger = logging.getLogger("pegboard.server")


class ServeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a process serves, where, and to whom."""

    config: str | Mapping[str, Any] | None = None
    """The file with the servers, or its content; ``None`` to look for the file."""
    storage: str | None = None
    """Where definitions, keys, usage and the audit are stored; ``None`` to store nothing."""
    audit_file: str | None = None
    """A file that also gets the audit, as lines of JSON."""
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
    limits: Limits = Limits()


class Serving(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a serving process."""

    hub: Hub
    gateway: Gateway
    pipeline: RequestPipeline
    startup: Startup
    audit: Audit
    tenants: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """The configuration files of the further tenants, by tenant."""


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
    metrics = Metrics()
    async with AsyncExitStack() as stack:
        audit = await stack.enter_async_context(_open_audit(options))

        def watched(hub: Hub) -> Hub:
            hub.registry.observe(metrics.observer(hub.server))
            hub.registry.observe(audit)
            return hub

        known: HubOptions = {
            "storage": options.storage,
            "relays_questions": True,
            "leave_out": partial(_is_itself, options.host, port),
        }
        hub = watched(Hub(options.config, **known))
        startup = Startup(hub)
        stack.push_async_callback(hub.close)

        def open_tenant(name: str) -> Hub | None:
            tenants_hub = _hub_of(name, settings, known)
            return None if tenants_hub is None else watched(tenants_hub)

        gateway = await stack.enter_async_context(
            Gateway(hub, settings.options, open_tenant=open_tenant)
        )
        pipeline = RequestPipeline(gateway, metrics=metrics, startup=startup, audit=audit)
        _watch(metrics, hub)
        yield Serving(
            hub=hub,
            gateway=gateway,
            pipeline=pipeline,
            startup=startup,
            audit=audit,
            tenants=settings.tenants,
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


def _is_itself(host: str, port: int | None, config: ServerConfig) -> bool:
    """Tell whether a server is this process, which would then show each tool twice."""
    is_itself = port is not None and is_own_address(config, host, port)
    if is_itself:
        logger.warning("Server %r is this gateway itself and is left out.", config.name)
    return is_itself


@asynccontextmanager
async def _open_audit(options: ServeOptions) -> AsyncGenerator[Audit]:
    if options.audit_file is not None:
        await anyio.to_thread.run_sync(_try_file, options.audit_file)
    store = None
    if options.storage is not None:
        opened = partial(open_store, options.storage, tenant=OPERATOR)
        store = await anyio.to_thread.run_sync(opened)
    audit = Audit(store, path=options.audit_file)
    try:
        yield audit
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(audit.close)
            if store is not None:
                await anyio.to_thread.run_sync(store.close)


def _try_file(path: str) -> None:
    try:
        os.close(open_file_to_append(path))
    except OSError as error:
        words = f"The file of `--audit` cannot be written: {path!r}: {error.strerror}."
        raise ConfigError(words) from error


def _watch(metrics: Metrics, hub: Hub) -> None:
    metrics.watch(
        "servers",
        "Servers by their state.",
        ("server", "state"),
        lambda: {(name, it.state): 1.0 for name, it in hub.servers.items()},
    )
    metrics.watch("tools", "Tools on the board.", (), lambda: {(): float(len(hub.registry))})
