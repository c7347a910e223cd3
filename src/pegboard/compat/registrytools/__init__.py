"""RegistryTools's API: metadata of tools, their storage, and search."""

from pegboard.compat.registrytools.algorithms import (
    DEFAULT_SEARCH_METHOD,
    SUPPORTED_SEARCH_METHODS,
    BM25Search,
    EmbeddingSearch,
    EmbeddingSearchLazyLoader,
    HybridSearch,
    RegexSearch,
    SearchAlgorithm,
    SearchMethod,
    ToolSearchResult,
    get_supported_search_methods,
)
from pegboard.compat.registrytools.metadata import (
    ENABLE_DOWNGRADE,
    HOT_TOOL_INACTIVE_DAYS,
    HOT_TOOL_THRESHOLD,
    MAX_HOT_TOOLS_PRELOAD,
    WARM_TOOL_INACTIVE_DAYS,
    WARM_TOOL_THRESHOLD,
    StorageBackend,
    ToolMetadata,
    ToolTemperature,
)
from pegboard.compat.registrytools.storage import JSONStorage, SQLiteStorage, ToolStorage
from pegboard.compat.registrytools.tool_registry import ToolRegistry

__all__ = [
    "DEFAULT_SEARCH_METHOD",
    "ENABLE_DOWNGRADE",
    "HOT_TOOL_INACTIVE_DAYS",
    "HOT_TOOL_THRESHOLD",
    "MAX_HOT_TOOLS_PRELOAD",
    "SUPPORTED_SEARCH_METHODS",
    "WARM_TOOL_INACTIVE_DAYS",
    "WARM_TOOL_THRESHOLD",
    "BM25Search",
    "EmbeddingSearch",
    "EmbeddingSearchLazyLoader",
    "HybridSearch",
    "JSONStorage",
    "RegexSearch",
    "SQLiteStorage",
    "SearchAlgorithm",
    "SearchMethod",
    "StorageBackend",
    "ToolMetadata",
    "ToolRegistry",
    "ToolSearchResult",
    "ToolStorage",
    "ToolTemperature",
    "get_supported_search_methods",
]
