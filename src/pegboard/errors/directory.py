"""Errors of MCP registries: unavailable, malformed, not found, not supported, not allowed."""

from typing import ClassVar

from pegboard.errors.root import Outcome, PegboardError, shorten

__all__ = [
    "DirectoryEntryNotFoundError",
    "DirectoryError",
    "DirectoryResponseError",
    "DirectoryUnavailableError",
    "ServerNotAllowedError",
    "UnsupportedPackageError",
]


class DirectoryError(PegboardError):
    """An MCP registry, or one of its entries, cannot be used; ``registry`` is its URL."""

    code: ClassVar[str] = "registry"
    outcome: ClassVar[Outcome] = "raised"

    def __init__(self, message: str, *, registry: str = "") -> None:
        super().__init__(message)
        self.registry = registry


class DirectoryUnavailableError(DirectoryError, ConnectionError):
    """The MCP registry could not be reached, and the cache has no answer either."""

    code: ClassVar[str] = "registry_unavailable"
    transient: ClassVar[bool] = True


class DirectoryResponseError(DirectoryError, ValueError):
    """The MCP registry answered with something that is not what its API promises."""

    code: ClassVar[str] = "registry_response"


class DirectoryEntryNotFoundError(DirectoryError, KeyError):
    """The MCP registry has no server of that name, or not that version of it."""

    code: ClassVar[str] = "registry_entry_not_found"

    def __init__(self, name: str, *, version: str = "", registry: str = "") -> None:
        what = f"version {shorten(version)} of {shorten(name)}" if version else shorten(name)
        where = f"The registry {registry}" if registry else "The cache"
        super().__init__(f"{where} does not have {what}.", registry=registry)
        self.name = name
        self.version = version


class UnsupportedPackageError(DirectoryError):
    """The entry of a server offers nothing that Pegboard can run or reach safely."""

    code: ClassVar[str] = "unsupported_package"


class ServerNotAllowedError(DirectoryError, PermissionError):
    """The lists of the configuration (`registry.allow`, `deny`) do not allow this server."""

    code: ClassVar[str] = "server_not_allowed"
    outcome: ClassVar[Outcome] = "refused"
