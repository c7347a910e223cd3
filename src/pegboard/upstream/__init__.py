"""Upstreams: everything about the servers we call."""

from pegboard.upstream.call_context import CallContext, LogLevel, OnLog, OnProgress, context_of_call
from pegboard.upstream.connection import (
    Connection,
    Era,
    Negotiated,
    ServerState,
)
from pegboard.upstream.events import (
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
