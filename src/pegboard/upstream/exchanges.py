"""SingleExchanges: the short way of a request to a server and back, whatever it is made of."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

__all__ = ["NotDirectError", "OnMessage", "ResumableError", "SingleExchanges"]

OnMessage: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]
"""Receives what a server says, or asks, before it answers."""


class NotDirectError(Exception):
    """This request has to go the long way; nothing was done for it yet."""


class ResumableError(Exception):
    """The stream with the answer ended too soon, and the server lets one ask for the rest."""

    def __init__(self, last_event: str, retry: int | None) -> None:
        super().__init__(last_event)
        self.last_event = last_event
        self.retry = retry


class SingleExchanges(Protocol):
    """Sends requests past the SDK, each of which gets one answer."""

    @property
    def hears(self) -> bool:
        """True when it hears what the server says about a request before it answers."""
        ...

    @property
    def is_ended_by_closing(self) -> bool:
        """True when the server notices by itself that nobody waits for an answer any more."""
        ...

    @property
    def why_lost(self) -> str:
        """What those should know who lose their answer with the connection; mostly nothing."""
        ...

    def close(self) -> None:
        """End what is under way."""
        ...

    async def request(
        self, message: Mapping[str, Any], headers: Mapping[str, str], on_message: OnMessage
    ) -> dict[str, Any]:
        """Send a request and return its result."""
        ...

    async def resume(
        self, last_event: str, headers: Mapping[str, str], on_message: OnMessage
    ) -> dict[str, Any]:
        """Ask for the rest of an answer that ended too soon."""
        ...
