"""Answers of servers that are no answers: one error for them all."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from pegboard.config import ServerConfig
from pegboard.errors import ProtocolError

__all__ = ["reading_answer", "shown_target"]


def shown_target(config: Callable[[], ServerConfig]) -> str:
    """Return what the server is, in one line without secrets; a mark if it is unusable."""
    try:
        return config().target
    except Exception:  # noqa: BLE001 - a repr must not fail, nor show what it does not understand
        return "<unusable>"


@contextmanager
def reading_answer(*, server: str, tool: str) -> Generator[None]:
    """Blame the server for what cannot be read inside of the context.

    Raises:
        ProtocolError: instead of a TypeError or ValueError.
    """
    try:
        yield
    except (TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise ProtocolError(
            f"Server {server!r} answered with something that is no result: {reason}.",
            server=server,
            tool=tool,
        ) from error
