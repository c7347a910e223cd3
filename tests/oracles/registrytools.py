"""What a user of RegistryTools does, run with `registry-tools` and with ours."""

from typing import Any

from tests.oracles.surface import public
from tests.oracles.table import Table

TABLE = Table()
# First cell of a row of the guide → scenarios, or places of the surface (dotted).
DIFFERENCES: dict[str, list[str]] = {}


def names(side: str) -> Any:
    """Return the public names of a side."""
    return (
        public("pegboard.compat.registrytools")
        if side == "ours"
        else public("registrytools.registry.models")
    )


@TABLE.scenario
def a_tool_with_two_fields(its: Any) -> Any:
    return its.ToolMetadata(name="a", description="b")
