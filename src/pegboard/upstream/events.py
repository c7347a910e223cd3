"""Server events: a server went up or down, or changed its prompts or resources."""

from collections.abc import Callable
from typing import TypeAlias

import msgspec

__all__ = [
    "ElicitationCompleted",
    "OnServerEvent",
    "PromptsChanged",
    "ResourceUpdated",
    "ResourcesChanged",
    "ServerDown",
    "ServerEvent",
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


ServerEvent: TypeAlias = (
    ServerUp
    | ServerDown
    | ResourcesChanged
    | PromptsChanged
    | ResourceUpdated
    | ElicitationCompleted
)

OnServerEvent: TypeAlias = Callable[[ServerEvent], object]
"""Called on the event loop of the hub: it must not block, nor wait for a server."""
