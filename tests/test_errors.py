import pickle

import pytest

from pegboard import (
    AccessDeniedError,
    CallRefusedError,
    CircuitOpenError,
    ConfigError,
    ConnectionLostError,
    InvalidArgumentsError,
    InvalidPlanError,
    InvalidToolError,
    NotConnectedError,
    NotImplementedToolError,
    PegboardError,
    ProtocolError,
    QueueFullError,
    RevisionConflictError,
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
    errors,
)
from pegboard.errors import (
    ApiKeyNotFoundError,
    DirectoryEntryNotFoundError,
    DirectoryError,
    DirectoryResponseError,
    DirectoryUnavailableError,
    ForkedProcessError,
    HandleNotFoundError,
    InvalidPatternError,
    InvalidQueryError,
    LimitReachedError,
    RateLimitedError,
    SearchDataError,
    SearcherNotFoundError,
    ServerNotAllowedError,
    SkillIntegrityError,
    SkillNotFoundError,
    UnauthenticatedError,
    UnsupportedPackageError,
)

EXAMPLES: dict[PegboardError, tuple[type[Exception], ...]] = {
    ForkedProcessError("registry"): (RuntimeError,),
    InvalidToolError("m"): (TypeError,),
    ToolConflictError("t"): (ValueError,),
    ToolNotFoundError("t", nearest=["u"]): (KeyError, ValueError),
    InvalidPlanError(1, "is odd."): (ValueError,),
    CallRefusedError("m", tool="t"): (),
    AccessDeniedError("m", tool="t"): (PermissionError, CallRefusedError),
    ToolDisabledError("t", groups=["g"]): (RuntimeError, CallRefusedError),
    NotImplementedToolError("t"): (RuntimeError, CallRefusedError),
    InvalidArgumentsError("t", [Violation("p", "m")]): (ValueError, CallRefusedError),
    QueueFullError("t", limit=1, queue=2): (RuntimeError, CallRefusedError),
    WouldDeadlockError("t"): (RuntimeError, CallRefusedError),
    RateLimitedError("m", tool="t", retry_after=1.5): (RuntimeError, CallRefusedError),
    LimitReachedError("m", setting="gateway.x", retry_after=1.5): (RuntimeError, CallRefusedError),
    UnauthenticatedError("m", reason="expired"): (PermissionError,),
    HandleNotFoundError("h"): (KeyError,),
    ApiKeyNotFoundError("k"): (KeyError,),
    ToolTimeoutError("t", seconds=1.5): (TimeoutError,),
    ToolExecutionError("m", result=3): (RuntimeError,),
    ConfigError("m", path="mcp.json", line=3, column=7): (ValueError,),
    ServerNotFoundError("s", known=["t"]): (KeyError, ValueError),
    InvalidQueryError("m", option="limit"): (ValueError,),
    InvalidPatternError("(", "missing )", position=0): (InvalidQueryError,),
    SearcherNotFoundError("m", known=["n"]): (InvalidQueryError, KeyError),
    SearchDataError("m"): (RuntimeError,),
    SkillNotFoundError("s", nearest=["t"]): (KeyError, ValueError),
    SkillIntegrityError("m", server="s", skill="u", uri="v"): (UpstreamError, RuntimeError),
    StorageError("m", url="u"): (),
    StoreUnavailableError("m", url="u"): (StorageError, OSError),
    StoreDamagedError("m.", url="u", remedy="r", line=1, column=2): (StorageError, ValueError),
    StoreVersionError(url="u", found=9, known=1): (StorageError,),
    RevisionConflictError("k", url="u", expected=None, found=2): (StorageError,),
    DirectoryError("m", registry="r"): (),
    DirectoryUnavailableError("m", registry="r"): (DirectoryError, ConnectionError),
    DirectoryResponseError("m", registry="r"): (DirectoryError, ValueError),
    DirectoryEntryNotFoundError("n", version="1", registry="r"): (DirectoryError, KeyError),
    UnsupportedPackageError("m", registry="r"): (DirectoryError,),
    ServerNotAllowedError("m", registry="r"): (DirectoryError, PermissionError),
    UpstreamError("m", server="s"): (),
    ServerUnavailableError("m", server="s", tool="t"): (UpstreamError, ConnectionError),
    ServerTimeoutError("m", server="s"): (ServerUnavailableError, TimeoutError),
    CircuitOpenError("m", server="s", retry_in=3.5): (ServerUnavailableError,),
    ServerAuthenticationError("m", server="s"): (ServerUnavailableError, PermissionError),
    UntrustedAddressError("m", server="s", host="h"): (ServerAuthenticationError,),
    NotConnectedError("m", server="s"): (UpstreamError, RuntimeError),
    ConnectionLostError("m", server="s"): (UpstreamError, ConnectionError),
    TaskError("m", server="s", tool="t", task="k"): (UpstreamError,),
    TaskLostError("m", server="s", task="k"): (TaskError, LookupError),
    TaskCancelledError("m", server="s", task="k"): (TaskError, RuntimeError),
    TaskTimeoutError("m", server="s", task="k"): (TaskError, TimeoutError),
    ProtocolError("m", server="s", rpc_code=-1, data={}): (UpstreamError, RuntimeError),
    UnsupportedResultError("m", server="s", result_type="task"): (ProtocolError,),
}


def test_every_error_has_an_example() -> None:
    kinds = {name for name in errors.__all__ if name.endswith("Error")}
    assert {type(error).__name__ for error in EXAMPLES} | {"PegboardError"} == kinds


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda it: type(it).__name__)
def test_every_error_is_also_what_one_would_expect_and_survives_pickling(
    error: PegboardError,
) -> None:
    for parent in EXAMPLES[error]:
        assert isinstance(error, parent)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.__dict__ == error.__dict__


def test_an_error_in_a_file_says_where() -> None:
    assert str(ConfigError("It is odd.", path="mcp.json", line=3, column=7)) == (
        "mcp.json:3:7: It is odd."
    )
    assert str(ConfigError("It is odd.")) == "It is odd."


def test_only_what_was_certainly_not_sent_counts_as_transient() -> None:
    for error in EXAMPLES:
        assert not (error.transient and error.sent), error
