"""Sessions of handshake clients, and listeners: clients that want change notifications."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio

from pegboard.gateway.request import Channel, Client

__all__ = [
    "PROMPTS",
    "RESOURCES",
    "TASK",
    "TOOLS",
    "UPDATED",
    "WANTED",
    "ClientSession",
    "Listener",
    "Sessions",
    "TaskDetails",
]

TOOLS = "notifications/tools/list_changed"
RESOURCES = "notifications/resources/list_changed"
PROMPTS = "notifications/prompts/list_changed"
UPDATED = "notifications/resources/updated"
COMPLETED = "notifications/elicitation/complete"
TASK = "notifications/tasks"
_MOST_PAGES = 100
WANTED = {
    "toolsListChanged": TOOLS,
    "resourcesListChanged": RESOURCES,
    "promptsListChanged": PROMPTS,
}
"""The wishes of a modern client, and the notification that each one gets."""
TaskDetails = Callable[[str], Awaitable[dict[str, Any] | None]]
"""Returns the state of a task for the client, or ``None`` if it is gone."""


class Listener:
    """A client that wants notifications of changes: a session, or a request to listen.

    Pending notifications are a set, not a queue: a client that reads slowly gets one notification
    for many equal changes.
    """

    def __init__(self, client: Client, channel: Channel, *, meta: Mapping[str, Any]) -> None:
        self.client: Client = client
        self.wanted: set[str] = set()
        self.uris: dict[str, tuple[str, str]] = {}
        """Server and original URI of the resources it watches, by their URIs in the gateway."""
        self.uri_chars: int = 0
        """How many characters these URIs have together."""
        self.tasks: tuple[str, ...] = ()
        """The tasks that it follows."""
        self.details: TaskDetails | None = None
        """Returns their states at the moment when the client is told."""
        self.pages: dict[tuple[str, str], None] = {}
        """Server and id of the elicitations that sent its user to a web page."""
        self.wake: anyio.Event = anyio.Event()
        self.is_over: bool = False
        self._channel = channel
        self._meta = meta
        self._pending: dict[tuple[str, str], None] = {}

    @property
    def is_reachable(self) -> bool:
        """Whether notifications reach the client now; a session may have no open stream."""
        return self.client.era == "modern" or self._channel.can_ask

    def note(self, method: str, uri: str = "") -> None:
        """Queue a notification, if the client wants it."""
        if method in self.wanted or uri in self.uris or uri in self.tasks:
            self._pending[method, uri] = None
            self.wake.set()

    def sent_to_page(self, server: str, question: object) -> None:
        """Remember an elicitation whose completion the server will report later."""
        if isinstance(question, str):
            self.pages[server, question] = None
            while len(self.pages) > _MOST_PAGES:
                del self.pages[next(iter(self.pages))]

    async def tell_of_page(self, question: str) -> None:
        """Notify the client that the user completed an elicitation."""
        await self._channel.notify(COMPLETED, {"elicitationId": question})

    def end(self) -> None:
        """End the request to listen, after the pending notifications."""
        self.is_over = True
        self.wake.set()

    async def tell(self) -> None:
        """Send the pending notifications."""
        while self._pending:
            method, uri = next(iter(self._pending))
            del self._pending[method, uri]
            params: dict[str, Any] | None = {"uri": uri} if uri else {}
            if method == TASK:
                params = None if self.details is None else await self.details(uri)
            if params is None:
                continue
            if self._meta:
                params["_meta"] = self._meta
            await self._channel.notify(method, params)

    async def acknowledge(self) -> None:
        """Tell the client which notifications it will get."""
        granted: dict[str, Any] = {key: True for key, it in WANTED.items() if it in self.wanted}
        if self.uris:
            granted["resourceSubscriptions"] = list(self.uris)
        if self.tasks:
            granted["taskIds"] = list(self.tasks)
        params = {"notifications": granted, "_meta": self._meta}
        await self._channel.notify("notifications/subscriptions/acknowledged", params)


class ClientSession:
    """One session of the handshake era, from its handshake to its end."""

    def __init__(self, client: Client, channel: Channel) -> None:
        self.client: Client = client
        self.channel: Channel = channel
        self.level: str | None = None
        """The lowest log level to send, if the client has set one."""
        self.listener: Listener | None = None
        """Sends it notifications of changes, once its tenant is open."""


class Sessions:
    """The open sessions, by the id that the transport gave them."""

    def __init__(self) -> None:
        self._sessions: dict[str, ClientSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, client: Client, channel: Channel) -> ClientSession:
        """Add a session."""
        session = self._sessions[client.session] = ClientSession(client, channel)
        return session

    def close(self, session: str) -> ClientSession | None:
        """Remove a session, and return it if it was open."""
        return self._sessions.pop(session, None)

    def of(self, tenant: str) -> list[ClientSession]:
        """Return the sessions of a tenant."""
        return [it for it in self._sessions.values() if it.client.principal.tenant == tenant]

    def find(self, client: Client) -> ClientSession | None:
        """Return the session of a client, if it is open and belongs to the same principal."""
        found = self._sessions.get(client.session)
        if found is None:
            return None
        owner, principal = found.client.principal, client.principal
        same = (owner.tenant, owner.subject) == (principal.tenant, principal.subject)
        return found if same else None
