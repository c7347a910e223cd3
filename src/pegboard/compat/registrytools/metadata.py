"""RegistryTools's `ToolMetadata`: the definition of a tool, and how often it is used."""

from collections.abc import Mapping
from copy import deepcopy
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_serializer

from pegboard.model import Temperature, Tool, Usage
from pegboard.storage import StoredTool

__all__ = ["ToolMetadata", "ToolTemperature", "metadata_of", "tool_of"]

ToolTemperature = Temperature
"""Hot (10 uses and more), warm (3 and more) or cold; 30 and 60 idle days cool a tool down."""


def _in_utc(moment: datetime) -> datetime:
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)


class ToolMetadata(BaseModel):
    """The metadata of a tool. ``last_used`` without a time zone is taken as UTC."""

    model_config: ClassVar[ConfigDict] = ConfigDict(validate_assignment=True)

    name: str
    description: str
    mcp_server: str | None = None
    defer_loading: bool = True
    tags: set[str] = set()
    category: str | None = None
    use_frequency: int = Field(default=0, ge=0, lt=2**63)
    last_used: Annotated[datetime, AfterValidator(_in_utc)] | None = None
    input_schema: dict[str, Any] | None = None
    """The JSON Schema of the arguments; an empty schema is stored as ``None``."""
    output_schema: dict[str, Any] | None = None

    @property
    def temperature(self) -> Temperature:
        """How often and how recently the tool was used."""
        return self.usage.temperature()

    @property
    def usage(self) -> Usage:
        """The part that changes with every call."""
        moment = None if self.last_used is None else _in_utc(self.last_used)
        return Usage(use_frequency=self.use_frequency, last_used=moment)

    @field_serializer("tags")
    def _tags_in_order(self, tags: set[str]) -> list[str]:
        return sorted(tags)


def tool_of(metadata: ToolMetadata) -> Tool:
    """Return the definition of a tool from its metadata."""
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


def metadata_of(found: StoredTool, usage: Mapping[str, Usage]) -> ToolMetadata:
    """Return the metadata of a stored tool."""
    tool = found.tool
    used = usage.get(tool.name, Usage())
    # Not validated again: it was validated when it was stored.
    return ToolMetadata.model_construct(
        name=tool.name,
        description=tool.description,
        mcp_server=tool.server,
        defer_loading=tool.defer_loading,
        tags=set(tool.tags),
        category=tool.category,
        use_frequency=used.use_frequency,
        last_used=used.last_used,
        input_schema=deepcopy(tool.input_schema) or None,
        output_schema=deepcopy(tool.output_schema),
    )
