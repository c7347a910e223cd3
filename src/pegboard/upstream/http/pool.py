"""HttpPool: the HTTP connections of a hub, kept open for each server, and its logins."""

import asyncio  # noqa: TID251 - the HTTP library is made for asyncio
import os
import select
import socket
import ssl
import stat
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import getproxies
from weakref import WeakSet

import aiohttp
import anyio
import anyio.to_thread
from aiohttp.connector import Connection
from aiohttp.tracing import Trace
from anyio import AsyncContextManagerMixin

from pegboard.config.servers import ServerConfig, TlsConfig
from pegboard.errors import ConfigError
from pegboard.upstream.http.client import CLOSED, HttpClient, TlsChangedError
from pegboard.upstream.http.proxies import proxy_for
from pegboard.upstream.http.request_body import REQUEST_CLASS
from pegboard.upstream.http.tls import tls_context
from pegboard.upstream.messages.failures import FailedError, Failure

__all__ = ["HttpPool", "OnLogin", "StartSoon"]

# Shorter than the five seconds after which common servers close an idle connection: a request
# written while the server hangs up could not be repeated safely.
KEPT_IDLE = 4.0
_SECONDS_TO_CLOSE = 2.0
_SHARE = 0.9
"""The part of the time for opening a session after which a connection is given up: so the error
says that the address does not answer, and not only that the server is not ready."""
_LONGEST_HEADER = 64 * 1024
_PIECE = 256 * 1024

OnLogin = Callable[[str, str], object]
"""Receives the name of a server and the URL of its login page."""
StartSoon = Callable[[Callable[[], Awaitable[object]]], object]
"""Starts work in a background task, which belongs to no call."""


class HttpPool(AsyncContextManagerMixin):
    """The HTTP connections of one hub: kept open between sessions, for each server its own.

    It opens nothing before it is used, so it may be made anywhere; ``close`` it in the event loop
    that used it, or use it as a context manager.
    """

    def __init__(
        self,
        *,
        on_login: OnLogin | None = None,
        tenant: str = "",
        start_soon: StartSoon | None = None,
        token_storage: Any = None,
    ) -> None:
        self.on_login: OnLogin | None = on_login
        """Shows the login page to a person, instead of opening a browser."""
        self.tenant: str = tenant
        """The tenant of the logins."""
        self.start_soon: StartSoon | None = start_soon
        """Starts a login that outlives its call; ``None`` if logins end with their call."""
        self.token_storage: Any = token_storage
        """Where tokens are, instead of where the configuration of a server says."""
        self._logins: dict[object, Any] = {}
        """By server and login: connections to one server share its tokens."""
        self._connectors: dict[object, aiohttp.TCPConnector] = {}
        self._tls: dict[object, tuple[object, ssl.SSLContext]] = {}
        self._users: Counter[object] = Counter()
        self._latest: dict[str, object] = {}
        """The newest key of each server; connections of an older entry end with their users."""
        self._proxies = getproxies()
        self._is_closed = False

    @asynccontextmanager
    async def __asynccontextmanager__(self) -> AsyncGenerator["HttpPool"]:
        try:
            yield self
        finally:
            await self.close()

    async def close(self) -> None:
        """Close all connections; later requests fail."""
        self._is_closed = True
        connectors = list(self._connectors.values())
        self._connectors.clear()
        with anyio.move_on_after(_SECONDS_TO_CLOSE, shield=True):
            for connector in connectors:
                await connector.close()

    @asynccontextmanager
    async def client_for(self, config: ServerConfig) -> AsyncGenerator["HttpClient"]:
        """Open a client with the headers, credentials and limits of one server.

        Raises:
            ConfigError: when a header or a TLS file of the server cannot be used.
            FailedError: when the pool is closed.
        """
        url = config.url or ""
        proxy = proxy_for(url, config.proxy, self._proxies)
        if proxy is not None and not proxy.startswith(("http:", "https:")):
            kind = proxy.partition(":")[0]
            problem = f"its proxy speaks {kind!r}, and only HTTP proxies are supported."
            remedy = " Check its `proxy`, or the proxy of the environment."
            raise FailedError(Failure(kind="not_sent", message=problem, remedy=remedy))
        tls: ssl.SSLContext | None = None
        if url.startswith("https:") or (proxy or "").startswith("https:"):
            tls = await self.tls_for(config)
        if self._is_closed:
            raise FailedError(CLOSED)
        # Never shared: a connection carries the credentials of its server.
        key = (config.name, config.url, config.tls, proxy)
        connector = self._connectors.get(key)
        if connector is None or connector.closed:
            connector = self._connectors[key] = _Connector(
                limit=0, keepalive_timeout=KEPT_IDLE, socket_factory=_lasting_socket
            )
            if tls is not None:
                connector.newest_tls = partial(self.tls_for, config)
        async with aiohttp.ClientSession(
            connector=connector,
            connector_owner=False,
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=None, connect=_SHARE * config.timeouts.connect),
            max_line_size=_LONGEST_HEADER,
            max_field_size=_LONGEST_HEADER,
            read_bufsize=_PIECE,
            request_class=REQUEST_CLASS,
        ) as session:
            client = HttpClient(config, session, tls=tls, proxy=proxy, login=self._login_of(config))
            before = self._latest.get(config.name, key)
            self._latest[config.name] = key
            self._users[key] += 1
            try:
                await self._drop_replaced(config.name, before)
                yield client
            finally:
                client.close()
                self._users[key] -= 1
                await self._drop_replaced(config.name, key)

    async def _drop_replaced(self, server: str, key: object) -> None:
        """Close the connections of an entry that was replaced, unless it is still in use."""
        if self._users[key] or self._latest[server] == key:
            return
        del self._users[key]
        connector = self._connectors.pop(key, None)
        if connector is not None:
            with anyio.move_on_after(_SECONDS_TO_CLOSE, shield=True):
                await connector.close()

    async def tls_for(self, config: ServerConfig) -> ssl.SSLContext:
        """Return the certificates for a server.

        Raises:
            ConfigError: when its files cannot be read.
        """
        # In a thread: it reads files. They are read again when they have changed.
        stamp = await anyio.to_thread.run_sync(_stamps, config.tls)
        known = self._tls.get(config.tls)
        if known is None or known[0] != stamp:
            context = await anyio.to_thread.run_sync(tls_context, config.tls)
            known = self._tls[config.tls] = (stamp, context)
        return known[1]

    def _login_of(self, config: ServerConfig) -> Any:
        if config.oauth is None:
            return None
        # After a reload the name may stand for another server, which must not get the token.
        key = (config.name, config.url, config.oauth)
        if key not in self._logins:
            # Few servers need it, and it imports the SDK and cryptography.
            from pegboard.upstream.http.login import LoginClient  # noqa: PLC0415

            show = None if self.on_login is None else partial(self.on_login, config.name)
            self._logins[key] = LoginClient(
                config,
                tls=partial(self.tls_for, config),
                proxies=self._proxies,
                storage=self.token_storage,
                on_login=show,
                tenant=self.tenant,
                start_soon=self.start_soon,
            )
        return self._logins[key]


def _lasting_socket(address: Any) -> socket.socket:
    """Make a socket that notices a vanished peer: a stream may be silent for hours."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return made


_used: WeakSet[object] = WeakSet()
"""The protocols of the connections that were used once."""


class _Connector(aiohttp.TCPConnector):
    """Uses a connection again only if there is nothing to read: no end, and no further response.

    A new one is used only if the certificates that it was opened with are still those of the files.
    """

    newest_tls: Callable[[], Awaitable[ssl.SSLContext]] | None = None
    """Returns the certificates as the files are now; ``None`` if there are none."""

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - the library's parameter
    ) -> Connection:
        while True:
            connection = await super().connect(req, traces, timeout)
            protocol = connection.protocol
            assert protocol is not None
            if protocol not in _used:
                # There may be something to read: TLS sends tickets by itself.
                _used.add(protocol)
                await self._check_tls(req, connection)
                return connection
            if not (protocol.should_close or _is_readable(connection.transport)):
                return connection
            connection.close()

    async def _check_tls(self, req: aiohttp.ClientRequest, connection: Connection) -> None:
        """Refuse a connection with older certificates, before a request is lost on it.

        A server may accept the connection, and refuse the certificate only when it has the request.
        """
        if self.newest_tls is None:
            return
        try:
            newest = await self.newest_tls()
        except ConfigError:
            # The files may be only half written.
            return
        except BaseException:
            connection.close()
            raise
        if newest is not req.ssl:
            connection.close()
            raise TlsChangedError(newest)


def _is_readable(transport: asyncio.Transport | None) -> bool:
    """Tell whether the peer has sent something, or the end, that the event loop has not seen."""
    if transport is None:
        return True
    waiting = select.poll()
    waiting.register(transport.get_extra_info("socket"), select.POLLIN)
    return bool(waiting.poll(0))


def _stamps(tls: TlsConfig | None) -> list[tuple[int, int]]:
    """Return when the files of a TLS configuration were last written, and their sizes."""
    paths = [] if tls is None else [tls.ca, tls.client_cert, tls.client_key]
    paths += [os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")]
    return [stamp for path in paths if path for stamp in _stamps_of(Path(path).expanduser())]


def _stamps_of(path: Path) -> Iterator[tuple[int, int]]:
    try:
        found = path.stat()
        yield found.st_mtime_ns, found.st_size
        if stat.S_ISDIR(found.st_mode):
            # A file in it may be written anew, which does not change the folder.
            for file in sorted(path.iterdir()):
                found = file.stat()
                yield found.st_mtime_ns, found.st_size
    except OSError:
        yield -1, -1
