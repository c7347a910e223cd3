"""MCP registries: find a server, and turn its entry into configuration; not the board of tools."""

from pegboard.directory.directory import (
    LATEST,
    OFFICIAL_REGISTRY,
    FoundServers,
    LookedUp,
    ServerDirectory,
)
from pegboard.directory.response_cache import ResponseCache
from pegboard.directory.server_json import DirectoryEntry

__all__ = [
    "LATEST",
    "OFFICIAL_REGISTRY",
    "DirectoryEntry",
    "FoundServers",
    "LookedUp",
    "ResponseCache",
    "ServerDirectory",
]
