import pickle

import pytest

from pegboard import (
    AccessDeniedError,
    CallRefusedError,
    InvalidArgumentsError,
    InvalidPlanError,
    InvalidToolError,
    NotImplementedToolError,
    PegboardError,
    QueueFullError,
    ToolConflictError,
    ToolDisabledError,
    ToolExecutionError,
    ToolNotFoundError,
    ToolTimeoutError,
    Violation,
    WouldDeadlockError,
    errors,
)

EXAMPLES: dict[PegboardError, tuple[type[Exception], ...]] = {
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
    ToolTimeoutError("t", seconds=1.5): (TimeoutError,),
    ToolExecutionError("m", result=3): (RuntimeError,),
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
