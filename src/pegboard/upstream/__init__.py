"""Upstreams: everything about the servers we call."""

from pegboard.upstream.connection import (
    Connection,
    Era,
    Negotiated,
    OnProgress,
    ServerState,
)
from pegboard.upstream.memory import CatalogMemory, FileMemory, NoMemory, Remembered
from pegboard.upstream.questions import Question, Questions
from pegboard.upstream.server import Board, ServerStatus, UpstreamServer, progress_of_call
from pegboard.upstream.store_memory import StoreMemory
from pegboard.upstream.supervisor import Supervisor

__all__ = [
    "Board",
    "CatalogMemory",
    "Connection",
    "Era",
    "FileMemory",
    "Negotiated",
    "NoMemory",
    "OnProgress",
    "Question",
    "Questions",
    "Remembered",
    "ServerState",
    "ServerStatus",
    "StoreMemory",
    "Supervisor",
    "UpstreamServer",
    "progress_of_call",
]
