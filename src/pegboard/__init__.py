"""Pegboard: every MCP server and every tool on one board.

Names are imported when they are first used, so that `import pegboard` costs next to nothing.
"""

from importlib import import_module

# The checkers know this name; importing `typing` for it would double the cost of this file.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from pegboard.config import ServerConfig, Timeouts
    from pegboard.errors import (
        AccessDeniedError,
        CallRefusedError,
        CircuitOpenError,
        ConfigError,
        ConnectionLostError,
        ForkedProcessError,
        InvalidArgumentsError,
        InvalidPatternError,
        InvalidPlanError,
        InvalidQueryError,
        InvalidToolError,
        NotConnectedError,
        NotImplementedToolError,
        PegboardError,
        ProtocolError,
        QueueFullError,
        RevisionConflictError,
        SearchDataError,
        SearcherNotFoundError,
        ServerAuthenticationError,
        ServerNotFoundError,
        ServerTimeoutError,
        ServerUnavailableError,
        StorageError,
        StoreDamagedError,
        StoreUnavailableError,
        StoreVersionError,
        TaskCancelledError,
        TaskError,
        TaskLostError,
        TaskTimeoutError,
        ToolConflictError,
        ToolDisabledError,
        ToolExecutionError,
        ToolNotFoundError,
        ToolTimeoutError,
        UnsupportedResultError,
        UntrustedAddressError,
        UpstreamError,
        Violation,
        WouldDeadlockError,
    )
    from pegboard.hub import Hub, SyncHub
    from pegboard.model import (
        Annotations,
        Audio,
        CallRecord,
        CatalogChange,
        EmbeddedResource,
        Image,
        Other,
        ResourceContents,
        ResourceLink,
        Temperature,
        Text,
        Tool,
        ToolCall,
        ToolResult,
        Usage,
    )
    from pegboard.policies import Access, Concurrency, Deadline, Retry, Telemetry, Validation
    from pegboard.registry import (
        FunctionTool,
        Registration,
        Registry,
        Rejection,
        StepResult,
        arun_plan,
        run_plan,
        tool,
    )
    from pegboard.search import Hit, Match, Query, Searcher, SearchOptions, SearchResponse
    from pegboard.storage import Store, open_store
    from pegboard.toolsets import Toolset
    from pegboard.upstream import ServerState, ServerStatus

    __version__: str

# From the lowest layer up: looking for a name never imports more than the name itself needs.
_HOMES = (
    *("errors", "model", "config", "storage", "search", "policies", "registry"),
    *("toolsets", "upstream", "hub"),
)

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "Access",
    "AccessDeniedError",
    "Annotations",
    "Audio",
    "CallRecord",
    "CallRefusedError",
    "CatalogChange",
    "CircuitOpenError",
    "Concurrency",
    "ConfigError",
    "ConnectionLostError",
    "Deadline",
    "EmbeddedResource",
    "ForkedProcessError",
    "FunctionTool",
    "Hit",
    "Hub",
    "Image",
    "InvalidArgumentsError",
    "InvalidPatternError",
    "InvalidPlanError",
    "InvalidQueryError",
    "InvalidToolError",
    "Match",
    "NotConnectedError",
    "NotImplementedToolError",
    "Other",
    "PegboardError",
    "ProtocolError",
    "Query",
    "QueueFullError",
    "Registration",
    "Registry",
    "Rejection",
    "ResourceContents",
    "ResourceLink",
    "Retry",
    "RevisionConflictError",
    "SearchDataError",
    "SearchOptions",
    "SearchResponse",
    "Searcher",
    "SearcherNotFoundError",
    "ServerAuthenticationError",
    "ServerConfig",
    "ServerNotFoundError",
    "ServerState",
    "ServerStatus",
    "ServerTimeoutError",
    "ServerUnavailableError",
    "StepResult",
    "StorageError",
    "Store",
    "StoreDamagedError",
    "StoreUnavailableError",
    "StoreVersionError",
    "SyncHub",
    "TaskCancelledError",
    "TaskError",
    "TaskLostError",
    "TaskTimeoutError",
    "Telemetry",
    "Temperature",
    "Text",
    "Timeouts",
    "Tool",
    "ToolCall",
    "ToolConflictError",
    "ToolDisabledError",
    "ToolExecutionError",
    "ToolNotFoundError",
    "ToolResult",
    "ToolTimeoutError",
    "Toolset",
    "UnsupportedResultError",
    "UntrustedAddressError",
    "UpstreamError",
    "Usage",
    "Validation",
    "Violation",
    "WouldDeadlockError",
    "__version__",
    "arun_plan",
    "open_store",
    "run_plan",
    "tool",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("pegboard.version").installed_version()
    if name in __all__:
        for home in _HOMES:
            module = import_module(f"pegboard.{home}")
            if name in module.__all__:
                value = globals()[name] = getattr(module, name)
                return value
    raise AttributeError(f"module 'pegboard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
