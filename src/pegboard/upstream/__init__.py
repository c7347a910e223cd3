"""Upstreams: everything about the servers we call.

Names are imported when they are first used: some modules need no MCP SDK, and commands that use
only those are there at once.
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
    from pegboard.upstream.connection import (
        Connection,
        Era,
        Negotiated,
        ServerState,
    )
    from pegboard.upstream.events import (
        ElicitationCompleted,
        OnServerEvent,
        PromptsChanged,
        ResourcesChanged,
        ResourceUpdated,
        ServerDown,
        ServerEvent,
        ServerUp,
    )
    from pegboard.upstream.memory import CatalogMemory, FileMemory, NoMemory, Remembered
    from pegboard.upstream.questions import (
        ALL_KINDS,
        Question,
        QuestionKind,
        QuestionRefusedError,
        Questions,
    )
    from pegboard.upstream.server import Board, ServerStatus, UpstreamServer
    from pegboard.upstream.store_memory import StoreMemory
    from pegboard.upstream.supervisor import Supervisor

__all__ = [
    "ALL_KINDS",
    "Board",
    "CallContext",
    "CatalogMemory",
    "Connection",
    "ElicitationCompleted",
    "Era",
    "FileMemory",
    "LogLevel",
    "Negotiated",
    "NoMemory",
    "OnLog",
    "OnProgress",
    "OnServerEvent",
    "PromptsChanged",
    "Question",
    "QuestionKind",
    "QuestionRefusedError",
    "Questions",
    "Remembered",
    "ResourceUpdated",
    "ResourcesChanged",
    "ServerDown",
    "ServerEvent",
    "ServerState",
    "ServerStatus",
    "ServerUp",
    "StoreMemory",
    "Supervisor",
    "UpstreamServer",
    "context_of_call",
]

_HOMES = {
    "ALL_KINDS": "questions",
    "Board": "server",
    "CallContext": "call_context",
    "CatalogMemory": "memory",
    "Connection": "connection",
    "ElicitationCompleted": "events",
    "Era": "connection",
    "FileMemory": "memory",
    "LogLevel": "call_context",
    "Negotiated": "connection",
    "NoMemory": "memory",
    "OnLog": "call_context",
    "OnProgress": "call_context",
    "OnServerEvent": "events",
    "PromptsChanged": "events",
    "Question": "questions",
    "QuestionKind": "questions",
    "QuestionRefusedError": "questions",
    "Questions": "questions",
    "Remembered": "memory",
    "ResourceUpdated": "events",
    "ResourcesChanged": "events",
    "ServerDown": "events",
    "ServerEvent": "events",
    "ServerState": "connection",
    "ServerStatus": "server",
    "ServerUp": "events",
    "StoreMemory": "store_memory",
    "Supervisor": "supervisor",
    "UpstreamServer": "server",
    "context_of_call": "call_context",
}

__getattr__: Lookup
__dir__: Listing
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
