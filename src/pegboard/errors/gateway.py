"""Errors of the gateway's clients: unauthenticated, beyond a limit, unknown API key or handle."""

from typing import ClassVar, Literal

from pegboard.errors.calls import CallRefusedError
from pegboard.errors.root import PegboardError, shorten

__all__ = [
    "ApiKeyNotFoundError",
    "HandleNotFoundError",
    "LimitReachedError",
    "RateLimitedError",
    "UnauthenticatedError",
    "UnauthenticatedReason",
]

UnauthenticatedReason = Literal[
    "missing", "malformed", "unknown", "expired", "revoked", "invalid", "unavailable"
]
"""Why a credential was not accepted."""


class UnauthenticatedError(PegboardError, PermissionError):
    """The credential is missing or was not accepted; ``reason`` says why in one word."""

    code: ClassVar[str] = "unauthenticated"

    def __init__(self, message: str, *, reason: UnauthenticatedReason) -> None:
        super().__init__(message)
        self.reason: UnauthenticatedReason = reason


class ApiKeyNotFoundError(PegboardError, KeyError):
    """No API key has that id."""

    code: ClassVar[str] = "api_key_not_found"

    def __init__(self, key: object) -> None:
        super().__init__(
            f"No API key has the id {shorten(key)}. `pegboard keys list` shows all keys."
        )
        self.key = key


class RateLimitedError(CallRefusedError, RuntimeError):
    """The caller exceeded its rate limit; it may call again after ``retry_after`` seconds."""

    code: ClassVar[str] = "rate_limited"
    transient: ClassVar[bool] = True

    def __init__(self, message: str, *, tool: str = "", retry_after: float) -> None:
        super().__init__(message, tool=tool)
        self.retry_after = retry_after


class LimitReachedError(CallRefusedError, RuntimeError):
    """The caller holds its share of a limit that all callers share; ``setting`` names the limit.

    ``retry_after`` is in seconds; ``None`` if waiting does not help.
    """

    code: ClassVar[str] = "limit_reached"
    transient: ClassVar[bool] = True

    def __init__(
        self, message: str, *, setting: str, tool: str = "", retry_after: float | None = None
    ) -> None:
        super().__init__(message, tool=tool)
        self.setting = setting
        self.retry_after = retry_after


class HandleNotFoundError(PegboardError, KeyError):
    """No result has that handle: it has expired, or another caller's call produced it."""

    code: ClassVar[str] = "handle_not_found"

    def __init__(self, handle: object) -> None:
        super().__init__(
            f"No result has the handle {shorten(handle)}. A result is cached for some minutes, and "
            "only for the caller that made the call. Call the tool again."
        )
        self.handle = handle
