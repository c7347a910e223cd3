"""Sessions: the conversations of clients of the handshake era, and what each has asked for."""

from typing import TYPE_CHECKING

from pegboard.gateway.exchange import Channel, Client

if TYPE_CHECKING:
    from pegboard.gateway.listener import Listener

__all__ = ["Session", "Sessions"]


class Session:
    """One conversation, from its handshake to its end."""

    def __init__(self, client: Client, channel: Channel) -> None:
        self.client: Client = client
        self.channel: Channel = channel
        self.level: str | None = None
        """How grave a log message must be, if its client has said so."""
        self.listener: Listener | None = None
        """Who tells it of changes, once its tenant is open."""


class Sessions:
    """The sessions that are up, by the id their wire gave them."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, client: Client, channel: Channel) -> Session:
        """Note that a session is up."""
        session = self._sessions[client.session] = Session(client, channel)
        return session

    def close(self, session: str) -> Session | None:
        """Forget a session, and return it if it was up."""
        return self._sessions.pop(session, None)

    def of(self, tenant: str) -> list[Session]:
        """Return the sessions of a tenant."""
        return [it for it in self._sessions.values() if it.client.principal.tenant == tenant]

    def find(self, client: Client) -> Session | None:
        """Return the session of a client, if it is up, and theirs."""
        found = self._sessions.get(client.session)
        if found is None:
            return None
        owner, principal = found.client.principal, client.principal
        same = (owner.tenant, owner.subject) == (principal.tenant, principal.subject)
        return found if same else None
