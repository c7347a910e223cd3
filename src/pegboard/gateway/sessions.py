"""Listener: a client that wants to hear of changes, and what it has not been told yet."""

from collections.abc import Mapping
from typing import Any

import anyio

from pegboard.gateway.request import Channel, Client

__all__ = [
    "PROMPTS",
    "RESOURCES",
    "TOOLS",
    "UPDATED",
    "WANTED",
    "ClientSession",
    "Listener",
    "Sessions",
]

TOOLS = "notifications/tools/list_changed"
RESOURCES = "notifications/resources/list_changed"
PROMPTS = "notifications/prompts/list_changed"
UPDATED = "notifications/resources/updated"
COMPLETED = "notifications/elicitation/complete"
_MOST_PAGES = 100
WANTED = {
    "toolsListChanged": TOOLS,
    "resourcesListChanged": RESOURCES,
    "promptsListChanged": PROMPTS,
}
"""What a modern client asks for, and what it is sent."""


class Listener:
    """A client that wants to hear of changes: a session, or a request to listen.

    What it has not been told yet is a set, not a queue: a client that reads slowly is told once of
    what happened often.
    """

    def __init__(self, client: Client, channel: Channel, *, meta: Mapping[str, Any]) -> None:
        self.client: Client = client
        self.wanted: set[str] = set()
        self.uris: dict[str, tuple[str, str]] = {}
        """Server and original address of the resources it watches, by their addresses here."""
        self.pages: dict[tuple[str, str], None] = {}
        """Server and id of questions that sent its person to a page."""
        self.wake: anyio.Event = anyio.Event()
        self.is_over: bool = False
        self._channel = channel
        self._meta = meta
        self._pending: dict[tuple[str, str], None] = {}

    def note(self, method: str, uri: str = "") -> None:
        """Have the client told, if it wants to hear of it."""
        if method in self.wanted or uri in self.uris:
            self._pending[method, uri] = None
            self.wake.set()

    def sent_to_page(self, server: str, question: object) -> None:
        """Remember that a server will tell when its client's person has visited a page."""
        if isinstance(question, str):
            self.pages[server, question] = None
            while len(self.pages) > _MOST_PAGES:
                del self.pages[next(iter(self.pages))]

    async def tell_of_page(self, question: str) -> None:
        """Say that a page has been visited."""
        await self._channel.notify(COMPLETED, {"elicitationId": question})

    def end(self) -> None:
        """Tell what is left, and then nothing more."""
        self.is_over = True
        self.wake.set()

    async def tell(self) -> None:
        """Send what the client has not been told yet."""
        while self._pending:
            method, uri = next(iter(self._pending))
            del self._pending[method, uri]
            params: dict[str, Any] = {"uri": uri} if uri else {}
            if self._meta:
                params["_meta"] = self._meta
            await self._channel.notify(method, params)

    async def acknowledge(self) -> None:
        """Say what the client will be told of."""
        granted: dict[str, Any] = {key: True for key, it in WANTED.items() if it in self.wanted}
        if self.uris:
            granted["resourceSubscriptions"] = list(self.uris)
        params = {"notifications": granted, "_meta": self._meta}
        await self._channel.notify("notifications/subscriptions/acknowledged", params)


class ClientSession:
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
        self._sessions: dict[str, ClientSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, client: Client, channel: Channel) -> ClientSession:
        """Note that a session is up."""
        session = self._sessions[client.session] = ClientSession(client, channel)
        return session

    def close(self, session: str) -> ClientSession | None:
        """Forget a session, and return it if it was up."""
        return self._sessions.pop(session, None)

    def of(self, tenant: str) -> list[ClientSession]:
        """Return the sessions of a tenant."""
        return [it for it in self._sessions.values() if it.client.principal.tenant == tenant]

    def find(self, client: Client) -> ClientSession | None:
        """Return the session of a client, if it is up, and theirs."""
        found = self._sessions.get(client.session)
        if found is None:
            return None
        owner, principal = found.client.principal, client.principal
        same = (owner.tenant, owner.subject) == (principal.tenant, principal.subject)
        return found if same else None
