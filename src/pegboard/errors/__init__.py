"""Every error that Pegboard raises: the whole tree of exceptions, with their codes.

    PegboardError
    ├── ForkedProcessError       RuntimeError    a forked child used what its parent opened
    ├── InvalidToolError         TypeError       the registered object is not a tool
    ├── ToolConflictError        ValueError      the name is taken
    ├── ToolNotFoundError        KeyError, ValueError  no tool has that name
    ├── InvalidPlanError         ValueError      a step of a plan is malformed
    ├── CallRefusedError                         the call never reached the tool
    │   ├── AccessDeniedError    PermissionError an access list forbids it
    │   ├── ToolDisabledError    RuntimeError    one of its groups is switched off
    │   ├── NotImplementedToolError RuntimeError the tool is registered as a definition only
    │   ├── InvalidArgumentsError ValueError     the arguments break the input schema
    │   ├── QueueFullError       RuntimeError    too many calls run and wait already
    │   ├── WouldDeadlockError   RuntimeError    a blocking call on the loop that must do the work
    │   ├── RateLimitedError     RuntimeError    the caller exceeds its rate limit
    │   └── LimitReachedError    RuntimeError    the caller holds its share of a common limit
    ├── ToolTimeoutError         TimeoutError    the deadline passed
    ├── ToolExecutionError       RuntimeError    the tool reported its own failure
    ├── UnauthenticatedError     PermissionError the credential is missing or not accepted
    ├── ApiKeyNotFoundError      KeyError        no API key has that id
    ├── HandleNotFoundError      KeyError        no cached result has that handle
    ├── ConfigError              ValueError      a configuration file cannot be used
    ├── ServerNotFoundError      KeyError, ValueError  no server has that name
    ├── InvalidQueryError        ValueError      the search query cannot be used
    │   ├── InvalidPatternError                  the regular expression is invalid or unsupported
    │   └── SearcherNotFoundError KeyError       no search method has that name
    ├── SearchDataError          RuntimeError    the word table is missing or damaged
    ├── StorageError                             the store could not be read or written
    │   ├── StoreUnavailableError OSError        no disk space, no permission, no server
    │   ├── StoreDamagedError    ValueError      the store is damaged; it is left as it is
    │   ├── StoreVersionError                    written by a newer Pegboard; it is left as it is
    │   └── RevisionConflictError                another process or thread wrote first
    └── UpstreamError                            a server could not do its part
        ├── ServerUnavailableError ConnectionError it cannot be started or reached; nothing was sent
        │   ├── ServerTimeoutError TimeoutError  it did not answer while connecting or listing
        │   ├── CircuitOpenError                 it failed too often; its circuit breaker is open
        │   └── ServerAuthenticationError PermissionError it does not accept the credentials
        │       └── UntrustedAddressError        its login leads to an address that is not trusted
        ├── NotConnectedError    RuntimeError    it is not connected yet, or not any more
        ├── ConnectionLostError  ConnectionError it went away in mid-call; the tool may have run
        ├── TaskError                        the task it made of a call ended without a result
        │   ├── TaskLostError    LookupError     it does not know the task any more
        │   ├── TaskCancelledError RuntimeError  the task was cancelled
        │   └── TaskTimeoutError TimeoutError    the task did not end in time
        └── ProtocolError        RuntimeError    it answered with an error, or not as MCP requires
            └── UnsupportedResultError           its result has a type that Pegboard does not carry

Pegboard never wraps a tool's own exception: it reaches the caller as it was raised.
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
    LimitReachedError,
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
    TaskCancelledError,
    TaskError,
    TaskLostError,
    TaskTimeoutError,
    UnsupportedResultError,
    UntrustedAddressError,
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
    "LimitReachedError",
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
    "TaskCancelledError",
    "TaskError",
    "TaskLostError",
    "TaskTimeoutError",
    "ToolConflictError",
    "ToolDisabledError",
    "ToolExecutionError",
    "ToolNotFoundError",
    "ToolTimeoutError",
    "UnauthenticatedError",
    "UnauthenticatedReason",
    "UnsupportedResultError",
    "UntrustedAddressError",
    "UpstreamError",
    "Violation",
    "WouldDeadlockError",
]  # fmt: skip

# Users import the errors from here, so a traceback names this module.
for _kind in [globals()[name] for name in __all__]:
    if isinstance(_kind, type):
        _kind.__module__ = __name__
