"""What servers tell of besides their tools: for those tell the subscribers of a registry."""

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
    """A server that could be called is lost, stopped or idle; the next call may start it again."""

    server: str


class ResourcesChanged(msgspec.Struct, frozen=True):
    """A server has other resources or templates than before."""

    server: str


class PromptsChanged(msgspec.Struct, frozen=True):
    """A server has other prompts than before."""

    server: str


class ResourceUpdated(msgspec.Struct, frozen=True):
    """A resource that somebody has subscribed to is not what it was."""

    server: str
    uri: str


class ElicitationCompleted(msgspec.Struct, frozen=True):
    """Somebody who was asked to visit a page has done there what they were asked for."""

    server: str
    id: str
    """What the server called the question."""


ServerEvent: TypeAlias = (
    ServerUp
    | ServerDown
    | ResourcesChanged
    | PromptsChanged
    | ResourceUpdated
    | ElicitationCompleted
)

OnServerEvent: TypeAlias = Callable[[ServerEvent], object]
"""Told at once, on the event loop of the hub: it must not block, nor wait for a server."""
