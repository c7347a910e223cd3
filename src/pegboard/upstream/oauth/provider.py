"""OAuth login to a server: with a browser, or with client credentials."""

import logging
import os
import socket
import sys
import webbrowser
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.to_thread
import httpx2
from mcp.client.auth import OAuthFlowError, OAuthTokenError, TokenStorage
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.auth.utils import (
    create_client_info_from_metadata_url,
    handle_protected_resource_response,
    handle_token_response_scopes,
    is_valid_client_metadata_url,
    issuers_match,
    should_use_client_metadata_url,
)
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from pegboard.config.servers import OAuthConfig, ServerConfig
from pegboard.errors import ConfigError
from pegboard.upstream.oauth.background_login import BackgroundLogin
from pegboard.upstream.oauth.redirect_listener import CALLBACK_PATH, browser_answers
from pegboard.upstream.oauth.token_refresh import Steps, TokenRefresh
from pegboard.upstream.oauth.token_storage import Login, LoginStorage, token_storage_for

__all__ = ["oauth_provider", "open_in_browser"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")


def oauth_provider(
    config: ServerConfig,
    *,
    storage: LoginStorage | TokenStorage | None = None,
    open_browser: Callable[[str], bool] | None = None,
    on_login: Callable[[str], object] | None = None,
    tenant: str = "",
    background_login: BackgroundLogin | None = None,
) -> TokenRefresh:
    """Return the object that obtains, refreshes and sends the tokens of one server.

    Args:
        config: The server; its ``oauth`` says which flow to use.
        storage: Where tokens are stored, instead of where the configuration says.
        open_browser: Opens the login page and tells whether it could; ``open_in_browser`` if left
            out.
        on_login: Shows the URL of the login page to a person, instead of a browser.
        tenant: The tenant of the login.
        background_login: Runs a login that outlives its call.

    Raises:
        ConfigError: when the configuration lacks something that its flow needs.
    """
    oauth = config.oauth or OAuthConfig()
    if oauth.client_metadata_url and not is_valid_client_metadata_url(oauth.client_metadata_url):
        raise ConfigError(
            f"The `oauth.client_metadata_url` of server {config.name!r} must be the https address "
            "of a document, such as https://example.com/pegboard/client.json."
        )
    kept = token_storage_for(config, tenant=tenant) if storage is None else storage
    if oauth.flow == "authorization_code":
        redirect = f"http://127.0.0.1:{oauth.redirect_port or _free_port()}{CALLBACK_PATH}"
        metadata = _metadata(oauth, client_name="Pegboard", redirect_uris=[AnyUrl(redirect)])
    elif oauth.client_id and oauth.client_secret:
        metadata = _metadata(oauth, redirect_uris=None, grant_types=["client_credentials"])
    else:
        raise ConfigError(
            f"Server {config.name!r} uses the flow 'client_credentials', so its `oauth` needs a "
            "`client_id` and a `client_secret`."
        )
    if on_login is None:
        show = partial(_opened, open_browser or open_in_browser)
    else:
        show = partial(_shown, on_login)
    login = _ServerLogin(config, kept, metadata)
    login.show, login.background_login = show, background_login
    return login


def open_in_browser(url: str) -> bool:
    """Open a URL in a browser on this machine; return false if there is none."""
    graphical = sys.platform in ("darwin", "win32", "cygwin")
    if not graphical and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        # Without a display, `webbrowser` might start a text browser in the terminal.
        return False
    return webbrowser.open(url)


class _ServerLogin(TokenRefresh):
    """Logs in with the flow of the SDK, which finds the authorization server and registers there.

    The flow is not told of any client. When it wants to register one, it has found the
    authorization server, and only then a client is chosen that this server may know.
    """

    show: Callable[[str], Awaitable[bool]]
    """Shows the login page to a person, and tells whether it could."""
    _url = ""

    async def sign_in(self, request: httpx2.Request, refusal: httpx2.Response) -> Steps:
        """Log in after a refusal, and keep the tokens; the request itself is not sent."""
        provider = self.sdk_provider(on_client=lambda client: self._bind(client, context))
        context = provider.context
        context.redirect_handler, context.callback_handler = self._remember, self._ask
        async with aclosing(provider.async_auth_flow(request)) as flow:
            await anext(flow)
            outgoing = await flow.asend(refusal)
            while outgoing is not request:
                # It registers with JSON, and requests tokens with a form.
                registers = outgoing.headers.get("content-type") == "application/json"
                client = self.client_at(self._server_of(context)) if registers else None
                if client is None:
                    response = yield outgoing
                    if outgoing.method == "GET":
                        response = await self._known_server_first(response)
                elif self.asks_a_person:
                    self.metadata.redirect_uris = client.redirect_uris
                    registration = client.model_dump(mode="json", exclude_none=True)
                    response = httpx2.Response(201, json=registration)
                else:
                    await self._bind(client, context)
                    exchange = _exchange(client, context, self._server_of(context))
                    tokens = await _tokens_in((yield exchange), context)
                    await self.keep(self.login.with_tokens(tokens))
                    return
                outgoing = await flow.asend(response)

    def client_at(self, server: OAuthMetadata) -> OAuthClientInformationFull | None:
        """Return the client for an authorization server; ``None`` if it has to be registered.

        Raises:
            ServerAuthenticationError: when the configured client belongs to another one.
        """
        oauth = self.oauth
        if oauth.client_id is None:
            return self._client_without_id(server)
        if self._is_known(server) is False:
            raise self.failed(
                f"was stopped: client {oauth.client_id!r} belongs to another authorization server "
                f"than {server.issuer} with the token endpoint {server.token_endpoint}. If it has "
                "moved, delete the stored tokens."
            )
        supported = server.token_endpoint_auth_methods_supported or ["client_secret_basic"]
        posts = "client_secret_basic" not in supported and "client_secret_post" in supported
        method = "client_secret_post" if posts else "client_secret_basic"
        return OAuthClientInformationFull(
            client_id=oauth.client_id,
            client_secret=oauth.client_secret,
            redirect_uris=self.metadata.redirect_uris,
            token_endpoint_auth_method=method if oauth.client_secret else "none",
        )

    def _client_without_id(self, server: OAuthMetadata) -> OAuthClientInformationFull | None:
        """Return the client that a document describes, or the one that was registered before."""
        document, known = self.oauth.client_metadata_url, self.login.client
        if document and should_use_client_metadata_url(server, document):
            redirects = self.metadata.redirect_uris
            return create_client_info_from_metadata_url(document, redirect_uris=redirects)
        if known is None or not self._is_known(server) or known.client_id == document:
            # An authorization server that no longer reads documents does not know the client.
            return None
        redirects = known.redirect_uris
        is_usable = redirects and self.oauth.redirect_port in (0, redirects[0].port)
        return known if is_usable else None

    def _server_of(self, context: OAuthContext) -> OAuthMetadata:
        own, found = self.own_server(), context.oauth_metadata
        named = context.auth_server_url or str(own.issuer)
        if found is None:
            is_named = _origin(named) == _origin(own.issuer)
        else:
            is_named = issuers_match(named, str(found.issuer))
        if not is_named:
            # The SDK would send the credentials to the protected server, or to a former one.
            raise OAuthFlowError(f"{named} has no metadata")
        server = found or own
        endpoints = {server.token_endpoint, server.authorization_endpoint}
        endpoints.add(server.registration_endpoint or server.token_endpoint)
        if own.issuer.scheme == "https" and {each.scheme for each in endpoints} != {"https"}:
            raise OAuthFlowError(f"{server.issuer} wants credentials over plain HTTP")
        return server

    def _is_known(self, server: OAuthMetadata) -> bool | None:
        """Tell whether the login is with this authorization server; ``None`` if with none yet."""
        known, client = self.login.authorization_server, self.login.client
        if known is not None:
            is_same = _origin(known.token_endpoint) == _origin(server.token_endpoint)
            return is_same and issuers_match(str(known.issuer), str(server.issuer))
        if client is None or self.oauth.client_id not in (None, client.client_id):
            return None
        return None if client.issuer is None else issuers_match(client.issuer, str(server.issuer))

    async def _bind(self, client: OAuthClientInformationFull, context: OAuthContext) -> None:
        """Store the authorization server of the credentials, before it gets them."""
        server = self._server_of(context)
        update: dict[str, Any] = {"issuer": str(server.issuer)}
        update["redirect_uris"] = self.metadata.redirect_uris
        if self.oauth.client_id is not None:
            update["client_secret"] = None
        # The tokens of another authorization server must not be refreshed at this one.
        login = (self.login if self._is_known(server) else Login()).model_copy(
            update={
                "client": client.model_copy(update=update),
                "resource": context.protected_resource_metadata,
                "authorization_server": server,
            }
        )
        if login != self.login:
            await self.keep(login)

    async def _known_server_first(self, response: httpx2.Response) -> httpx2.Response:
        """Let the SDK choose the authorization server that it knows; it chooses the first."""
        resource = await handle_protected_resource_response(response)
        if resource is None or self.login.authorization_server is None:
            return response
        issuer = str(self.login.authorization_server.issuer)
        resource.authorization_servers.sort(key=lambda each: not issuers_match(str(each), issuer))
        return httpx2.Response(200, json=resource.model_dump(mode="json", exclude_none=True))

    async def _remember(self, url: str) -> None:
        self._url = url

    async def _ask(self) -> AuthorizationCodeResult:
        redirect = (self.metadata.redirect_uris or [])[0]
        state = parse_qs(urlsplit(self._url).query).get("state", [""])[0]
        parameters: dict[str, str] = {}
        try:
            with anyio.fail_after(self.oauth.login_timeout):
                async with browser_answers(port=redirect.port or 0, state=state) as answer:
                    if shown := await self.show(self._url):
                        parameters = await answer.wait()
        except TimeoutError:
            raise self.failed(
                f"took longer than {self.oauth.login_timeout:g} s. Connect again, and log in "
                "on the page that opens then."
            ) from None
        except OSError as error:
            raise self.failed(
                f"needs port {redirect.port} on 127.0.0.1, which cannot be used: {error}. Free it, "
                "or set another `redirect_port`."
            ) from error
        if not shown:
            raise self.failed(
                "needs a browser, and none could be opened here. Log in once where there is one "
                "and bring the tokens here, or open the hub with `on_login` and show the "
                f"address yourself. It was: {self._url}"
            )
        if "error" in parameters:
            why = parameters.get("error_description") or parameters["error"]
            raise self.failed(f"was refused: {why[:200]}.")
        return AuthorizationCodeResult(
            code=parameters.get("code", ""), state=state, iss=parameters.get("iss")
        )


async def _opened(open_browser: Callable[[str], bool], url: str) -> bool:
    try:
        return await anyio.to_thread.run_sync(open_browser, url, abandon_on_cancel=True)
    except (OSError, webbrowser.Error):
        return False


async def _shown(on_login: Callable[[str], object], url: str) -> bool:
    try:
        on_login(url)
    except Exception:
        logger.exception("on_login_failed: the login page was not shown")
        return False
    return True


class _ChosenScopes(OAuthClientMetadata):
    """Requests the scopes of the configuration; the SDK would request all that a server offers."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "scope":
            super().__setattr__(name, value)


def _metadata(oauth: OAuthConfig, **fields: Any) -> OAuthClientMetadata:
    if oauth.scopes:
        return _ChosenScopes(scope=" ".join(oauth.scopes), **fields)
    return OAuthClientMetadata(**fields)


def _exchange(
    client: OAuthClientInformationFull, context: OAuthContext, server: OAuthMetadata
) -> httpx2.Request:
    # Not with the SDK's provider, which has to be told the authorization server beforehand.
    context.client_info = client
    data, headers = context.prepare_token_auth({"grant_type": "client_credentials"}, {})
    if context.should_include_resource_param(context.protocol_version):
        data["resource"] = context.get_resource_url()
    if context.client_metadata.scope:
        data["scope"] = context.client_metadata.scope
    return httpx2.Request("POST", str(server.token_endpoint), data=data, headers=headers)


async def _tokens_in(response: httpx2.Response, context: OAuthContext) -> OAuthToken:
    await response.aread()
    if response.status_code not in (200, 201):
        raise OAuthTokenError(f"Token exchange failed ({response.status_code}): {response.text}")
    tokens = await handle_token_response_scopes(response)
    return tokens.model_copy(update={"scope": tokens.scope or context.client_metadata.scope})


def _origin(url: AnyUrl | str) -> tuple[str, str, int | None]:
    parsed = httpx2.URL(str(url))
    return parsed.scheme, parsed.host, parsed.port


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
