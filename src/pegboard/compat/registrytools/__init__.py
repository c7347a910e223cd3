"""RegistryTools's API: metadata of tools, their storage, and search."""

from pegboard.compat.registrytools.algorithms import (
    BM25Search,
    EmbeddingSearch,
    HybridSearch,
    RegexSearch,
    SearchAlgorithm,
    SearchMethod,
    ToolSearchResult,
)
from pegboard.compat.registrytools.metadata import ToolMetadata, ToolTemperature
from pegboard.compat.registrytools.storage import JSONStorage, SQLiteStorage, ToolStorage
from pegboard.compat.registrytools.tool_registry import ToolRegistry

__all__ = [
    "BM25Search",
    "EmbeddingSearch",
    "HybridSearch",
    "JSONStorage",
    "RegexSearch",
    "SQLiteStorage",
    "SearchAlgorithm",
    "SearchMethod",
    "ToolMetadata",
    "ToolRegistry",
    "ToolSearchResult",
    "ToolStorage",
    "ToolTemperature",
]
