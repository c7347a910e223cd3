"""Open questions: what servers ask in the middle of calls that wait for a person."""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

__all__ = ["OpenQuestion"]


class OpenQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question that a parked call or a task waits for, and that a person may answer."""

    kind: Literal["call", "task"]
    id: str
    """The id of the parked call, or of the task."""
    key: str
    """The key of the question in the call."""
    method: str
    params: Mapping[str, Any]
    """As the server wrote them."""
    tool: str
    tenant: str
    subject: str
    """Whose call it is."""
    until: float | None = None
    """When it is given up, in seconds since the epoch; ``None`` if that is not known."""
