"""Errors of the gateway: of those who ask, and of what is kept for them."""

from typing import ClassVar, Literal

from pegboard.errors.calls import CallRefusedError
from pegboard.errors.root import PegboardError, shorten

__all__ = [
    "ApiKeyNotFoundError",
    "HandleNotFoundError",
    "RateLimitedError",
    "UnauthenticatedError",
    "UnauthenticatedReason",
]

UnauthenticatedReason = Literal[
    "missing", "malformed", "unknown", "expired", "revoked", "invalid", "unavailable"
]
"""Why a credential was not accepted."""


class UnauthenticatedError(PegboardError, PermissionError):
    """Nobody knows who asks; ``reason`` says in one word why."""

    code: ClassVar[str] = "unauthenticated"

    def __init__(self, message: str, *, reason: UnauthenticatedReason) -> None:
        super().__init__(message)
        self.reason: UnauthenticatedReason = reason


class ApiKeyNotFoundError(PegboardError, KeyError):
    """No API key has that id."""

    code: ClassVar[str] = "api_key_not_found"

    def __init__(self, key: object) -> None:
        super().__init__(
            f"No API key has the id {shorten(key)}; `pegboard keys list` shows all of them."
        )
        self.key = key


class RateLimitedError(CallRefusedError, RuntimeError):
    """Somebody asks more often than they may; after ``retry_after`` seconds they may again."""

    code: ClassVar[str] = "rate_limited"
    transient: ClassVar[bool] = True

    def __init__(self, message: str, *, tool: str = "", retry_after: float) -> None:
        super().__init__(message, tool=tool)
        self.retry_after = retry_after


class HandleNotFoundError(PegboardError, KeyError):
    """No result is kept under that handle, or not any more, or not for whoever asks."""

    code: ClassVar[str] = "handle_not_found"

    def __init__(self, handle: object) -> None:
        super().__init__(
            f"No result is kept as {shorten(handle)}: it is kept for some minutes, and only for "
            "whoever made the call. Call the tool again."
        )
        self.handle = handle
