"""Upstream: connections to MCP servers, their tools, and their processes.

Names are imported when they are first used: some modules need no MCP SDK, and commands that use
only those start faster.
"""

from typing import TYPE_CHECKING

from pegboard.lazy_names import Listing, Lookup, lazy_names

if TYPE_CHECKING:
    from pegboard.upstream.call_context import (
        CallContext,
        LogLevel,
        OnLog,
        OnProgress,
        context_of_call,
    )
    from pegboard.upstream.catalog.cache import (
        CachedCatalog,
        CatalogCache,
        FileCatalogCache,
        NoCatalogCache,
        StoreCatalogCache,
    )
    from pegboard.upstream.connection import Era, Negotiated, ServerState
    from pegboard.upstream.connections.stateful import StatefulConnection
    from pegboard.upstream.events import (
        ChangedDefinition,
        DefinitionsChanged,
        ElicitationCompleted,
        OnServerEvent,
        PromptsChanged,
        ResourcesChanged,
        ResourceUpdated,
        ServerDown,
        ServerEvent,
        ServerLogger,
        ServerNote,
        ServerUp,
    )
    from pegboard.upstream.server import Board, UpstreamServer
    from pegboard.upstream.server_requests import (
        ALL_KINDS,
        Question,
        QuestionKind,
        QuestionRefusedError,
        Questions,
    )
    from pegboard.upstream.server_status import ServerStatus
    from pegboard.upstream.supervisor import Supervisor

__all__ = [
    "ALL_KINDS",
    "Board",
    "CachedCatalog",
    "CallContext",
    "CatalogCache",
    "ChangedDefinition",
    "DefinitionsChanged",
    "ElicitationCompleted",
    "Era",
    "FileCatalogCache",
    "LogLevel",
    "Negotiated",
    "NoCatalogCache",
    "OnLog",
    "OnProgress",
    "OnServerEvent",
    "PromptsChanged",
    "Question",
    "QuestionKind",
    "QuestionRefusedError",
    "Questions",
    "ResourceUpdated",
    "ResourcesChanged",
    "ServerDown",
    "ServerEvent",
    "ServerLogger",
    "ServerNote",
    "ServerState",
    "ServerStatus",
    "ServerUp",
    "StatefulConnection",
    "StoreCatalogCache",
    "Supervisor",
    "UpstreamServer",
    "context_of_call",
]

_HOMES = {
    "ALL_KINDS": "server_requests",
    "Board": "server",
    "CallContext": "call_context",
    "CatalogCache": "catalog.cache",
    "ChangedDefinition": "events",
    "DefinitionsChanged": "events",
    "ElicitationCompleted": "events",
    "Era": "connection",
    "FileCatalogCache": "catalog.cache",
    "LogLevel": "call_context",
    "Negotiated": "connection",
    "NoCatalogCache": "catalog.cache",
    "OnLog": "call_context",
    "OnProgress": "call_context",
    "OnServerEvent": "events",
    "PromptsChanged": "events",
    "Question": "server_requests",
    "QuestionKind": "server_requests",
    "QuestionRefusedError": "server_requests",
    "Questions": "server_requests",
    "CachedCatalog": "catalog.cache",
    "ResourceUpdated": "events",
    "ResourcesChanged": "events",
    "ServerDown": "events",
    "ServerEvent": "events",
    "ServerLogger": "events",
    "ServerNote": "events",
    "ServerState": "connection",
    "ServerStatus": "server_status",
    "ServerUp": "events",
    "StatefulConnection": "connections.stateful",
    "StoreCatalogCache": "catalog.cache",
    "Supervisor": "supervisor",
    "UpstreamServer": "server",
    "context_of_call": "call_context",
}

__getattr__: Lookup
__dir__: Listing
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
