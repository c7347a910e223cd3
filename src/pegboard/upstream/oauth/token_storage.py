"""Token storage: OAuth tokens between two runs, in private files or in the keyring."""

import hashlib
import os
import tempfile
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Any, TypeVar

import anyio
import anyio.to_thread
import msgspec
import platformdirs
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import BaseModel, ValidationError

from pegboard.config.servers import OAuthConfig, ServerConfig
from pegboard.errors import ConfigError
from pegboard.errors.extras import install_extra

__all__ = [
    "FileTokenStorage",
    "KeyringTokenStorage",
    "LoginStorage",
    "token_key",
    "token_storage_for",
]

_SERVICE = "pegboard"

M = TypeVar("M", bound=BaseModel)


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


class _Login(msgspec.Struct, kw_only=True, omit_defaults=True):
    tokens: dict[str, Any] | None = None
    expires_at: float | None = None
    client: dict[str, Any] | None = None
    resource: dict[str, Any] | None = None
    authorization_server: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return "_Login(***)"


class LoginStorage(ABC):
    """What the SDK stores of a login, and also its expiry and its authorization server.

    Without these two, a login could not be refreshed after a restart. An unreadable entry counts
    as no login, so that a person is asked again.
    """

    def __init__(self) -> None:
        self._changing = anyio.Lock()

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens of the last login."""
        return _parse(OAuthToken, (await self._read()).tokens)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store the tokens of a login, and when they expire."""
        expires_at = None if tokens.expires_in is None else time() + tokens.expires_in
        await self._change(tokens=_dump(tokens), expires_at=expires_at)

    async def forget_tokens(self) -> None:
        """Remove the tokens; the next use needs a new login."""
        await self._change(tokens=None, expires_at=None)

    async def get_expiry(self) -> float | None:
        """Return when the access token expires, in seconds since 1970."""
        return (await self._read()).expires_at

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return how this client is registered."""
        return _parse(OAuthClientInformationFull, (await self._read()).client)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store how this client is registered."""
        await self._change(client=_dump(client_info))

    async def get_servers(self) -> tuple[ProtectedResourceMetadata | None, OAuthMetadata | None]:
        """Return the metadata of the protected server and of its authorization server."""
        login = await self._read()
        return (
            _parse(ProtectedResourceMetadata, login.resource),
            _parse(OAuthMetadata, login.authorization_server),
        )

    async def set_servers(
        self, resource: ProtectedResourceMetadata | None, server: OAuthMetadata | None
    ) -> None:
        """Store the metadata of the protected server and of its authorization server."""
        await self._change(resource=_dump(resource), authorization_server=_dump(server))

    @abstractmethod
    def _load(self) -> str | None: ...

    @abstractmethod
    def _save(self, text: str) -> None: ...

    async def _read(self) -> _Login:
        text = await anyio.to_thread.run_sync(self._load)
        with suppress(msgspec.MsgspecError, RecursionError):
            return msgspec.json.decode(text or "{}", type=_Login)
        return _Login()

    async def _change(self, **fields: Any) -> None:
        async with self._changing:
            login = msgspec.structs.replace(await self._read(), **fields)
            text = msgspec.json.encode(login).decode()
            # Shielded: a rotated token that is not stored is a lost login.
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._save, text)


class FileTokenStorage(LoginStorage):
    """Stores one login in a file that only its owner can read.

    Two processes may share it: the file is replaced as a whole, and the last writer wins.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
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
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
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
        super().__init__()
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
        self._keyring.set_password(_SERVICE, self._key, text)


def _dump(model: BaseModel | None) -> dict[str, Any] | None:
    return None if model is None else model.model_dump(mode="json", exclude_none=True)


def _parse(kind: type[M], fields: dict[str, Any] | None) -> M | None:
    if fields is None:
        return None
    try:
        return kind.model_validate(fields)
    except ValidationError:
        return None
