"""What a user of AgentScope does, run with `agentscope` and with ours."""

from typing import Any

from tests.oracles.surface import public
from tests.oracles.table import Table

TABLE = Table()
# First cell of a row of the guide → scenarios, or places of the surface (dotted).
DIFFERENCES: dict[str, list[str]] = {}


def names(side: str) -> Any:
    """Return the public names of a side."""
    return public("pegboard.compat.agentscope") if side == "ours" else public()
