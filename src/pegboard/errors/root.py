"""PegboardError, the base class of every error, and the error of a forked child process."""

from typing import Any, ClassVar, Literal

__all__ = ["LISTED", "ForkedProcessError", "Outcome", "PegboardError", "shorten"]

Outcome = Literal["ok", "tool_error", "raised", "refused", "timeout", "cancelled"]
"""How a call ended."""

LISTED = 100
"""The most names or violations that a message lists."""


class PegboardError(Exception):
    """The base class of every error that Pegboard itself raises."""

    code: ClassVar[str] = "error"
    outcome: ClassVar[Outcome] = "refused"
    transient: ClassVar[bool] = False
    """True when the tool was certainly not started and the same call may soon succeed."""
    sent: bool = False
    tool: str = ""
    """The tool that the error is about; a tool that calls other tools may pass on their errors."""

    def __str__(self) -> str:
        # KeyError would show the repr of the message.
        return str(self.args[0]) if self.args else type(self).__name__

    def __reduce__(self) -> tuple[Any, ...]:
        # Not by calling the class again: its parameters are not its `args`.
        return _restore, (type(self), self.args, self.__dict__)


class ForkedProcessError(PegboardError, RuntimeError):
    """A forked child used a registry, a hub or a store of its parent; nothing was done.

    ``owner`` says what it used.
    """

    code: ClassVar[str] = "forked_process"

    def __init__(self, owner: str) -> None:
        super().__init__(
            f"This {owner} belongs to the process that opened it: open it in the child, or use the "
            "start method `spawn`."
        )
        self.owner = owner


def _restore(
    kind: type[PegboardError], args: tuple[Any, ...], fields: dict[str, Any]
) -> PegboardError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


def shorten(value: object, limit: int = 80) -> str:
    """Return the repr of a value, cut where it would fill a message."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[:limit]}…"
