"""The whole error tree of Pegboard.

    PegboardError
    ├── ForkedProcessError       RuntimeError    a forked child used what its parent opened
    ├── InvalidToolError         TypeError       what was registered is not a tool
    ├── ToolConflictError        ValueError      the name is taken
    ├── ToolNotFoundError        KeyError, ValueError
    ├── InvalidPlanError         ValueError      a plan step is malformed
    ├── CallRefusedError                         the call never reached the tool
    │   ├── AccessDeniedError    PermissionError an access list forbids it
    │   ├── ToolDisabledError    RuntimeError    one of its groups is switched off
    │   ├── NotImplementedToolError RuntimeError only a definition is registered
    │   ├── InvalidArgumentsError ValueError     the arguments break the input schema
    │   ├── QueueFullError       RuntimeError    too many calls run and wait already
    │   ├── WouldDeadlockError   RuntimeError    a blocking call on the loop that must do the work
    │   └── RateLimitedError     RuntimeError    somebody calls more often than they may
    ├── ToolTimeoutError         TimeoutError    the deadline passed
    ├── ToolExecutionError       RuntimeError    the tool reported its own failure
    ├── AuthenticationFailedError PermissionError nobody knows who asks
    ├── ApiKeyNotFoundError      KeyError        no API key has that id
    ├── HandleNotFoundError      KeyError        no result is kept under that handle
    ├── ConfigError              ValueError      a configuration file cannot be used
    ├── ServerNotFoundError      KeyError, ValueError
    ├── InvalidQueryError        ValueError      what is searched for cannot be searched for
    │   ├── InvalidPatternError                  the regular expression is none, or not a linear one
    │   └── SearcherNotFoundError KeyError       no search method has that name
    ├── SearchDataError          RuntimeError    the table of words is missing or damaged
    ├── StorageError                             what is to be kept was not kept, or cannot be read
    │   ├── StoreUnavailableError OSError        no disk space, no permission, no server
    │   ├── StoreDamagedError    ValueError      not what was written; it is left as it is
    │   ├── StoreVersionError                    written by a newer Pegboard; it is left as it is
    │   └── RevisionConflictError                somebody else wrote first
    └── UpstreamError                            a server could not do its part
        ├── ServerUnavailableError ConnectionError it cannot be started or reached; nothing was sent
        │   ├── ServerTimeoutError TimeoutError  it did not answer while connecting or listing
        │   ├── CircuitOpenError                 it failed too often and is left alone for a while
        │   └── AuthenticationError PermissionError it wants other credentials
        ├── NotConnectedError    RuntimeError    nobody connected, or somebody closed
        ├── ConnectionLostError  ConnectionError it went away in mid-call; the tool may have run
        └── ProtocolError        RuntimeError    it answered with an error, or with nonsense

A tool's own exception is never wrapped: it reaches the caller as it was raised.
Each class has a ``code`` for records and protocols. ``sent`` says whether the tool may have been
started, so that a caller knows whether repeating the call is safe.
"""

from pegboard.errors.calls import (
    AccessDeniedError,
    CallRefusedError,
    InvalidArgumentsError,
    InvalidPlanError,
    InvalidToolError,
    NotImplementedToolError,
    QueueFullError,
    ToolConflictError,
    ToolDisabledError,
    ToolExecutionError,
    ToolNotFoundError,
    ToolTimeoutError,
    Violation,
    WouldDeadlockError,
)
from pegboard.errors.gateway import (
    ApiKeyNotFoundError,
    HandleNotFoundError,
    RateLimitedError,
    UnauthenticatedError,
    UnauthenticatedReason,
)
from pegboard.errors.root import ForkedProcessError, Outcome, PegboardError
from pegboard.errors.searching import (
    InvalidPatternError,
    InvalidQueryError,
    SearchDataError,
    SearcherNotFoundError,
)
from pegboard.errors.servers import (
    CircuitOpenError,
    ConfigError,
    ConnectionLostError,
    NotConnectedError,
    ProtocolError,
    ServerAuthenticationError,
    ServerNotFoundError,
    ServerTimeoutError,
    ServerUnavailableError,
    UpstreamError,
)
from pegboard.errors.stores import (
    RevisionConflictError,
    StorageError,
    StoreDamagedError,
    StoreUnavailableError,
    StoreVersionError,
)

__all__ = [
    "AccessDeniedError",
    "ApiKeyNotFoundError",
    "CallRefusedError",
    "CircuitOpenError",
    "ConfigError",
    "ConnectionLostError",
    "ForkedProcessError",
    "HandleNotFoundError",
    "InvalidArgumentsError",
    "InvalidPatternError",
    "InvalidPlanError",
    "InvalidQueryError",
    "InvalidToolError",
    "NotConnectedError",
    "NotImplementedToolError",
    "Outcome",
    "PegboardError",
    "ProtocolError",
    "QueueFullError",
    "RateLimitedError",
    "RevisionConflictError",
    "SearchDataError",
    "SearcherNotFoundError",
    "ServerAuthenticationError",
    "ServerNotFoundError",
    "ServerTimeoutError",
    "ServerUnavailableError",
    "StorageError",
    "StoreDamagedError",
    "StoreUnavailableError",
    "StoreVersionError",
    "ToolConflictError",
    "ToolDisabledError",
    "ToolExecutionError",
    "ToolNotFoundError",
    "ToolTimeoutError",
    "UnauthenticatedError",
    "UnauthenticatedReason",
    "UpstreamError",
    "Violation",
    "WouldDeadlockError",
]  # fmt: skip

# People read and import them from here, so that is what a traceback says.
for _kind in [globals()[name] for name in __all__]:
    if isinstance(_kind, type):
        _kind.__module__ = __name__
