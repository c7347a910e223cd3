"""LoginClient: send requests to a server with the tokens of its OAuth login."""

import ssl
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import aiohttp
import httpx2

from pegboard.config.servers import ServerConfig
from pegboard.errors import ServerAuthenticationError
from pegboard.upstream.http.client import Refusal, refusal_in
from pegboard.upstream.http.proxies import proxy_for
from pegboard.upstream.messages.failures import FailedError, Failure
from pegboard.upstream.oauth.background_login import BackgroundLogin
from pegboard.upstream.oauth.provider import oauth_provider

__all__ = ["LoginClient"]

Send = Callable[[Mapping[str, str]], Awaitable[aiohttp.ClientResponse]]
"""Sends the request of the session with these headers."""


class LoginClient:
    """The tokens of one server, and the login that obtains them.

    The SDK's OAuth speaks `httpx2`: its own requests, to the authorization server, are sent with
    that library, and the requests of the session with the client of all others.

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
                    answer = httpx2.Response(
                        refusal.status,
                        headers=list(refusal.headers.items()),
                        content=refusal.body,
                        request=request,
                    )
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
        """Send a request of the login, without the headers and credentials of the server."""
        proxy = proxy_for(str(request.url), self._config.proxy, self._proxies)
        async with httpx2.AsyncClient(
            verify=await self._tls(),
            proxy=proxy,
            trust_env=False,
            timeout=self._config.timeouts.connect,
        ) as client:
            # Set on the request: the library applies its own limits only to requests it has built.
            if not request.extensions.get("timeout"):
                request.extensions["timeout"] = client.timeout.as_dict()
            return await client.send(request)
