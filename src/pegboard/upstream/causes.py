"""What is behind an error of a server: the failure of an exchange, as far as it was one."""

from collections.abc import Iterator
from typing import cast

from mcp import MCPError

from pegboard.upstream.failures import Failure, failure_of

__all__ = ["failure_behind"]

_DEEPEST = 20


def failure_behind(error: BaseException) -> Failure | None:
    """Return the failure that became this error: its kind, and the status of an HTTP answer."""
    for cause in _causes(error):
        if isinstance(cause, MCPError):
            failure = failure_of(cause.error)
            if failure is not None:
                return failure
    return None


def _causes(error: BaseException, depth: int = 0) -> Iterator[BaseException]:
    if depth == _DEEPEST:
        return
    yield error
    if isinstance(error, BaseExceptionGroup):
        for inner in cast("BaseExceptionGroup[BaseException]", error).exceptions:
            yield from _causes(inner, depth + 1)
    before = error.__cause__ or error.__context__
    if before is not None:
        yield from _causes(before, depth + 1)
