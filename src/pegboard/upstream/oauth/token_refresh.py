"""Token refresh: renew OAuth tokens, and ask for a new login only when that fails."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from time import time

import anyio
import httpx2
import msgspec
from mcp.client.auth import OAuthClientProvider, TokenStorage
from mcp.client.auth.utils import issuers_match
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)

from pegboard.config.servers import OAuthConfig, ServerConfig
from pegboard.errors import ServerAuthenticationError
from pegboard.upstream.oauth.background_login import BackgroundLogin, Send
from pegboard.upstream.oauth.token_storage import Login, LoginStorage, SdkStorage

__all__ = ["OnClient", "Steps", "TokenRefresh"]

OnClient = Callable[[OAuthClientInformationFull], Awaitable[None]]
Steps = AsyncGenerator[httpx2.Request, httpx2.Response]
"""Yields requests, each of which is answered by its response."""

_LONG_AGO = 1.0
PATIENCE = 20.0
"""Seconds that a call waits for a person to log in, at most half of its timeout."""
_OPENING = ("initialize", "server/discover")
"""The first methods of a connection, which may wait as long as a person needs."""


class _Attempt(msgspec.Struct, kw_only=True):
    """A request that may need a login."""

    request: httpx2.Request
    waits: bool = True
    """False for a request without a caller, which could not show a login page to a person."""
    connects: bool = False
    """True for a request that opens a connection: it waits as long as a person may take."""
    header: str | None
    """The token that the request was made with, as the value of its header."""
    refusal: httpx2.Response | None = None
    is_refreshed: bool = False


class TokenRefresh(httpx2.Auth, ABC):
    """Sends requests with a token, and refreshes it.

    - calls do not wait for each other while the token is valid;
    - a token that the server refuses is refreshed before a person is asked to log in;
    - a refresh token is sent only to the authorization server that issued it;
    - a call does not wait long for a person, and the login goes on without it;
    - a login survives a restart, and tokens that another process has refreshed are used;
    - its requests have the same limits as all others;
    - each failure has a readable message.
    """

    background_login: BackgroundLogin | None = None
    """Runs a login that outlives its call; ``None`` if each call waits for its login."""

    def __init__(
        self,
        config: ServerConfig,
        storage: LoginStorage | TokenStorage,
        metadata: OAuthClientMetadata,
    ) -> None:
        self.config = config
        self.oauth: OAuthConfig = config.oauth or OAuthConfig()
        self.asks_a_person: bool = self.oauth.flow == "authorization_code"
        self.metadata = metadata
        self.login: Login = Login()
        self._storage = storage if isinstance(storage, LoginStorage) else SdkStorage(storage)
        self._lock = anyio.Lock()
        self._header: str | None = None
        self._refused: str | None = None
        self._dead: str | None = None

    def authorization(self) -> str | None:
        """Return the value of the header ``Authorization`` if there is a valid token."""
        header, expiry = self._header, self.login.expires_at
        if header is None or header == self._refused or (expiry is not None and time() > expiry):
            return None
        return header

    async def async_auth_flow(self, request: httpx2.Request) -> Steps:
        """Send the request with a token, and obtain one if needed.

        The first refusal may be older than the flow. The request of the response tells which
        token was refused.
        """
        if request.method == "DELETE":
            # Closing a session needs no login.
            yield self._signed(request)
            return
        attempt = _attempt_of(request, self._header)
        # The first refusal may be of an older token, and the second of one that is only read.
        for obtain in (self._refresh, self._refresh, self._refresh, self._log_in):
            response = None
            async with aclosing(obtain(attempt)) as steps:
                while (outgoing := await _next(steps, response)) is not None:
                    response = yield _limited(outgoing, request)
            if obtain == self._refresh and not self._is_worth_sending(attempt):
                continue
            attempt.refusal = yield self._signed(request)
            if not self._wants_login(attempt.refusal):
                return
            self._note_refusal(attempt, attempt.refusal)

    @abstractmethod
    def client_at(self, server: OAuthMetadata) -> OAuthClientInformationFull | None:
        """Return the client for an authorization server; ``None`` if it has to be registered."""

    @abstractmethod
    def sign_in(self, request: httpx2.Request, refusal: httpx2.Response) -> Steps:
        """Log in after a refusal, and `keep` the tokens; the request itself is not sent."""

    async def keep(self, login: Login) -> None:
        """Use and store a login."""
        if login.tokens is not self.login.tokens:
            self._refused = None
        self._use(login)
        await self._storage.set_login(login)

    def sdk_provider(
        self, client: OAuthClientInformationFull | None = None, on_client: OnClient | None = None
    ) -> OAuthClientProvider:
        """Return the SDK's provider for one flow, which knows the servers of the login."""
        storage = _FlowStorage(self, client, on_client)
        provider = OAuthClientProvider(self.config.url or "", self.metadata, storage)
        context, known = provider.context, self.login.authorization_server
        context.protected_resource_metadata = self.login.resource
        context.oauth_metadata = known
        if known is not None and self.login.resource is not None:
            context.auth_server_url = str(known.issuer)
        return provider

    def own_server(self) -> OAuthMetadata:
        """Return the server itself as its authorization server, with the usual endpoints."""
        url = httpx2.URL(self.config.url or "")
        origin = f"{url.scheme}://{url.netloc.decode()}"
        paths = {"authorization_endpoint": "/authorize", "token_endpoint": "/token", "issuer": ""}
        return OAuthMetadata.model_validate({name: origin + paths[name] for name in paths})

    async def _refresh(self, attempt: _Attempt) -> Steps:
        is_valid = attempt.refusal is None and self.authorization() is not None
        if is_valid or attempt.is_refreshed or self._is_busy(attempt):
            return
        async with self._changing():
            tokens, server = self.login.tokens, self._issuing_server()
            if self.authorization() is not None or tokens is None or not tokens.refresh_token:
                return
            client = self.login.client
            if server is not None and self.oauth.client_id is not None:
                client = self.client_at(server)
            if server is None or client is None:
                return
            attempt.is_refreshed = True
            provider, place = self.sdk_provider(client), _copy(attempt.request)
            provider.context.oauth_metadata = server
            provider.context.token_expiry_time = _LONG_AGO
            async with aclosing(provider.async_auth_flow(place)) as flow:
                outgoing = await anext(flow)
                while outgoing is not place:
                    response = yield outgoing
                    if (status := response.status_code) == 429 or status >= 500:
                        raise self.error(
                            f"The login for server {self.config.name!r} could not be refreshed "
                            f"just now (HTTP {status} from its authorization server). Try again "
                            "later."
                        )
                    outgoing = await flow.asend(response)
            if provider.context.current_tokens is None:
                await self._refresh_refused(tokens, waits=attempt.waits)

    async def _refresh_refused(self, tokens: OAuthToken, *, waits: bool) -> None:
        header = self._header
        await self._load()
        stored = self.login.tokens
        is_renewed = stored and stored.refresh_token not in (None, tokens.refresh_token)
        if is_renewed or not self.asks_a_person:
            return
        if waits:
            self._dead = header
            await self.keep(self.login.with_tokens(None))
        raise self._expired()

    def _issuing_server(self) -> OAuthMetadata | None:
        if self.login.authorization_server is not None or self.login.client is None:
            return self.login.authorization_server
        # The SDK would send the token to the protected server, which may be another one.
        own, issuer = self.own_server(), self.login.client.issuer
        return own if issuer is not None and issuers_match(issuer, str(own.issuer)) else None

    async def _log_in(self, attempt: _Attempt, *, in_background: bool = False) -> Steps:
        apart = None if in_background else self._apart(attempt)
        is_dead = attempt.header is not None and attempt.header == self._dead
        if self.asks_a_person and (not attempt.waits or (is_dead and not self._is_busy(attempt))):
            raise self._expired()
        if apart is not None:
            if attempt.refusal is not None:
                # A call that waits for a person holds no connection meanwhile.
                await attempt.refusal.aread()
            apart.begin(partial(self._log_in_apart, attempt, apart.send))
            if not await apart.wait(min(PATIENCE, self.config.timeouts.call / 2)):
                raise self.error(
                    f"Server {self.config.name!r} needs a login, and its login page is open. Log "
                    "in there, then try again."
                )
            return
        async with self._changing():
            if self.authorization() not in (None, attempt.header):
                # Another call or process has logged in meanwhile.
                return
            response, refusal = None, attempt.refusal or httpx2.Response(401)
            async with aclosing(self.sign_in(_copy(attempt.request), refusal)) as steps:
                while (outgoing := await _next(steps, response)) is not None:
                    response = yield outgoing

    async def _log_in_apart(self, attempt: _Attempt, send: Send) -> None:
        response = None
        async with aclosing(self._log_in(attempt, in_background=True)) as steps:
            while (outgoing := await _next(steps, response)) is not None:
                try:
                    response = await send(_limited(outgoing, attempt.request))
                except ServerAuthenticationError:
                    raise
                except Exception as error:
                    raise self.failed(f"failed: {_reason(error)}.") from error

    def _apart(self, attempt: _Attempt) -> BackgroundLogin | None:
        is_call = self.asks_a_person and attempt.waits and not attempt.connects
        return self.background_login if is_call else None

    def _is_busy(self, attempt: _Attempt) -> bool:
        apart = self._apart(attempt)
        return apart is not None and apart.is_under_way

    def _is_worth_sending(self, attempt: _Attempt) -> bool:
        header = self.authorization()
        if attempt.refusal is None:
            # Without a token, the server says what it needs.
            return header is not None or not self._is_busy(attempt)
        return header not in (None, attempt.header)

    @asynccontextmanager
    async def _changing(self) -> AsyncGenerator[None]:
        """Hold the login as it is in the storage now, and make its failures readable."""
        async with self._lock:
            try:
                await self._load()
                yield
            except ServerAuthenticationError:
                raise
            except Exception as error:
                raise self.failed(f"failed: {_reason(error)}.") from error

    async def _load(self) -> None:
        # Read it each time: another call or process may have refreshed the tokens.
        login = await self._storage.get_login()
        self._use(login)
        if self._header is not None and self._header == self._dead:
            self._use(login.with_tokens(None))

    def _use(self, login: Login) -> None:
        self.login = login
        token = "" if login.tokens is None else login.tokens.access_token
        # Others cannot be sent in a header.
        is_usable = token.isascii() and token.isprintable() and token
        self._header = f"Bearer {token}" if is_usable else None

    def _signed(self, request: httpx2.Request) -> httpx2.Request:
        if (header := self.authorization()) is not None:
            request.headers["Authorization"] = header
        return request

    def _note_refusal(self, attempt: _Attempt, refusal: httpx2.Response) -> None:
        header = attempt.request.headers.get("Authorization")
        with suppress(RuntimeError):  # a response need not have a request
            header = refusal.request.headers.get("Authorization") or header
        if refusal.status_code == 401 and header == self._header:
            self._refused = header
        attempt.header = header or attempt.header

    def _wants_login(self, response: httpx2.Response) -> bool:
        if response.status_code == 401:
            return True
        # With configured scopes, a new login would get no further scopes.
        if response.status_code != 403 or self.oauth.scopes:
            return False
        return "insufficient_scope" in response.headers.get("www-authenticate", "")

    def _expired(self) -> ServerAuthenticationError:
        return self.error(
            f"The login for server {self.config.name!r} has expired. Try again: then its login "
            "page opens."
        )

    def failed(self, words: str) -> ServerAuthenticationError:
        """Return the error of a failed login."""
        return self.error(f"Logging in to server {self.config.name!r} {words}")

    def error(self, text: str) -> ServerAuthenticationError:
        """Return an error with this text, without secrets."""
        return ServerAuthenticationError(self.config.redact(text), server=self.config.name)


class _FlowStorage(msgspec.Struct):
    """The storage that a flow of the SDK is given."""

    owner: TokenRefresh
    client: OAuthClientInformationFull | None
    on_client: OnClient | None

    async def get_tokens(self) -> OAuthToken | None:
        return self.owner.login.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        await self.owner.keep(self.owner.login.with_tokens(tokens))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        if self.on_client is not None:
            await self.on_client(client_info)


class _Message(msgspec.Struct):
    id: int | str | None = None
    method: str | None = None


def _attempt_of(request: httpx2.Request, header: str | None) -> _Attempt:
    attempt = _Attempt(request=request, header=header)
    if request.method != "POST":
        attempt.waits = attempt.connects = "mcp-session-id" not in request.headers
        return attempt
    with suppress(msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        message = msgspec.json.decode(request.content, type=_Message)
        attempt.waits = message.id is not None and message.method is not None
        attempt.connects = message.method in _OPENING
    return attempt


async def _next(steps: Steps, response: httpx2.Response | None) -> httpx2.Request | None:
    try:
        return await (anext(steps) if response is None else steps.asend(response))
    except StopAsyncIteration:
        return None


def _copy(request: httpx2.Request) -> httpx2.Request:
    """Return a request for the SDK to sign, which is not sent."""
    return httpx2.Request(request.method, request.url, headers=request.headers)


def _limited(outgoing: httpx2.Request, request: httpx2.Request) -> httpx2.Request:
    outgoing.extensions.setdefault("timeout", dict(request.extensions.get("timeout", {})))
    return outgoing


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__
