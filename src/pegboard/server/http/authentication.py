"""HTTP authentication: find the principal of a request by its credential, or refuse it."""

import logging
from collections.abc import Callable

from mcp_types import INVALID_REQUEST

from pegboard.auth import (
    AnonymousAuthenticator,
    Authenticator,
    AuthSettings,
    challenge,
    credential_in,
    metadata_path,
    resource_metadata,
    scope_challenge,
)
from pegboard.errors import UnauthenticatedError
from pegboard.gateway.request import RpcError
from pegboard.model.principal import LOCAL, Scope
from pegboard.server.http.cors import respond_to_preflight
from pegboard.server.http.local_api import LocalToken
from pegboard.server.http.request import Header, HttpRequest

__all__ = ["HttpAuthenticator"]

logger: logging.Logger = logging.getLogger("pegboard.server")

OnRefusal = Callable[[HttpRequest, UnauthenticatedError], object]
"""Called for each request whose credential was refused."""

_WELL_KNOWN = "/.well-known/oauth-protected-resource"


class HttpAuthenticator:
    """Authenticates the sender of every request."""

    def __init__(
        self,
        authenticator: Authenticator | None = None,
        *,
        settings: AuthSettings | None = None,
        on_refusal: OnRefusal | None = None,
        local_token: LocalToken | None = None,
    ) -> None:
        authenticator = AnonymousAuthenticator() if authenticator is None else authenticator
        is_open = isinstance(authenticator, AnonymousAuthenticator)
        self._anonymous = authenticator.principal if is_open else None
        self._authenticator = authenticator
        self._settings = AuthSettings() if settings is None else settings
        self._on_refusal = on_refusal
        self._local_token = local_token
        self._metadata = resource_metadata(self._settings)
        self._metadata_paths = {_WELL_KNOWN, metadata_path(self._settings)}

    def wants_scope(self, scope: Scope) -> list[Header]:
        """Return the headers of a response to a caller who lacks a scope."""
        if self._anonymous is not None:
            # A challenge would send the client looking for credentials that are not accepted here.
            return []
        words = scope_challenge(self._settings, scope)
        return [(b"www-authenticate", words.encode("latin-1", "replace"))]

    async def admit(self, request: HttpRequest) -> bool:
        """Set the principal of a request; if there is none, refuse the request and return false."""
        # An open gateway lets in requests with any credential: some programs always send one.
        principal = LOCAL if self._is_of_owner(request) else self._anonymous
        if principal is not None:
            request.principal = principal
            return True
        headers = request.headers
        try:
            if request.has_twice("authorization") or request.has_twice("x-api-key"):
                # A proxy before us may have checked another one than we would.
                words = "Send one credential, and only once."
                raise UnauthenticatedError(words, reason="malformed")  # noqa: TRY301 - as below
            credential = credential_in(headers.get("authorization"), headers.get("x-api-key"))
            request.principal = await self._authenticator.authenticate(credential)
        except UnauthenticatedError as error:
            if self._on_refusal is not None:
                self._on_refusal(request, error)
            await self._turn_away(request, error)
            return False
        return True

    async def still_admits(self, request: HttpRequest) -> bool:
        """Tell whether the sender of a running request would still be authenticated."""
        if self._anonymous is not None or self._is_of_owner(request):
            return True
        headers = request.headers
        try:
            credential = credential_in(headers.get("authorization"), headers.get("x-api-key"))
            now = await self._authenticator.authenticate(credential)
        except UnauthenticatedError as error:
            return error.reason == "unavailable"
        except Exception:
            # There is no caller to tell, and the task that asks also watches all other requests.
            logger.exception(
                "The credential of a running request could not be checked; the request continues."
            )
            return True
        return (now.tenant, now.subject) == (request.principal.tenant, request.principal.subject)

    async def describe(self, request: HttpRequest) -> bool:
        """Respond to a request for our OAuth metadata; return false if it is another request."""
        if self._metadata is None or request.scope["path"] not in self._metadata_paths:
            return False
        # Every client may read where tokens are issued, web pages included.
        to_any_page = [(b"access-control-allow-origin", b"*")]
        if request.method == "OPTIONS":
            await respond_to_preflight(request, headers=to_any_page)
        else:
            await request.respond_json(200, self._metadata, headers=to_any_page)
        return True

    def _is_of_owner(self, request: HttpRequest) -> bool:
        token = self._local_token
        return token is not None and "authorization" in request.headers and token.sent(request)

    async def _turn_away(self, request: HttpRequest, error: UnauthenticatedError) -> None:
        said = RpcError(INVALID_REQUEST, str(error), {"reason": error.reason})
        if error.reason == "unavailable":
            await request.refuse(503, said, headers=[(b"retry-after", b"5")])
            return
        words = challenge(self._settings, error).encode("latin-1", "replace")
        await request.refuse(401, said, headers=[(b"www-authenticate", words)])
