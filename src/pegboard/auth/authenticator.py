"""Authenticator: turns a credential into a principal, with API keys, JWTs or a plug-in."""

from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol, cast

import anyio
import anyio.to_thread

from pegboard.auth.api_keys import ApiKeys
from pegboard.auth.settings import AuthSettings
from pegboard.errors import ConfigError, UnauthenticatedError
from pegboard.model.principal import ANONYMOUS, LOCAL, OPERATOR, Principal
from pegboard.storage import open_store

__all__ = [
    "ENTRY_POINTS",
    "AnonymousAuthenticator",
    "Authenticator",
    "CredentialAuthenticator",
    "CredentialVerifier",
    "credential_in",
    "open_authenticator",
]

ENTRY_POINTS = "pegboard.authenticators"
LONGEST_CREDENTIAL = 16 * 1024
"""Bytes; a longer credential is refused unread."""


class CredentialVerifier(Protocol):
    """Accepts one kind of credential: API keys, the tokens of an issuer, or a plug-in's kind."""

    def recognizes(self, credential: str) -> bool:
        """Tell by its form alone whether a credential is of this kind."""
        ...

    async def authenticate(self, credential: str) -> Principal:
        """Return the principal that a credential identifies.

        Raises:
            UnauthenticatedError: when the credential is not accepted.
        """
        ...

    def close(self) -> None:
        """Release its resources; may block."""
        ...


class Authenticator(Protocol):
    """Identifies the caller of a request."""

    async def authenticate(self, credential: str | None) -> Principal:
        """Return the principal that a credential identifies.

        Raises:
            UnauthenticatedError: when the credential is missing or not accepted.
        """
        ...


class AnonymousAuthenticator:
    """Requires no credential: every caller may find and call all tools.

    Args:
        allow_register: whether callers may also register tools.
    """

    def __init__(self, *, allow_register: bool = False) -> None:
        self.principal: Principal = LOCAL if allow_register else ANONYMOUS
        """Every caller."""

    async def authenticate(self, credential: str | None) -> Principal:
        """Return the same principal, whatever the client sent."""
        return self.principal


class CredentialAuthenticator:
    """Requires a credential, which the first verifier that recognizes it checks."""

    def __init__(self, verifiers: Sequence[CredentialVerifier]) -> None:
        self._verifiers = tuple(verifiers)

    @property
    def keys(self) -> ApiKeys | None:
        """The API keys that are accepted; ``None`` if none are."""
        return next((it for it in self._verifiers if isinstance(it, ApiKeys)), None)

    async def authenticate(self, credential: str | None) -> Principal:
        """Return the principal that a credential identifies.

        Raises:
            UnauthenticatedError: when the credential is missing or not accepted.
        """
        if not credential:
            raise UnauthenticatedError(
                "A credential is required. Send an API key or a token as "
                "`Authorization: Bearer …`, or a key as `X-API-Key: …`.",
                reason="missing",
            )
        if len(credential) > LONGEST_CREDENTIAL or not credential.isascii():
            raise UnauthenticatedError("This is not a valid credential.", reason="malformed")
        for verifier in self._verifiers:
            if verifier.recognizes(credential):
                return _outsider(await verifier.authenticate(credential))
        raise UnauthenticatedError(
            "Credentials of this kind are not accepted here.", reason="unknown"
        )


def credential_in(authorization: str | None, api_key: str | None = None) -> str | None:
    """Return the credential in the headers ``Authorization`` and ``X-API-Key``, if there is one.

    Raises:
        UnauthenticatedError: when a header is malformed, or the two hold different credentials.
    """
    found = {it.strip() for it in (_bearer(authorization), api_key) if it and it.strip()}
    if len(found) > 1:
        raise UnauthenticatedError(
            "`Authorization` and `X-API-Key` hold two different credentials. Send one.",
            reason="malformed",
        )
    return next(iter(found), None)


@asynccontextmanager
async def open_authenticator(
    settings: AuthSettings, *, storage: str | Path | None = None
) -> AsyncGenerator[Authenticator]:
    """Open the authenticator that the settings describe, and close it when the context ends.

    Args:
        settings: which credentials are accepted.
        storage: where API keys are kept; a URL or path as for `open_store`.

    Raises:
        ConfigError: when a plug-in is missing or cannot be used.
        StorageError: when the API keys cannot be read.
    """
    if not settings.required:
        yield AnonymousAuthenticator(allow_register=settings.allow_register)
        return
    with ExitStack() as stack:
        verifiers, background = await anyio.to_thread.run_sync(
            partial(_open, settings, storage, stack)
        )
        closing = stack.pop_all()
    try:
        async with _running(background):
            yield CredentialAuthenticator(verifiers)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(closing.close)


_Plugin = Callable[[Mapping[str, Any]], CredentialVerifier]
"""Takes its options from the settings."""

_Background = Callable[[], Coroutine[Any, Any, None]]
"""The background work of a verifier, which runs until it is cancelled."""


@asynccontextmanager
async def _running(background: Sequence[_Background]) -> AsyncGenerator[None]:
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        for it in background:
            tasks.start_soon(it)
        try:
            yield
        except Exception as error:  # noqa: BLE001 - raised below, as it is and not in a group
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


def _open(
    settings: AuthSettings, storage: str | Path | None, stack: ExitStack
) -> tuple[list[CredentialVerifier], list[_Background]]:
    verifiers: list[CredentialVerifier] = []
    background: list[_Background] = []
    if settings.keys:
        store = stack.enter_context(open_store(storage, tenant=OPERATOR))
        verifiers.append(ApiKeys(store))
        stack.callback(verifiers[-1].close)
    for name, options in settings.plugins.items():
        verifiers.append(_plugin(name)(options))
        stack.callback(verifiers[-1].close)
    if settings.issuers:
        # Imported only here: a gateway without tokens need not load the code for signatures.
        tokens = import_module("pegboard.auth.jwt")
        issued = tokens.IssuedTokens(settings)
        verifiers.append(cast("CredentialVerifier", issued))
        background.append(cast("_Background", issued.keep_fresh))
        stack.callback(verifiers[-1].close)
    return verifiers, background


def _plugin(name: str) -> _Plugin:
    for plugin in entry_points(group=ENTRY_POINTS, name=name):
        try:
            return plugin.load()
        except (ImportError, AttributeError) as error:
            raise ConfigError(f"The authenticator {name!r} cannot be used: {error}.") from error
    known = ", ".join(sorted(entry_points(group=ENTRY_POINTS).names)) or "none"
    raise ConfigError(
        f"No installed package provides the authenticator {name!r} (known: {known}). Install a "
        f"package that has it under the entry point {ENTRY_POINTS!r}."
    )


def _outsider(principal: Principal) -> Principal:
    # Also for plug-ins: a caller of the operator's tenant could read the API keys.
    if principal.tenant == OPERATOR:
        raise UnauthenticatedError(
            "No caller can belong to the operator's tenant.", reason="invalid"
        )
    return principal


def _bearer(authorization: str | None) -> str | None:
    if authorization is None or not authorization.strip():
        return None
    scheme, _, credential = authorization.strip().partition(" ")
    if scheme.lower() != "bearer":
        raise UnauthenticatedError(
            "`Authorization` must be `Bearer`, followed by an API key or a token.",
            reason="malformed",
        )
    return credential
