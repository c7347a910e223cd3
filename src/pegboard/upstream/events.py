"""Server events: a server went up or down, or changed its tools, prompts or resources."""

from collections.abc import Callable, Sequence
from typing import Literal, Protocol, TypeAlias

import msgspec

__all__ = [
    "ChangedDefinition",
    "DefinitionsChanged",
    "ElicitationCompleted",
    "OnServerEvent",
    "PromptsChanged",
    "ResourceUpdated",
    "ResourcesChanged",
    "ServerDown",
    "ServerEvent",
    "ServerLogger",
    "ServerNote",
    "ServerUp",
]


class ServerUp(msgspec.Struct, frozen=True):
    """A server can be called now."""

    server: str


class ServerDown(msgspec.Struct, frozen=True):
    """A server was lost, stopped or went idle; the next call may start it again."""

    server: str


class ResourcesChanged(msgspec.Struct, frozen=True):
    """The resources or resource templates of a server have changed."""

    server: str


class PromptsChanged(msgspec.Struct, frozen=True):
    """The prompts of a server have changed."""

    server: str


class ResourceUpdated(msgspec.Struct, frozen=True):
    """A subscribed resource has changed."""

    server: str
    uri: str


class ElicitationCompleted(msgspec.Struct, frozen=True):
    """A user has completed an elicitation by URL on the page that they were sent to."""

    server: str
    id: str
    """The id that the server gave to the elicitation."""


class ChangedDefinition(msgspec.Struct, frozen=True):
    """A tool whose definition is another one than when it was last seen."""

    tool: str
    """Its name on the server."""
    before: str
    """The SHA-256 of the old definition, as the server sent it, in JSON with sorted keys."""
    after: str


class DefinitionsChanged(msgspec.Struct, frozen=True):
    """A server has changed the definitions of tools, perhaps while the hub was closed."""

    server: str
    tools: tuple[ChangedDefinition, ...]
    """The first of them."""
    more: int = 0
    """How many further definitions have changed."""


ServerEvent: TypeAlias = (
    ServerUp
    | ServerDown
    | ResourcesChanged
    | PromptsChanged
    | ResourceUpdated
    | ElicitationCompleted
    | DefinitionsChanged
)

OnServerEvent: TypeAlias = Callable[[ServerEvent], object]
"""Called on the event loop of the hub: it must not block, nor wait for a server."""

ServerNote: TypeAlias = Literal[
    "dropped", "exited", "failed", "idle", "lost", "ready", "resent", "retry", "started", "stopped"
]
"""What happened to a server, for its log: its process was ``started`` or ``exited``; it is
``ready``, was ``lost``, has ``failed`` to start, is tried again (``retry``), was ``stopped`` or is
``idle``; a request was ``resent``; output of it was ``dropped``."""


class ServerLogger(Protocol):
    """Keeps what servers wrote to standard error, and what was done with them.

    It is called on the event loop of the hub, so it only takes what it gets, and never raises.
    """

    def note(self, server: str, event: ServerNote, text: str = "") -> None:
        """Take an event; the text holds no secrets."""
        ...

    def wrote(self, server: str, lines: Sequence[bytes], read: Callable[[bytes], str]) -> None:
        """Take lines as they were written; ``read`` makes each of them fit to be seen."""
        ...
