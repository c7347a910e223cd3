"""OAuth login to a server: with a browser, or with client credentials."""

import logging
import os
import socket
import sys
import webbrowser
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.to_thread
import httpx2
from mcp.client.auth import TokenStorage
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
)
from pydantic import AnyUrl

from pegboard.config.servers import OAuthConfig, ServerConfig
from pegboard.errors import ConfigError
from pegboard.upstream.oauth.background_login import BackgroundLogin
from pegboard.upstream.oauth.redirect_listener import CALLBACK_PATH, browser_answers
from pegboard.upstream.oauth.token_refresh import TokenRefresh
from pegboard.upstream.oauth.token_storage import token_storage_for

__all__ = ["oauth_provider", "open_in_browser"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")


def oauth_provider(
    config: ServerConfig,
    *,
    storage: TokenStorage | None = None,
    open_browser: Callable[[str], bool] | None = None,
    on_login: Callable[[str], object] | None = None,
    tenant: str = "",
    background_login: BackgroundLogin | None = None,
) -> httpx2.Auth:
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
    kept = token_storage_for(config, tenant=tenant) if storage is None else storage
    if oauth.flow == "client_credentials":
        return _ClientCredentials(config, oauth, kept)
    if on_login is None:
        show = partial(_opened, open_browser or open_in_browser)
    else:
        show = partial(_shown, on_login)
    login = _BrowserLogin(config, oauth, kept, show=show)
    login.background_login = background_login
    return login


def open_in_browser(url: str) -> bool:
    """Open a URL in a browser on this machine; return false if there is none."""
    graphical = sys.platform in ("darwin", "win32", "cygwin")
    if not graphical and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        # Without a display, `webbrowser` might start a text browser in the terminal.
        return False
    return webbrowser.open(url)


class _ClientCredentials(TokenRefresh, ClientCredentialsOAuthProvider):
    """Logs in a program, with its client id and secret."""

    asks_a_person = False

    def __init__(self, config: ServerConfig, oauth: OAuthConfig, storage: TokenStorage) -> None:
        if not oauth.client_id or not oauth.client_secret:
            raise ConfigError(
                f"Server {config.name!r} uses the flow 'client_credentials', so its `oauth` needs "
                "a `client_id` and a `client_secret`."
            )
        self.config = config
        self.has_chosen_scopes = bool(oauth.scopes)
        super().__init__(
            config.url or "",
            storage,
            oauth.client_id,
            oauth.client_secret,
            scope=" ".join(oauth.scopes) or None,
            issuer=config.url or "",
        )
        # Any issuer at first; later only the one that was found (see `_initialize`).
        self._issuer = None
        metadata = self.context.client_metadata
        self.context.client_metadata = _metadata(oauth, **metadata.model_dump(exclude={"scope"}))

    async def _initialize(self) -> None:
        await super()._initialize()
        if self.context.oauth_metadata is not None:
            self._issuer = str(self.context.oauth_metadata.issuer)

    async def _perform_authorization(self) -> httpx2.Request:
        _choose_secret_method(self.context.client_info, self.context.oauth_metadata)
        return await super()._perform_authorization()


class _BrowserLogin(TokenRefresh):
    """Lets a person log in with a browser, which is redirected back to this machine."""

    def __init__(
        self,
        config: ServerConfig,
        oauth: OAuthConfig,
        storage: TokenStorage,
        *,
        show: Callable[[str], Awaitable[bool]],
    ) -> None:
        self.config = config
        self.has_chosen_scopes = bool(oauth.scopes)
        self._oauth = oauth
        self._show = show
        self._url = ""
        redirect = AnyUrl(f"http://127.0.0.1:{oauth.redirect_port or _free_port()}{CALLBACK_PATH}")
        super().__init__(
            config.url or "",
            _metadata(oauth, client_name="Pegboard", redirect_uris=[redirect]),
            storage,
            self._remember,
            self._ask,
        )

    async def _initialize(self) -> None:
        await super()._initialize()
        metadata = self.context.client_metadata
        if self._oauth.client_id:
            self.context.client_info = OAuthClientInformationFull(
                client_id=self._oauth.client_id,
                client_secret=self._oauth.client_secret,
                redirect_uris=metadata.redirect_uris,
                # So that the secret is sent only to the server that first got it.
                issuer=str(server.issuer) if (server := self.context.oauth_metadata) else None,
                token_endpoint_auth_method="client_secret_basic"
                if self._oauth.client_secret
                else "none",
            )
            _choose_secret_method(self.context.client_info, self.context.oauth_metadata)
        elif self.context.client_info is not None and self.context.client_info.redirect_uris:
            known = self.context.client_info.redirect_uris[:1]
            if self._oauth.redirect_port in (0, known[0].port):
                # The authorization server may require the redirect URL that it knows.
                metadata.redirect_uris = known
            elif self.context.current_tokens is None:
                self.context.client_info = None

    async def _perform_authorization(self) -> httpx2.Request:
        if self._oauth.client_id:
            _choose_secret_method(self.context.client_info, self.context.oauth_metadata)
        return await super()._perform_authorization()

    async def _remember(self, url: str) -> None:
        self._url = url

    async def _ask(self) -> AuthorizationCodeResult:
        if not self.is_awaited():
            raise self.expired()
        redirect = (self.context.client_metadata.redirect_uris or [])[0]
        state = parse_qs(urlsplit(self._url).query).get("state", [""])[0]
        parameters: dict[str, str] = {}
        try:
            with anyio.fail_after(self._oauth.login_timeout):
                async with browser_answers(port=redirect.port or 0, state=state) as answer:
                    if shown := await self._show(self._url):
                        parameters = await answer.wait()
        except TimeoutError:
            raise self.failed(
                f"took longer than {self._oauth.login_timeout:g} s. Connect again, and log in "
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


def _choose_secret_method(client: OAuthClientInformationFull | None, server: Any) -> None:
    if client is None or client.client_secret is None or server is None:
        return
    supported = server.token_endpoint_auth_methods_supported or ["client_secret_basic"]
    if "client_secret_basic" not in supported and "client_secret_post" in supported:
        client.token_endpoint_auth_method = "client_secret_post"  # noqa: S105 - no password


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
