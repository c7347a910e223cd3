"""Run: serve over HTTP or stdio from the start of the process until its shutdown."""

import ipaddress
import logging
import os
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from msgspec.structs import replace

from pegboard.auth import (
    ApiKeys,
    Authenticator,
    AuthSettings,
    CredentialAuthenticator,
    check_binding,
    load_auth_settings,
    open_authenticator,
)
from pegboard.auth.network_exposure import is_loopback
from pegboard.errors import UnauthenticatedError
from pegboard.gateway import Face
from pegboard.gateway.catalog.group_addresses import ApprovedServer
from pegboard.hub import Hub
from pegboard.model.garbage_collection import freeze_batches
from pegboard.model.principal import LOCAL, OPERATOR, Principal
from pegboard.observe.call_reporter import caller_of
from pegboard.server.http.app import App
from pegboard.server.http.authentication import HttpAuthenticator
from pegboard.server.http.console_entry import ConsoleEntry
from pegboard.server.http.discovery.discovery import Discovery
from pegboard.server.http.host_check import HostCheck
from pegboard.server.http.local_api import LocalApi, LocalToken
from pegboard.server.http.request import HttpRequest
from pegboard.server.http.uvicorn_server import HttpServer, listen_on, within_descriptors
from pegboard.server.process.assembly import ServeOptions, Serving, open_serving
from pegboard.server.process.config_reload import ConfigReload
from pegboard.server.process.drain import drain
from pegboard.server.process.instance_discovery import (
    RunningInstance,
    identity_of,
    place_of_store,
    publish,
    withdraw,
)
from pegboard.server.process.signals import Shutdown, watch_signals
from pegboard.server.stdio import StdioWire, serve_stdio
from pegboard.storage import open_store
from pegboard.storage.open_store import without_password

if TYPE_CHECKING:
    from pegboard.console.console import Console

__all__ = ["OnUp", "announce", "own_address", "run_http", "run_stdio"]

logger: logging.Logger = logging.getLogger("pegboard.server")

OnUp = Callable[[Serving, str], object]
"""Called when everything is up, with what is served and its address (empty for stdio)."""


async def run_http(options: ServeOptions, on_up: OnUp) -> None:
    """Serve over HTTP until a signal shuts the process down.

    Raises:
        ConfigError: when the configuration cannot be used, or would serve other machines without
            credentials.
        StorageError: when the storage cannot be opened.
    """
    settings = await _auth_settings(options)
    check_binding(settings, options.host)
    listener = listen_on(options.host, options.port)
    shutdown = Shutdown()
    async with AsyncExitStack() as stack:
        stack.callback(listener.close)
        port: int = listener.getsockname()[1]
        serving = await stack.enter_async_context(open_serving(options, port=port))
        authenticator = await stack.enter_async_context(
            open_authenticator(settings, storage=options.storage)
        )
        metrics = serving.pipeline.metrics

        def refused(error: UnauthenticatedError, source: str) -> None:
            metrics.note_refusal(error.reason)
            serving.audit.note("authenticate", "refused", reason=error.reason, source=source)

        def on_refusal(request: HttpRequest, error: UnauthenticatedError) -> None:
            refused(error, request.source)

        local_token = LocalToken()
        owner = caller_of(LOCAL.tenant, LOCAL.subject, "pegboard")
        http_authenticator = HttpAuthenticator(
            authenticator, settings=settings, on_refusal=on_refusal, local_token=local_token
        )
        limits = within_descriptors(serving.limits)
        address = f"http://{_in_url(options.host)}:{port}"
        console = _console(
            serving,
            options,
            authenticator if settings.required else None,
            address,
            stack,
            refused=refused,
        )
        app = App(
            serving.pipeline,
            authenticator=http_authenticator,
            hosts=_hosts(options, settings),
            limits=limits,
            surface=options.surface,
            local_api=LocalApi(
                serving.hub,
                startup=serving.startup,
                local_token=local_token,
                limits=metrics.limits,
                calls=serving.calls,
                numbers=metrics.calls,
                on_refused=lambda tool, code: serving.reporter.refused(tool, owner, code),
                console=console,
                learn_skills=serving.gateway.learn_skills,
            ),
        )
        app.console = console
        app.discovery = Discovery.of(
            serving.gateway.options, settings, approved=partial(_approved_servers, serving)
        )
        server = HttpServer(app, limits=limits)
        up = partial(on_up, serving, address)
        announcing = partial(announce, local_token, options, serving.hub, port=port)
        async with app.open(), anyio.create_task_group() as tasks:
            tasks.start_soon(_start_and_follow, serving, shutdown, options, up, announcing)
            tasks.start_soon(server.close_slow_connections)
            if serving.shared_limits is not None:
                tasks.start_soon(serving.shared_limits.run)
            tasks.start_soon(_shut_down_http, shutdown, serving, app, server, options)
            await server.serve(sockets=[listener])
            tasks.cancel_scope.cancel()
    if serving.startup.error is not None:
        raise serving.startup.error


async def run_stdio(options: ServeOptions, descriptors: tuple[int, int], on_up: OnUp) -> None:
    """Serve the one client at the other end of two file descriptors, until it leaves.

    Raises:
        ConfigError: when the configuration cannot be used.
        StorageError: when the storage cannot be opened.
    """
    shutdown = Shutdown()
    wire = StdioWire(*descriptors)
    async with open_serving(options) as serving, anyio.create_task_group() as tasks:
        tasks.start_soon(_start_and_follow, serving, shutdown, options, partial(on_up, serving, ""))
        if serving.shared_limits is not None:
            tasks.start_soon(serving.shared_limits.run)
        tasks.start_soon(_shut_down_stdio, shutdown, serving, options, drained := anyio.Event())
        await serve_stdio(
            serving.pipeline, wire, face=Face(surface=options.surface), drained=drained
        )
        tasks.cancel_scope.cancel()
    if serving.startup.error is not None:
        raise serving.startup.error


async def announce(
    local_token: LocalToken,
    options: ServeOptions,
    hub: Hub,
    *,
    port: int,
    shutdown: Shutdown,
    announced: anyio.Event,
) -> None:
    """Publish this process until its shutdown; set ``announced`` also if it cannot be published."""
    path = None
    try:
        address = own_address(options.host, port)
        if address is not None:
            path = await anyio.to_thread.run_sync(_publish, local_token, options, hub, address)
        announced.set()
        await shutdown.requested.wait()
    except OSError as error:
        # Then commands start servers of their own.
        logger.debug("not_announced: %s", error, extra={"reason": str(error)})
    finally:
        announced.set()
        if path is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(withdraw, path)


def own_address(host: str, port: int) -> str | None:
    """Return the loopback address of a server, if it has one."""
    if is_loopback(host):
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"
    try:
        bound = ipaddress.ip_address(host)
    except ValueError:
        return None
    if not bound.is_unspecified:
        return None
    return f"http://127.0.0.1:{port}" if bound.version == 4 else f"http://[::1]:{port}"


async def _start_and_follow(
    serving: Serving,
    shutdown: Shutdown,
    options: ServeOptions,
    on_up: Callable[[], object],
    announcing: Callable[..., Coroutine[Any, Any, None]] | None = None,
) -> None:
    """Start the servers, then follow the signals and the configuration files."""
    reloading = ConfigReload(serving, options.config)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch_signals, shutdown, reloading.ask)
        await anyio.to_thread.run_sync(reloading.note)
        await serving.startup.run()
        if serving.startup.error is not None:
            shutdown.request()
            return
        freeze_batches()
        if announcing is not None:
            announced = anyio.Event()
            tasks.start_soon(partial(announcing, shutdown=shutdown, announced=announced))
            await announced.wait()
        if not shutdown.requested.is_set():
            _report(on_up)
        await reloading.run()


def _report(on_up: Callable[[], object]) -> None:
    try:
        on_up()
    except Exception:
        # The gateway serves all the same.
        logger.exception("What is served could not be reported.")


async def _approved_servers(serving: Serving, principal: Principal) -> list[ApprovedServer]:
    await serving.startup.wait()
    return await serving.gateway.approved_servers(principal)


async def _shut_down_http(
    shutdown: Shutdown, serving: Serving, app: App, server: HttpServer, options: ServeOptions
) -> None:
    """Wait for the shutdown, drain, then end the open streams and the HTTP server."""
    await shutdown.requested.wait()
    app.health.is_stopping = True
    await _drain(shutdown, serving, options, notice_seconds=options.notice_seconds)
    await app.end_streams()
    server.end(at_once=shutdown.forced.is_set())
    await shutdown.forced.wait()
    server.end(at_once=True)


async def _shut_down_stdio(
    shutdown: Shutdown, serving: Serving, options: ServeOptions, drained: anyio.Event
) -> None:
    await shutdown.requested.wait()
    await _drain(shutdown, serving, options)
    drained.set()


async def _drain(
    shutdown: Shutdown, serving: Serving, options: ServeOptions, *, notice_seconds: float = 0.0
) -> None:
    serving.log.note("", "draining", f"{serving.gateway.busy} requests are running")
    await drain(
        shutdown,
        serving.gateway,
        seconds=options.drain_seconds,
        notice_seconds=notice_seconds,
    )
    serving.log.note("", "drained", f"{serving.gateway.busy} requests are left")


def _console(
    serving: Serving,
    options: ServeOptions,
    authenticator: Authenticator | None,
    address: str,
    stack: AsyncExitStack,
    *,
    refused: Callable[[UnauthenticatedError, str], object],
) -> ConsoleEntry | None:
    if not serving.gateway.options.console:
        return None

    started = time()

    def make() -> "Console":
        # Only here: pages that are never looked at cost nothing.
        from pegboard.console.console import Console  # noqa: PLC0415
        from pegboard.console.console_sessions import ConsoleSessions  # noqa: PLC0415
        from pegboard.console.sources import Sources  # noqa: PLC0415

        metrics = serving.pipeline.metrics
        sources = Sources(
            gateway=serving.gateway,
            respond=serving.pipeline.respond,
            numbers=metrics.calls,
            latencies=metrics.latencies,
            limits=metrics.limits,
            running=lambda: tuple(serving.reporter.running.values()),
            stalls=lambda: metrics.stalls,
            started=started,
            calls=serving.calls,
            log_folder=None if options.log_folder is None else Path(options.log_folder),
            keys=_keys(authenticator, options, stack),
            asks_for_keys=_accepted_keys(authenticator) is not None,
            audit=serving.audit,
            refused=refused,
            config=options.config,
            tenants=serving.tenants,
            address=address,
            storage="" if options.storage is None else without_password(options.storage),
        )
        accepts = None if authenticator is None else authenticator.authenticate
        return Console(sources, ConsoleSessions(accepts))

    return ConsoleEntry(make)


def _accepted_keys(authenticator: Authenticator | None) -> ApiKeys | None:
    return authenticator.keys if isinstance(authenticator, CredentialAuthenticator) else None


def _keys(
    authenticator: Authenticator | None, options: ServeOptions, stack: AsyncExitStack
) -> ApiKeys | None:
    """Return the API keys that are accepted, or those that are only stored."""
    own = _accepted_keys(authenticator)
    if own is not None or options.storage is None:
        return own
    store = open_store(options.storage, tenant=OPERATOR)
    keys = ApiKeys(store)

    def close() -> None:
        keys.close()
        store.close()

    stack.push_async_callback(anyio.to_thread.run_sync, close)
    return keys


async def _auth_settings(options: ServeOptions) -> AuthSettings:
    settings = await anyio.to_thread.run_sync(load_auth_settings, options.config)
    return replace(
        settings,
        allow_open=settings.allow_open or options.allow_anonymous,
        allow_register=settings.allow_register or options.allow_register,
    )


def _hosts(options: ServeOptions, settings: AuthSettings) -> HostCheck:
    # Where every caller needs a credential, a page that DNS rebinding led here has none.
    any_name = settings.required and not options.allow_hosts
    return HostCheck(
        names=(*options.allow_hosts, options.host), origins=options.allow_origins, any_name=any_name
    )


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _publish(local_token: LocalToken, options: ServeOptions, hub: Hub, address: str) -> Path:
    machine, started = identity_of(os.getpid())
    config = hub.loaded.path
    return publish(
        RunningInstance(
            pid=os.getpid(),
            started=started,
            machine=machine,
            address=address,
            config=None if config is None else str(config.resolve()),
            store=None if options.storage is None else place_of_store(options.storage),
            token=local_token.token,
        )
    )
