"""A server that is protected by OAuth, with its authorization server, for the tests of logins."""

import secrets
import socket
import time
import urllib.request
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.upstream.http_servers import bound, build_server, origin_of, serving


class Accounts(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """The SDK's authorization server in memory; counts what it is asked for."""

    def __init__(self) -> None:
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.refresh_tokens: dict[str, RefreshToken] = {}
        self.access_tokens: dict[str, AccessToken] = {}
        self.logins = 0
        self.renewals = 0
        self.asked_scopes: list[list[str]] = []
        self.refuses = False

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(
        self, client: OAuthClientInformationFull, params: AuthorizationParams
    ) -> str:
        self.logins += 1
        self.asked_scopes.append(params.scopes or [])
        if self.refuses:
            return construct_redirect_uri(
                str(params.redirect_uri), error="access_denied", state=params.state
            )
        code = AuthorizationCode(
            code=secrets.token_hex(16),
            client_id=client.client_id,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            **params.model_dump(
                include={"redirect_uri", "redirect_uri_provided_explicitly", "code_challenge"}
            ),
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._issue(client.client_id, authorization_code.scopes)

    async def load_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: str
    ) -> RefreshToken | None:
        return self.refresh_tokens.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        self.renewals += 1
        del self.refresh_tokens[refresh_token.token]
        return self._issue(client.client_id, scopes)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access_tokens.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.access_tokens.pop(token.token, None)

    def _issue(self, client_id: str, scopes: list[str]) -> OAuthToken:
        access, refresh = f"access-{secrets.token_hex(8)}", f"refresh-{secrets.token_hex(8)}"
        self.access_tokens[access] = AccessToken(token=access, client_id=client_id, scopes=scopes)
        self.refresh_tokens[refresh] = RefreshToken(
            token=refresh, client_id=client_id, scopes=scopes
        )
        return OAuthToken(
            access_token=access, refresh_token=refresh, expires_in=3600, scope=" ".join(scopes)
        )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@asynccontextmanager
async def protected_server(
    accounts: Accounts,
    *,
    path: str = "/mcp",
    only_for: str | None = None,
    around: Callable[[Any], Any] | None = None,
) -> AsyncGenerator[str]:
    """Run an MCP server that needs a login, perhaps for one method only; gives its address.

    ``around`` may wrap the application.
    """
    listener = bound()
    origin = origin_of(listener)
    settings = AuthSettings(
        issuer_url=AnyHttpUrl(origin),
        resource_server_url=AnyHttpUrl(origin + path),
        validate_token_resource=False,
        required_scopes=["use"],
        client_registration_options=ClientRegistrationOptions(
            enabled=True, valid_scopes=["use", "more"], default_scopes=["use"]
        ),
    )
    server = build_server(auth=settings, auth_server_provider=accounts)
    app: Any = server.sse_app() if path == "/sse" else server.streamable_http_app()
    if only_for is not None:
        app = _open_but_for(only_for, app, accounts)
    if around is not None:
        app = around(app)
    async with serving(app, listener=listener) as address:
        yield address + path


def _open_but_for(method: str, app: Any, accounts: Accounts) -> Any:
    """Admit every request for anything else."""
    accounts.access_tokens["guest"] = AccessToken(token="guest", client_id="guest", scopes=["use"])

    async def half_open(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] == "GET":
            await app(scope, receive, send)
            return
        body = await receive()

        async def again() -> Any:
            nonlocal body
            now, body = body, None
            return now if now is not None else await receive()

        is_known = b"authorization" in dict(scope["headers"])
        if method.encode() not in body.get("body", b"") and not is_known:
            headers = [*scope["headers"], (b"authorization", b"Bearer guest")]
            scope = {**scope, "headers": headers}
        await app(scope, again, send)

    return half_open


class MachineAccounts:
    """An authorization server for programs, on another origin than the server it protects."""

    def __init__(self) -> None:
        self.tokens: set[str] = set()
        self.requests: list[tuple[dict[str, Any], str]] = []
        self.methods = ["client_secret_basic"]
        self.origin = ""

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/.well-known/oauth-authorization-server", self._metadata),
                Route("/token", self._token, methods=["POST"]),
            ]
        )

    async def verify_token(self, token: str) -> AccessToken | None:
        if token not in self.tokens:
            return None
        return AccessToken(token=token, client_id="robot", scopes=["use"])

    async def _metadata(self, request: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.origin,
                "authorization_endpoint": f"{self.origin}/authorize",
                "token_endpoint": f"{self.origin}/token",
                "token_endpoint_auth_methods_supported": self.methods,
            }
        )

    async def _token(self, request: Request) -> Response:
        form = dict(await request.form())
        self.requests.append((form, request.headers.get("authorization", "")))
        token = f"machine-{secrets.token_hex(8)}"
        self.tokens.add(token)
        return JSONResponse({"access_token": token, "token_type": "bearer", "expires_in": 3600})


@asynccontextmanager
async def machine_server(accounts: MachineAccounts) -> AsyncGenerator[str]:
    """Run an MCP server for programs with a token; gives its address."""
    listener = bound()
    async with serving(accounts.app()) as accounts.origin:
        # As text: a URL object would gain a slash, and be another issuer.
        settings = AuthSettings.model_validate(
            {
                "issuer_url": accounts.origin,
                "resource_server_url": f"{origin_of(listener)}/mcp",
                "validate_token_resource": False,
                "required_scopes": ["use"],
            }
        )
        server = build_server(auth=settings, token_verifier=accounts)
        async with serving(server.streamable_http_app(), listener=listener) as address:
            yield f"{address}/mcp"


class ForeignStorage:
    """The SDK's protocol and no more."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def metadata_of(origin: str, **fields: Any) -> OAuthMetadata:
    """Return the metadata of an authorization server with the usual endpoints."""
    endpoints = {
        "authorization_endpoint": f"{origin}/authorize",
        "token_endpoint": f"{origin}/token",
    }
    return OAuthMetadata.model_validate({"issuer": origin, **endpoints, **fields})


def browse(url: str) -> bool:
    """Be the browser of a person who agrees to everything."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=5) as page:
        return page.status == 200
