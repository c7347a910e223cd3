"""Authenticator: a credential becomes a principal."""

from collections.abc import Sequence
from typing import Protocol

from pegboard.errors import UnauthenticatedError
from pegboard.model.principal import LOCAL, OPERATOR, Principal

__all__ = ["Authenticator", "Door", "KindOfCredential", "OpenDoor", "credential_in"]

LONGEST_CREDENTIAL = 16 * 1024
"""Bytes; longer ones are not looked at."""


class KindOfCredential(Protocol):
    """Knows one kind of credentials: API keys, tokens of an issuer, what a plug-in brings."""

    def recognizes(self, credential: str) -> bool:
        """Tell by its form alone whether a credential is meant to be of this kind."""
        ...

    async def authenticate(self, credential: str) -> Principal:
        """Return who has this credential.

        Raises:
            AuthenticationFailedError: when it is not accepted.
        """
        ...

    def close(self) -> None:
        """Let go of what it holds; may block."""
        ...


class Authenticator(Protocol):
    """Says who asks."""

    async def authenticate(self, credential: str | None) -> Principal:
        """Return who has this credential.

        Raises:
            AuthenticationFailedError: when there is none, or it is not accepted.
        """
        ...


class OpenDoor:
    """Nobody has to say who they are: everybody is the one person at this machine."""

    async def authenticate(self, credential: str | None) -> Principal:
        """Return the person at this machine, whatever was sent."""
        return LOCAL


class Door:
    """Everybody has to say who they are, with a credential of one of some kinds."""

    def __init__(self, kinds: Sequence[KindOfCredential]) -> None:
        self._kinds = tuple(kinds)

    async def authenticate(self, credential: str | None) -> Principal:
        """Return who has this credential, asking the first kind that recognizes it."""
        if not credential:
            raise UnauthenticatedError(
                "Who asks? Send an API key or a token as `Authorization: Bearer …`, or a key as "
                "`X-API-Key: …`.",
                reason="missing",
            )
        if len(credential) > LONGEST_CREDENTIAL or not credential.isascii():
            raise UnauthenticatedError("This is no credential.", reason="malformed")
        for kind in self._kinds:
            if kind.recognizes(credential):
                return _outsider(await kind.authenticate(credential))
        raise UnauthenticatedError(
            "Credentials of this kind are not accepted here.", reason="unknown"
        )


def credential_in(authorization: str | None, api_key: str | None = None) -> str | None:
    """Return the credential in the headers ``Authorization`` and ``X-API-Key``, if there is one.

    Raises:
        AuthenticationFailedError: when they say something else, or two things.
    """
    found = {it.strip() for it in (_bearer(authorization), api_key) if it and it.strip()}
    if len(found) > 1:
        raise UnauthenticatedError(
            "`Authorization` and `X-API-Key` name two credentials; send one.", reason="malformed"
        )
    return next(iter(found), None)


def _outsider(principal: Principal) -> Principal:
    # Whatever a plug-in says: who were of this tenant could read the keys.
    if principal.tenant == OPERATOR:
        raise UnauthenticatedError("Nobody belongs to the operator.", reason="invalid")
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
