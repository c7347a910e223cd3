"""Run: the life of a process that serves."""

import ipaddress
import logging
import os
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from msgspec.structs import replace

from pegboard.auth import AuthSettings, check_binding, load_auth_settings, open_authenticator
from pegboard.auth.settings import is_loopback
from pegboard.errors import UnauthenticatedError
from pegboard.gateway import Face, Gateway
from pegboard.hub import Hub
from pegboard.server.http.app import App
from pegboard.server.http.authentication import HttpAuthenticator
from pegboard.server.http.host_check import HostCheck
from pegboard.server.http.local_api import LocalApi, LocalToken
from pegboard.server.http.request import HttpRequest
from pegboard.server.http.uvicorn_server import HttpServer, listen_on
from pegboard.server.process.assembly import ServeOptions, Serving, open_serving
from pegboard.server.process.config_reload import ConfigReload
from pegboard.server.process.instance_discovery import (
    RunningInstance,
    identity_of,
    place_of_store,
    publish,
    withdraw,
)
from pegboard.server.process.signals import Ending, watch_signals
from pegboard.server.stdio import StdioWire, serve_stdio

__all__ = ["OnUp", "announce", "own_address", "run_http", "run_stdio"]

logger: logging.Logger = logging.getLogger("pegboard.server")

OnUp = Callable[[Serving, str], object]
"""Told when everything is up: what is served, and at which address (none for stdio)."""


async def run_http(options: ServeOptions, on_up: OnUp) -> None:
    """Serve over HTTP until a signal says otherwise.

    Raises:
        ConfigError: when the configuration cannot be used, or would let in everybody.
        StorageError: when the storage cannot be opened.
    """
    settings = await _auth_settings(options)
    check_binding(settings, options.host)
    listener = listen_on(options.host, options.port)
    ending = Ending()
    async with AsyncExitStack() as stack:
        stack.callback(listener.close)
        port: int = listener.getsockname()[1]
        serving = await stack.enter_async_context(open_serving(options, port=port))
        authenticator = await stack.enter_async_context(
            open_authenticator(settings, storage=options.storage)
        )
        metrics = serving.desk.metrics

        def on_refusal(request: HttpRequest, error: UnauthenticatedError) -> None:
            metrics.note_refusal(error.reason)
            serving.audit.note(
                "authenticate", "refused", reason=error.reason, source=request.source
            )

        owner = LocalToken()
        reception = HttpAuthenticator(
            authenticator, settings=settings, on_refusal=on_refusal, owner=owner
        )
        app = App(
            serving.desk,
            reception=reception,
            hosts=_hosts(options, settings),
            limits=options.limits,
            surface=options.surface,
            owners_desk=LocalApi(serving.hub, opening=serving.opening, owner=owner),
        )
        server = HttpServer(app, limits=options.limits)
        address = f"http://{_shown(options.host)}:{port}"
        up = partial(on_up, serving, address)
        announcing = partial(announce, owner, options, serving.hub, port=port)
        async with app.open(), anyio.create_task_group() as tasks:
            tasks.start_soon(_live, serving, ending, options, up, announcing)
            tasks.start_soon(server.close_slow_connections)
            tasks.start_soon(_end, ending, app, server, options)
            tasks.start_soon(_tell_of_calls, ending, serving.gateway)
            await server.serve(sockets=[listener])
            tasks.cancel_scope.cancel()
    if serving.opening.error is not None:
        raise serving.opening.error


async def run_stdio(options: ServeOptions, descriptors: tuple[int, int], on_up: OnUp) -> None:
    """Serve the one client at the other end of two descriptors, until it leaves.

    Raises:
        ConfigError: when the configuration cannot be used.
        StorageError: when the storage cannot be opened.
    """
    ending = Ending()
    wire = StdioWire(*descriptors)
    async with open_serving(options) as serving, anyio.create_task_group() as tasks:
        tasks.start_soon(_live, serving, ending, options, partial(on_up, serving, ""))
        tasks.start_soon(_tell_of_calls, ending, serving.gateway)
        tasks.start_soon(_drain, ending, serving.gateway, options, drained := anyio.Event())
        await serve_stdio(serving.desk, wire, face=Face(surface=options.surface), drained=drained)
        tasks.cancel_scope.cancel()
    if serving.opening.error is not None:
        raise serving.opening.error


async def announce(
    owner: LocalToken,
    options: ServeOptions,
    hub: Hub,
    *,
    port: int,
    ending: Ending,
    announced: anyio.Event,
) -> None:
    """Announce this process until it is to end; tell when that is done, or cannot be done."""
    path = None
    try:
        address = own_address(options.host, port)
        if address is not None:
            path = await anyio.to_thread.run_sync(_publish, owner, options, hub, address)
        announced.set()
        await ending.asked.wait()
    except OSError as error:
        # Commands start servers of their own then, that is all.
        logger.debug("not_announced: %s", error, extra={"reason": str(error)})
    finally:
        announced.set()
        if path is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(withdraw, path)


def own_address(host: str, port: int) -> str | None:
    """Return the address by which this machine alone reaches a server, if there is one."""
    if is_loopback(host):
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"
    try:
        bound = ipaddress.ip_address(host)
    except ValueError:
        return None
    if not bound.is_unspecified:
        return None
    return f"http://127.0.0.1:{port}" if bound.version == 4 else f"http://[::1]:{port}"


async def _live(
    serving: Serving,
    ending: Ending,
    options: ServeOptions,
    on_up: Callable[[], object],
    announcing: Callable[..., Coroutine[Any, Any, None]] | None = None,
) -> None:
    """Start the servers, then follow the signals and the files."""
    reloading = ConfigReload(serving, options.config)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch_signals, ending, reloading.ask)
        await anyio.to_thread.run_sync(reloading.note)
        await serving.opening.run()
        if serving.opening.error is not None:
            ending.ask()
            return
        if announcing is not None:
            announced = anyio.Event()
            tasks.start_soon(partial(announcing, ending=ending, announced=announced))
            await announced.wait()
        if not ending.asked.is_set():
            _tell(on_up)
        await reloading.run()


def _tell(on_up: Callable[[], object]) -> None:
    try:
        on_up()
    except Exception:
        # What is served is served all the same.
        logger.exception("What is served could not be told.")


async def _end(ending: Ending, app: App, server: HttpServer, options: ServeOptions) -> None:
    """Wait until the process is to end, then let go of everything in good order."""
    await ending.asked.wait()
    app.health.is_stopping = True
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_at, ending.pressed, tasks.cancel_scope)
        await anyio.sleep(options.notice_seconds)
        await app.drain(options.drain_seconds)
        tasks.cancel_scope.cancel()
    await app.end_streams()
    server.end(at_once=ending.pressed.is_set())
    await ending.pressed.wait()
    server.end(at_once=True)


async def _drain(
    ending: Ending, gateway: Gateway, options: ServeOptions, drained: anyio.Event
) -> None:
    await ending.asked.wait()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_cancel_at, ending.pressed, tasks.cancel_scope)
        await gateway.drain(options.drain_seconds)
        tasks.cancel_scope.cancel()
    drained.set()


async def _tell_of_calls(ending: Ending, gateway: Gateway) -> None:
    await ending.asked.wait()
    if gateway.busy:
        calls = "1 request" if gateway.busy == 1 else f"{gateway.busy} requests"
        logger.info("Finishing %s; Ctrl-C (or the signal) again stops at once.", calls)


async def _cancel_at(event: anyio.Event, scope: anyio.CancelScope) -> None:
    await event.wait()
    scope.cancel()


async def _auth_settings(options: ServeOptions) -> AuthSettings:
    settings = await anyio.to_thread.run_sync(load_auth_settings, options.config)
    return replace(settings, allow_open=True) if options.allow_anonymous else settings


def _hosts(options: ServeOptions, settings: AuthSettings) -> HostCheck:
    # Where everybody has to say who they are, a page that was tricked here has nothing to say.
    any_name = settings.required and not options.allow_hosts
    return HostCheck(
        names=(*options.allow_hosts, options.host), origins=options.allow_origins, any_name=any_name
    )


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _publish(owner: LocalToken, options: ServeOptions, hub: Hub, address: str) -> Path:
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
            token=owner.token,
        )
    )
