"""Console sessions: one-time links of the local owner, logins with a credential, and cookies."""

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from hashlib import sha256

import msgspec

from pegboard.errors import UnauthenticatedError
from pegboard.model.principal import LOCAL, Principal

__all__ = ["Authenticate", "ConsoleSession", "ConsoleSessions", "is_same"]

LINK_SECONDS = 300.0
"""How long a one-time link can be opened."""
SESSION_SECONDS = 12 * 3600.0
MOST_LINKS, MOST_SESSIONS, MOST_OF_PERSON = 32, 1000, 20

Authenticate = Callable[[str], Awaitable[Principal]]
"""Returns the principal that a credential identifies; raises `UnauthenticatedError`."""


class ConsoleSession(msgspec.Struct, frozen=True, kw_only=True):
    """A browser that was let in."""

    principal: Principal
    csrf: str
    """What each form of this session sends back."""
    ends: float
    credential: str | None = None
    """What the person logged in with; it is checked again for each request. ``None`` for the local
    owner, who came by a link."""

    @property
    def is_owner(self) -> bool:
        """Whether this is the user who runs the gateway."""
        return self.credential is None


class ConsoleSessions:
    """The sessions of one process; they live in memory, and end with it.

    Only a digest of each cookie and link is kept.

    Args:
        authenticate: identifies a credential; ``None`` where no credential is accepted.
        clock: tells the time in seconds.
    """

    def __init__(
        self, authenticate: Authenticate | None = None, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.takes_credentials: bool = authenticate is not None
        """Whether a person can log in with a key or a token."""
        self._authenticate = authenticate
        self._clock = clock
        self._links: OrderedDict[str, float] = OrderedDict()
        self._sessions: OrderedDict[str, ConsoleSession] = OrderedDict()

    def make_link(self) -> str:
        """Return the secret of a new link, which lets one browser in, once, as the local owner."""
        secret = secrets.token_urlsafe(24)
        self._links[_digest(secret)] = self._clock() + LINK_SECONDS
        while len(self._links) > MOST_LINKS:
            self._links.popitem(last=False)
        return secret

    def follow_link(self, secret: str) -> str | None:
        """Return the cookie of a new session of the local owner; ``None`` if the link is spent."""
        ends = self._links.pop(_digest(secret), 0.0)
        return self._open(LOCAL, None) if self._clock() < ends else None

    async def log_in(self, credential: str) -> str:
        """Return the cookie of a new session.

        Raises:
            UnauthenticatedError: when the credential is not accepted.
        """
        if self._authenticate is None:
            raise UnauthenticatedError("No credential is accepted here.", reason="unknown")
        return self._open(await self._authenticate(credential), credential)

    async def find(self, cookie: str) -> ConsoleSession | None:
        """Return the session of a cookie, if its credential is still accepted."""
        digest = _digest(cookie)
        found = self._sessions.get(digest)
        if found is None:
            return None
        if self._clock() >= found.ends:
            self._sessions.pop(digest, None)
            return None
        if found.credential is None or self._authenticate is None:
            return found
        try:
            principal = await self._authenticate(found.credential)
        except UnauthenticatedError as error:
            if error.reason != "unavailable":
                self._sessions.pop(digest, None)
            return None
        # Its scopes may have changed since.
        return msgspec.structs.replace(found, principal=principal)

    def log_out(self, cookie: str) -> None:
        """End the session of a cookie."""
        self._sessions.pop(_digest(cookie), None)

    def _open(self, principal: Principal, credential: str | None) -> str:
        who = principal.tenant, principal.subject
        own = [
            digest
            for digest, it in self._sessions.items()
            if (it.principal.tenant, it.principal.subject) == who
        ]
        # The oldest of its own end first: logging in often must not log out the others.
        for digest in own[: 1 - MOST_OF_PERSON]:
            del self._sessions[digest]
        cookie = secrets.token_urlsafe(32)
        self._sessions[_digest(cookie)] = ConsoleSession(
            principal=principal,
            csrf=secrets.token_urlsafe(16),
            ends=self._clock() + SESSION_SECONDS,
            credential=credential,
        )
        while len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return cookie


def is_same(given: str, expected: str) -> bool:
    """Compare two secrets in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), expected.encode())


def _digest(secret: str) -> str:
    return sha256(secret.encode("utf-8", "replace")).hexdigest()
