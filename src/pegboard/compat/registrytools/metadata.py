"""RegistryTools's `ToolMetadata`: the definition of a tool, how often and when it is used."""

from datetime import UTC, datetime
from enum import Enum
from typing import Any

from pydantic import BaseModel, Field, field_serializer

from pegboard.model import Tool, Usage
from pegboard.model.call import COLD_AFTER, HOT_USES, WARM_AFTER, WARM_USES

__all__ = [
    "ENABLE_DOWNGRADE",
    "HOT_TOOL_INACTIVE_DAYS",
    "HOT_TOOL_THRESHOLD",
    "MAX_HOT_TOOLS_PRELOAD",
    "WARM_TOOL_INACTIVE_DAYS",
    "WARM_TOOL_THRESHOLD",
    "StorageBackend",
    "ToolMetadata",
    "ToolTemperature",
    "local_time",
    "temperature_of",
    "tool_of",
]

HOT_TOOL_THRESHOLD: int = HOT_USES
"""A tool is hot from so many uses on."""
WARM_TOOL_THRESHOLD: int = WARM_USES
"""A tool is warm from so many uses on."""
HOT_TOOL_INACTIVE_DAYS: int = WARM_AFTER.days
"""A hot tool becomes warm after so many days without use."""
WARM_TOOL_INACTIVE_DAYS: int = COLD_AFTER.days
"""A warm tool becomes cold after so many days without use."""
MAX_HOT_TOOLS_PRELOAD = 100
"""So many hot tools RegistryTools's server loads when it starts."""
ENABLE_DOWNGRADE = True
"""Tools that are not used cool down."""


class ToolTemperature(str, Enum):  # noqa: UP042 - as there, so `str()` says the same
    """How often a tool is used: 10 times and more, 3 times and more, or less."""

    HOT = "hot"
    WARM = "warm"
    COLD = "cold"


class StorageBackend(str, Enum):  # noqa: UP042 - as there, so `str()` says the same
    """The kind of file that keeps the tools."""

    JSON = "json"
    SQLITE = "sqlite"


class ToolMetadata(BaseModel):
    """The metadata of a tool. ``last_used`` is kept as it is given; a registry sets local time."""

    name: str
    description: str
    mcp_server: str | None = None
    defer_loading: bool = True
    tags: set[str] = Field(default_factory=set[str])
    category: str | None = None
    use_frequency: int = 0
    last_used: datetime | None = None
    temperature: ToolTemperature = ToolTemperature.COLD
    """Set by a registry from ``use_frequency``."""
    input_schema: dict[str, Any] | None = None
    output_schema: dict[str, Any] | None = None

    @property
    def usage(self) -> Usage:
        """The part that changes with every call; a moment without a time zone is local time."""
        moment = None if self.last_used is None else self.last_used.astimezone(UTC)
        return Usage(use_frequency=self.use_frequency, last_used=moment)

    @field_serializer("tags")
    def serialize_tags(self, tags: set[str]) -> list[str]:
        """Return the tags as a list, in order."""
        return sorted(tags)

    @field_serializer("last_used", when_used="json")
    def serialize_last_used(self, last_used: datetime | None) -> str | None:
        """Return the moment in ISO 8601, with a time zone only if it has one."""
        return None if last_used is None else last_used.isoformat()


def temperature_of(use_frequency: int) -> ToolTemperature:
    """Return how hot a tool is that was used so often."""
    if use_frequency >= HOT_TOOL_THRESHOLD:
        return ToolTemperature.HOT
    return ToolTemperature.WARM if use_frequency >= WARM_TOOL_THRESHOLD else ToolTemperature.COLD


def local_time(moment: datetime | None = None) -> datetime:
    """Return a moment, or now, in local time without a time zone."""
    if moment is not None and moment.tzinfo is None:
        return moment
    return (moment or datetime.now(UTC)).astimezone().replace(tzinfo=None)


def tool_of(metadata: ToolMetadata) -> Tool:
    """Return the definition of a tool from its metadata.

    Raises:
        InvalidToolError: when the definition is invalid.
    """
    return Tool(
        name=metadata.name,
        description=metadata.description,
        input_schema=metadata.input_schema or {},
        output_schema=metadata.output_schema,
        server=metadata.mcp_server,
        tags=tuple(sorted(metadata.tags)),
        category=metadata.category,
        defer_loading=metadata.defer_loading,
    )
