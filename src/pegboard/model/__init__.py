"""Values that travel through Pegboard: frozen, without I/O, without the MCP SDK."""

from pegboard.model.call import Step, Tally, ToolCall
from pegboard.model.change import CatalogChange
from pegboard.model.content import (
    Audio,
    Content,
    EmbeddedResource,
    Image,
    Other,
    ResourceContents,
    ResourceLink,
    Text,
)
from pegboard.model.frozen import FrozenDict, FrozenList, freeze
from pegboard.model.lazy_tool import LazyTool
from pegboard.model.naming import NameTable, Naming, NamingOption, OnConflict, naming_of, prefixed
from pegboard.model.principal import Principal, Scope
from pegboard.model.record import CallRecord
from pegboard.model.result import ToolResult
from pegboard.model.schema import ArgumentSchema
from pegboard.model.tool import Annotations, Tool
from pegboard.model.truncation import truncate_text
from pegboard.model.usage import Temperature, Usage

__all__ = [
    "Annotations",
    "ArgumentSchema",
    "Audio",
    "CallRecord",
    "CatalogChange",
    "Content",
    "EmbeddedResource",
    "FrozenDict",
    "FrozenList",
    "Image",
    "LazyTool",
    "NameTable",
    "Naming",
    "NamingOption",
    "OnConflict",
    "Other",
    "Principal",
    "ResourceContents",
    "ResourceLink",
    "Scope",
    "Step",
    "Tally",
    "Temperature",
    "Text",
    "Tool",
    "ToolCall",
    "ToolResult",
    "Usage",
    "freeze",
    "naming_of",
    "prefixed",
    "truncate_text",
]
