"""Token refresh: renew OAuth tokens, and ask for a new login only when that fails."""

from collections.abc import AsyncGenerator
from contextvars import ContextVar
from functools import partial

import httpx2
import msgspec
from mcp.client.auth import OAuthClientProvider

from pegboard.config.servers import ServerConfig
from pegboard.errors import ServerAuthenticationError
from pegboard.upstream.oauth.background_login import BackgroundLogin, Send
from pegboard.upstream.oauth.token_storage import LoginStorage

__all__ = ["TokenRefresh"]

_LONG_AGO = 1.0
PATIENCE = 20.0
"""Seconds that a call waits for a person to log in, at most half of its timeout."""
_OPENING = ("initialize", "server/discover")
"""The first methods of a connection, which may wait as long as a person needs."""


class _Requester(msgspec.Struct, frozen=True):
    """The request that needs a login."""

    waits: bool = True
    """False for a request without a caller, which could not show a login page to a person."""
    connects: bool = False
    """True for a request that opens a connection: it waits as long as a person may take."""
    began_with: str | None = None
    """The refresh token that was valid when the request was made."""


_requester: ContextVar[_Requester] = ContextVar("requester", default=_Requester())  # noqa: B039 - it is frozen


class TokenRefresh(OAuthClientProvider):
    """The SDK's provider, with what it lacks.

    - calls do not wait for each other while the token is valid;
    - a token that the server refuses is refreshed before a person is asked to log in;
    - a call does not wait long for a person, and the login goes on without it;
    - a login survives a restart, and tokens that another process has refreshed are used;
    - its requests have the same limits as all others;
    - each failure has a readable message.
    """

    config: ServerConfig
    asks_a_person = True
    has_chosen_scopes = False
    background_login: BackgroundLogin | None = None
    """Runs a login that outlives its call; ``None`` if each call waits for its login."""
    _refused: str | None = None
    _dead: str | None = None

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send the request with a token, and obtain one if needed."""
        began_with = self._refresh_token_at_hand()
        is_goodbye, is_valid = request.method == "DELETE", self.context.is_token_valid()
        if is_valid:
            self._add_auth_header(request)
        if is_valid or is_goodbye:
            used = request.headers.get("Authorization")
            response = yield request
            # Closing a session needs no login.
            if is_goodbye or not self._wants_login(response):
                return
            if response.status_code == 401:
                self._refused = used
        requester = _requester_of(request, began_with)
        _requester.set(requester)
        background_login = (
            self.background_login
            if self.asks_a_person and requester.waits and not requester.connects
            else None
        )
        if background_login is None or not background_login.is_under_way:
            flow = self._steps(request)
            try:
                outgoing = await anext(flow)
                while True:
                    response = yield outgoing
                    if background_login and outgoing is request and self._wants_login(response):
                        # A call that waits for a person holds no connection meanwhile.
                        await response.aread()
                        background_login.begin(
                            partial(self._log_in, background_login.send, request, response)
                        )
                        break
                    outgoing = await flow.asend(response)
            except StopAsyncIteration:
                return
            finally:
                await flow.aclose()
        assert background_login is not None
        if not await background_login.wait(min(PATIENCE, self.config.timeouts.call / 2)):
            raise self._awaited()
        self._add_auth_header(request)
        yield request

    async def _steps(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Run the flow of the SDK within the limits of the request, with readable errors."""
        limits = request.extensions.get("timeout", {})
        flow = super().async_auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                outgoing.extensions.setdefault("timeout", dict(limits))
                outgoing = await flow.asend((yield outgoing))
        except StopAsyncIteration:
            return
        except ServerAuthenticationError:
            raise
        except Exception as error:
            raise self.failed(f"failed: {_reason(error)}.") from error
        finally:
            await flow.aclose()

    async def _log_in(self, send: Send, request: httpx2.Request, refused: httpx2.Response) -> None:
        """Log in after a refusal, without sending the request again: its caller may be gone."""
        _requester.set(_Requester())
        place = httpx2.Request(
            request.method, request.url, headers=request.headers, extensions=request.extensions
        )
        flow = self._steps(place)
        try:
            outgoing = await anext(flow)
            while outgoing is not place:
                outgoing = await flow.asend(await send(outgoing))
            if place.headers.get("Authorization") != request.headers.get("Authorization"):
                # Another call or process has logged in meanwhile.
                return
            outgoing = await flow.asend(refused)
            while outgoing is not place:
                outgoing = await flow.asend(await send(outgoing))
        except httpx2.HTTPError as error:
            raise self.failed(f"failed: {_reason(error)}.") from error
        finally:
            await flow.aclose()

    async def _initialize(self) -> None:
        known, expiry = self.context.current_tokens, self.context.token_expiry_time
        await super()._initialize()
        # Read it each time: another call or process may have refreshed the tokens.
        self._initialized = False
        context, storage = self.context, self.context.storage
        if isinstance(storage, LoginStorage):
            expiry = await storage.get_expiry()
            if context.oauth_metadata is None:
                resource, server = await storage.get_servers()
                context.protected_resource_metadata = resource
                context.oauth_metadata = server
                if resource is not None:
                    context.auth_server_url = str(resource.authorization_servers[0])
        tokens = context.current_tokens
        if tokens is None or (tokens.refresh_token or "") == self._dead:
            context.clear_tokens()
            if self._dead is not None and _requester.get().began_with == self._dead:
                raise self.expired()
        elif f"Bearer {tokens.access_token}" == self._refused:
            context.token_expiry_time = _LONG_AGO
        elif isinstance(storage, LoginStorage) or tokens == known:
            context.token_expiry_time = expiry
        else:
            context.update_token_expiry(tokens)

    async def _handle_token_response(self, response: httpx2.Response) -> None:
        await super()._handle_token_response(response)
        storage = self.context.storage
        if isinstance(storage, LoginStorage):
            await storage.set_servers(
                self.context.protected_resource_metadata, self.context.oauth_metadata
            )

    async def _handle_refresh_response(self, response: httpx2.Response) -> bool:
        if response.status_code == 429 or response.status_code >= 500:
            raise ServerAuthenticationError(
                f"The login for server {self.config.name!r} could not be refreshed just now (HTTP "
                f"{response.status_code} from its authorization server). Try again later.",
                server=self.config.name,
            )
        token = self._refresh_token_at_hand()
        if await super()._handle_refresh_response(response):
            return True
        if await self._was_renewed_elsewhere(token):
            return True
        if not self.asks_a_person:
            return False
        if self.is_awaited():
            self._dead = token
            if isinstance(self.context.storage, LoginStorage):
                await self.context.storage.forget_tokens()
        raise self.expired()

    async def _was_renewed_elsewhere(self, token: str | None) -> bool:
        storage = self.context.storage
        tokens = await storage.get_tokens()
        if tokens is None or tokens.refresh_token in (None, token):
            return False
        self.context.current_tokens = tokens
        if isinstance(storage, LoginStorage):
            self.context.token_expiry_time = await storage.get_expiry()
        return True

    def _refresh_token_at_hand(self) -> str | None:
        tokens = self.context.current_tokens
        return None if tokens is None else tokens.refresh_token

    def is_awaited(self) -> bool:
        """Tell whether a caller waits for the request and could show a login page."""
        return _requester.get().waits

    def expired(self) -> ServerAuthenticationError:
        """Return the error that asks for a new login."""
        return ServerAuthenticationError(
            f"The login for server {self.config.name!r} has expired. Try again: then its login "
            "page opens.",
            server=self.config.name,
        )

    def _awaited(self) -> ServerAuthenticationError:
        return ServerAuthenticationError(
            f"Server {self.config.name!r} needs a login, and its login page is open. Log in there, "
            "then try again.",
            server=self.config.name,
        )

    def _wants_login(self, response: httpx2.Response) -> bool:
        if response.status_code == 401:
            return True
        # With configured scopes, a new login would get no further scopes.
        if response.status_code != 403 or self.has_chosen_scopes:
            return False
        return "insufficient_scope" in response.headers.get("www-authenticate", "")

    def failed(self, words: str) -> ServerAuthenticationError:
        """Return the error of a failed login."""
        name = self.config.name
        text = self.config.redact(f"Logging in to server {name!r} {words}")
        return ServerAuthenticationError(text, server=name)


class _Message(msgspec.Struct):
    id: int | str | None = None
    method: str | None = None


def _requester_of(request: httpx2.Request, began_with: str | None) -> _Requester:
    if request.method != "POST":
        opens = "mcp-session-id" not in request.headers
        return _Requester(waits=opens, connects=opens, began_with=began_with)
    try:
        message = msgspec.json.decode(request.content, type=_Message)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _Requester(began_with=began_with)
    return _Requester(
        waits=message.id is not None and message.method is not None,
        connects=message.method in _OPENING,
        began_with=began_with,
    )


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__
