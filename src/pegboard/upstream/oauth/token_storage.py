"""Token storage: OAuth tokens between two runs, in private files or in the keyring."""

import hashlib
import os
import tempfile
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Any

import anyio
import anyio.to_thread
import platformdirs
from mcp.client.auth import TokenStorage
from mcp.client.auth.utils import issuers_match
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import BaseModel, ValidationError

from pegboard.config.atomic_write import make_folder
from pegboard.config.secrets.kept_secrets import note_in_keyring
from pegboard.config.servers import OAuthConfig, ServerConfig
from pegboard.errors import ConfigError
from pegboard.errors.extras import install_extra

__all__ = [
    "FileTokenStorage",
    "KeyringTokenStorage",
    "Login",
    "LoginStorage",
    "SdkStorage",
    "token_key",
    "token_storage_for",
]

_SERVICE = "pegboard"


def token_key(config: ServerConfig, *, tenant: str = "") -> str:
    """Return the key of the tokens of a server.

    Two entries with one URL, and two tenants, may be logged in as different people.
    """
    oauth = config.oauth or OAuthConfig()
    parts = (tenant, config.name, config.url or "", oauth.client_id or "", *sorted(oauth.scopes))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


def token_storage_for(config: ServerConfig, *, tenant: str = "") -> "LoginStorage":
    """Return the storage that the configuration of a server asks for.

    Raises:
        ConfigError: when it asks for the keyring, and that extra is not installed.
    """
    key = token_key(config, tenant=tenant)
    if config.oauth is not None and config.oauth.storage == "keyring":
        return KeyringTokenStorage(key)
    home = platformdirs.user_data_path(_SERVICE, appauthor=False)
    return FileTokenStorage(home / "tokens" / f"{key}.json")


class Login(BaseModel, frozen=True):
    """A login: its tokens, and the client and the servers that they belong to.

    It is read and written as a whole, so that a token is never used with parts of another login.
    """

    tokens: OAuthToken | None = None
    expires_at: float | None = None
    """When the access token expires, in seconds since 1970."""
    client: OAuthClientInformationFull | None = None
    """How this client is registered; without its secret if that is in the configuration."""
    resource: ProtectedResourceMetadata | None = None
    authorization_server: OAuthMetadata | None = None
    """The only server that may get the refresh token and the secret of the client."""

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        # Pydantic and Rich would show every token.
        return []

    def with_tokens(self, tokens: OAuthToken | None) -> "Login":
        """Return this login with other tokens, whose time begins now."""
        lifetime = None if tokens is None else tokens.expires_in
        expires_at = None if lifetime is None else time() + lifetime
        return self.model_copy(update={"tokens": tokens, "expires_at": expires_at})


class LoginStorage(ABC):
    """Stores one login; an unreadable one counts as none, so that a person is asked again."""

    async def get_login(self) -> Login:
        """Return the last login; an empty one if there is none."""
        text = await anyio.to_thread.run_sync(self._load)
        with suppress(ValidationError):
            return Login.model_validate_json(text or "{}")
        return Login()

    async def set_login(self, login: Login) -> None:
        """Store a login instead of the last one."""
        text = login.model_dump_json(exclude_none=True)
        # Shielded: a rotated token that is not stored is a lost login.
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._save, text)

    @abstractmethod
    def _load(self) -> str | None: ...

    @abstractmethod
    def _save(self, text: str) -> None: ...


class FileTokenStorage(LoginStorage):
    """Stores one login in a file that only its owner can read.

    Two processes may share it: the file is replaced as a whole, and the last writer wins.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)

    def __repr__(self) -> str:
        return f"FileTokenStorage({str(self._path)!r})"

    def _load(self) -> str | None:
        try:
            return self._path.read_text("utf-8")
        except (FileNotFoundError, UnicodeDecodeError):
            return None

    def _save(self, text: str) -> None:
        folder = self._path.parent
        make_folder(folder)
        # `mkstemp` makes files that only their owner can read.
        handle, name = tempfile.mkstemp(prefix=f".{self._path.name}.", dir=folder)
        temporary = Path(name)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


class KeyringTokenStorage(LoginStorage):
    """Stores one login in the keyring of the operating system.

    Raises:
        ConfigError: when the extra ``pegboard[keyring]`` is not installed.
    """

    def __init__(self, key: str) -> None:
        try:
            import keyring  # noqa: PLC0415 - an optional extra
        except ImportError:
            raise ConfigError(
                "Tokens can only be kept in the keyring with the extra `pegboard[keyring]`: "
                f'run `{install_extra("keyring")}`, or set `storage` to "file".'
            ) from None
        self._keyring: Any = keyring
        self._key = key

    def __repr__(self) -> str:
        return f"KeyringTokenStorage({self._key!r})"

    def _load(self) -> str | None:
        return self._keyring.get_password(_SERVICE, self._key)

    def _save(self, text: str) -> None:
        with suppress(OSError):
            note_in_keyring(self._key)
        self._keyring.set_password(_SERVICE, self._key, text)


class SdkStorage:
    """Stores logins in any storage of the SDK, and in memory what the SDK does not store.

    So after a restart, or a login by another process, the authorization server is unknown.
    """

    def __init__(self, storage: TokenStorage) -> None:
        self._storage = storage
        self._last = Login()

    async def get_login(self) -> Login:
        """Return the last login; an empty one if there is none."""
        tokens = await self._storage.get_tokens()
        client = await self._storage.get_client_info()
        if (tokens, client) != (self._last.tokens, self._last.client):
            server = self._last.authorization_server
            issuer = "" if client is None else client.issuer or ""
            is_known = server is not None and issuers_match(str(server.issuer), issuer)
            login = self._last if is_known else Login()
            if tokens != login.tokens:
                login = login.with_tokens(tokens)
            self._last = login.model_copy(update={"client": client})
        return self._last

    async def set_login(self, login: Login) -> None:
        """Store a login instead of the last one; the SDK has no way to remove tokens."""
        if login.client is not None and login.client != self._last.client:
            await self._storage.set_client_info(login.client)
        if login.tokens is not None and login.tokens != self._last.tokens:
            await self._storage.set_tokens(login.tokens)
        self._last = login
