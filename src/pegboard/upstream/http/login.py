"""LoginClient: send requests to a server with the tokens of its OAuth login."""

import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp
import httpx2

from pegboard.config.servers import ServerConfig
from pegboard.errors import ServerAuthenticationError, UntrustedAddressError
from pegboard.upstream.http.client import without_credentials
from pegboard.upstream.http.proxies import is_loopback, proxy_for
from pegboard.upstream.http.response_body import Refusal, chunks_of, refusal_in
from pegboard.upstream.http.tls import explain_tls_error
from pegboard.upstream.messages.failures import FailedError, Failure
from pegboard.upstream.oauth.background_login import BackgroundLogin
from pegboard.upstream.oauth.provider import oauth_provider

__all__ = ["LoginAddresses", "LoginClient", "is_internal"]

LARGEST_ANSWER = 1024 * 1024
"""The most bytes of one response of an authorization server."""
_OF_THE_CONNECTION = frozenset({"host", "content-length", "connection", "accept-encoding"})
_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "::1"})
"""What operators write for a server on this machine: all of them mean the same place."""
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
Send = Callable[[Mapping[str, str]], Awaitable[aiohttp.ClientResponse]]
"""Sends the request of the session with these headers."""


class LoginClient:
    """The tokens of one server, and the login that obtains them.

    The SDK's OAuth speaks `httpx2`: its own requests, to the authorization server, are made and
    answered in the words of that library. They are sent only where `LoginAddresses` allows it.

    Args:
        config: the server.
        tls: returns the certificates for the requests of the login.
        proxies: the proxies of the environment.
        storage: where tokens are, instead of where the configuration says.
        on_login: shows the login page to a person, instead of opening a browser.
        tenant: the tenant of the login.
        start_soon: starts a login that outlives its call.
    """

    def __init__(  # noqa: PLR0913 - a login is told all of it
        self,
        config: ServerConfig,
        *,
        tls: Callable[[], Awaitable[ssl.SSLContext]],
        proxies: dict[str, str],
        storage: Any,
        on_login: Callable[[str], object] | None,
        tenant: str,
        start_soon: Callable[[Callable[[], Awaitable[object]]], object] | None,
    ) -> None:
        self._config = config
        self._tls = tls
        self._proxies = proxies
        background = None if start_soon is None else BackgroundLogin(start_soon, self._ask)
        self._auth = oauth_provider(
            config, storage=storage, on_login=on_login, tenant=tenant, background_login=background
        )

    async def send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, send: Send
    ) -> aiohttp.ClientResponse | Refusal:
        """Send a request with a token, and log in if the server wants that.

        Raises:
            FailedError: when the request has no response, or the login failed.
        """
        refusal: Refusal | None = None
        token = self._auth.authorization()
        if token is not None:
            response = await send({**headers, "authorization": token})
            if response.status not in (401, 403):
                return response
            refusal = await refusal_in(response)
        limits = httpx2.Timeout(self._config.timeouts.connect).as_dict()
        request = httpx2.Request(
            method, url, headers=dict(headers), content=body, extensions={"timeout": limits}
        )
        flow = self._auth.async_auth_flow(request)
        is_used = False
        try:
            outgoing = await anext(flow)
            while True:
                if outgoing is not request:
                    answer = await self._ask(outgoing)
                else:
                    given = request.headers.get("authorization")
                    if refusal is None or given != refusal.authorization or is_used:
                        added = {} if given is None else {"authorization": given}
                        response = await send({**headers, **added})
                        if response.status not in (401, 403):
                            return response
                        refusal = await refusal_in(response)
                    # A refusal is handed in once, and only for the token that was refused.
                    is_used = True
                    assert refusal is not None
                    answer = _readable(refusal, request)
                outgoing = await flow.asend(answer)
        except StopAsyncIteration:
            assert refusal is not None
            return refusal
        except ServerAuthenticationError as error:
            raise FailedError(Failure(kind="unauthorized", message=str(error))) from error
        except httpx2.HTTPError as error:
            # The request itself was not sent yet, or was refused because it had no token.
            reason = str(error).rstrip(".") or type(error).__name__
            message = f"Its authorization server does not answer: {reason}."
            raise FailedError(Failure(kind="not_sent", message=message)) from error
        finally:
            await flow.aclose()

    async def _ask(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request of the login, without the headers and credentials of the server.

        Redirects are not followed: each address that a server names is checked.

        Raises:
            UntrustedAddressError: when the address is not one that a server may name.
            httpx2.TransportError: when there is no response, or one that is too large.
        """
        url, host = str(request.url), request.url.host
        tls, proxy = await self._tls(), proxy_for(url, self._config.proxy, self._proxies)
        addresses = LoginAddresses(self._config)
        addresses.check(request.url)
        options: dict[str, Any] = {"allow_redirects": False, "ssl": tls}
        if proxy is not None:
            options["proxy"], credentials = without_credentials(proxy)
            options["proxy_headers"] = credentials or None
        headers = {key: it for key, it in request.headers.items() if key not in _OF_THE_CONNECTION}
        seconds = self._config.timeouts.connect
        limits = aiohttp.ClientTimeout(total=2 * seconds, sock_connect=seconds, sock_read=seconds)
        # A proxy resolves names itself, and its operator decides what it reaches.
        factory = None if proxy is not None else addresses.connect_to(host)
        try:
            async with (
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(force_close=True, socket_factory=factory),
                    auto_decompress=False,
                    timeout=limits,
                ) as session,
                session.request(
                    request.method,
                    url,
                    headers={**headers, "accept-encoding": "identity"},
                    data=request.read() or None,
                    **options,
                ) as response,
            ):
                body = await _body_of(response)
                return httpx2.Response(
                    response.status,
                    headers=list(response.headers.items()),
                    content=body,
                    request=request,
                )
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if addresses.refused:
                raise addresses.untrusted(request.url, addresses.refused) from error
            said = explain_tls_error(error, host) or " ".join(str(error).split())
            raise httpx2.TransportError(said or type(error).__name__) from error


def _readable(refusal: Refusal, request: httpx2.Request) -> httpx2.Response:
    """Return a refusal for the login; the library would decompress its body any number of times."""
    headers = [it for it in refusal.headers.items() if it[0].lower() != "content-encoding"]
    content = refusal.body if len(headers) == len(refusal.headers) else b""
    return httpx2.Response(refusal.status, headers=headers, content=content, request=request)


class LoginAddresses:
    """Which addresses the login of one server may use.

    A server names the addresses of its metadata, its authorization server and the endpoints there,
    so each may lead anywhere. Allowed are the host of the server itself, public addresses by HTTPS,
    and the hosts that the operator trusts.
    """

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._own = httpx2.URL(config.url or "")
        oauth = config.oauth
        self._trusted = () if oauth is None else tuple(it.lower() for it in oauth.trusted_hosts)
        self.refused: str = ""
        """The last address that `connect_to` refused."""

    def check(self, url: httpx2.URL) -> None:
        """Refuse an address by what is written in it.

        Raises:
            UntrustedAddressError: when it is not allowed.
        """
        if self._is_trusted(url.host):
            return
        is_own = self._is_own(url.host)
        if url.scheme != "https" and not (is_own and self._own.scheme == "http"):
            raise self.untrusted(url, "")
        if not is_own and (is_loopback(url.host) or is_internal(url.host)):
            raise self.untrusted(url, url.host)

    def connect_to(self, host: str) -> Callable[[Any], socket.socket]:
        """Return what makes the socket for each address that a host was resolved to.

        The check is at the same moment as the connection, so that no name can resolve to a public
        address for the check and to another one for the connection.
        """
        is_free = self._is_trusted(host) or self._is_own(host)

        def make(address: Any) -> socket.socket:
            family, kind, protocol, _, place = address
            if not is_free and is_internal(place[0]):
                self.refused = place[0]
                raise PermissionError(f"{place[0]} is not a public address")
            return socket.socket(family, kind, protocol)

        return make

    def untrusted(self, url: httpx2.URL, address: str) -> UntrustedAddressError:
        """Return the error for an address that is not allowed; without one, HTTPS is missing."""
        name, host = self._config.name, url.host
        where = f"{url.scheme}://{url.netloc.decode('ascii', 'replace')}"
        why = "does not use HTTPS"
        if address:
            why = "is not a public address"
            if address != host:
                why = f"is at {address}, and that {why}"
        return UntrustedAddressError(
            f"Logging in to server {name!r} was stopped: its login leads to {where}, which {why}. "
            f"If you trust it, add {host!r} to `oauth.trusted_hosts` in the entry of the server.",
            server=name,
            host=host,
        )

    def _is_trusted(self, host: str) -> bool:
        return host.lower() in self._trusted

    def _is_own(self, host: str) -> bool:
        own = self._own.host.lower()
        return host.lower() == own or {host.lower(), own} <= _THIS_MACHINE


def is_internal(address: str) -> bool:
    """Tell whether text is an IP address that is not public: loopback, link-local, private."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0].strip("[]"))
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address):
        for inner in (found.ipv4_mapped, found.sixtofour, *(found.teredo or ())):
            if inner is not None and is_internal(str(inner)):
                return True
        if found in _NAT64:
            return is_internal(str(ipaddress.IPv4Address(int(found) & 0xFFFF_FFFF)))
        if found.ipv4_mapped is not None:
            return False
    return not found.is_global or found.is_multicast


async def _body_of(response: aiohttp.ClientResponse) -> bytes:
    coding = response.headers.get("content-encoding", "identity").strip().lower()
    if coding not in ("", "identity"):
        raise ValueError(f"its answer is compressed ({coding[:40]!r}), which was not asked for")
    body = bytearray()
    async for piece in chunks_of(response):
        body += piece
        if len(body) > LARGEST_ANSWER:
            raise ValueError(f"its answer is larger than {LARGEST_ANSWER >> 20} MiB")
    return bytes(body)
