"""Staying logged in: what every OAuth flow does between two logins."""

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
"""Seconds that a call waits for a person to log in, and never more than half of its own."""
_OPENING = ("initialize", "server/discover")
"""What a connection begins with; it has the time that a person needs."""


class _Requester(msgspec.Struct, frozen=True):
    """Who wants to be logged in."""

    waits: bool = True
    """False for what nobody waits for: it could neither tell nor ask a person."""
    connects: bool = False
    """True for what opens a connection: it waits for as long as a person may take."""
    began_with: str | None = None
    """The refresh token that was good when the request was made."""


_requester: ContextVar[_Requester] = ContextVar("requester", default=_Requester())  # noqa: B039 - it is frozen


class TokenRefresh(OAuthClientProvider):
    """The SDK's provider, and what it lacks.

    - calls do not wait for each other while the token is good;
    - a token that the server refuses is renewed before a person is asked to log in;
    - in the middle of a call nobody waits long for a person, and the login goes on without it;
    - a login survives a restart, and what another process has renewed is used;
    - its requests have the same limits as any other;
    - what goes wrong is told in words.
    """

    config: ServerConfig
    asks_a_person = True
    has_chosen_scopes = False
    background_login: BackgroundLogin | None = None
    """Where a login goes on that a call does not wait for; ``None`` to have each call wait."""
    _refused: str | None = None
    _dead: str | None = None

    async def async_auth_flow(
        self, request: httpx2.Request
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send the request with a token, and see to it that there is one."""
        began_with = self._refresh_token_at_hand()
        is_goodbye, is_valid = request.method == "DELETE", self.context.is_token_valid()
        if is_valid:
            self._add_auth_header(request)
        if is_valid or is_goodbye:
            used = request.headers.get("Authorization")
            response = yield request
            # Nobody should have to log in to say goodbye.
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
                        # Whoever waits for a person does not keep a connection meanwhile.
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
        """Do what the SDK does, within the limits of the request, and fail in words."""
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
        """Log in because of an answer, and leave the request alone: its caller may be gone."""
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
                # Somebody else has logged in meanwhile.
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
        # Look again each time: another call or process may have renewed the login.
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
                f"The login for server {self.config.name!r} could not be renewed just now (HTTP "
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
        """Tell whether the request at hand could show a person the way to the login."""
        return _requester.get().waits

    def expired(self) -> ServerAuthenticationError:
        """Return the error that asks for a new login."""
        return ServerAuthenticationError(
            f"The login for server {self.config.name!r} has expired; log in again: try once more, "
            "and you will be led to its login page.",
            server=self.config.name,
        )

    def _awaited(self) -> ServerAuthenticationError:
        return ServerAuthenticationError(
            f"Server {self.config.name!r} wants somebody to log in, and its login page is waiting "
            "for that. Log in there, then try once more.",
            server=self.config.name,
        )

    def _wants_login(self, response: httpx2.Response) -> bool:
        if response.status_code == 401:
            return True
        # With scopes that were chosen by hand, a login for more would be given no more.
        if response.status_code != 403 or self.has_chosen_scopes:
            return False
        return "insufficient_scope" in response.headers.get("www-authenticate", "")

    def failed(self, words: str) -> ServerAuthenticationError:
        """Return the error that says why logging in did not work."""
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
