"""Values that travel through Pegboard: frozen, without I/O, without the MCP SDK."""

from pegboard.model.call import Step, Tally, ToolCall
from pegboard.model.change import CatalogChange
from pegboard.model.content import (
    Audio,
    Content,
    EmbeddedResource,
    Image,
    ResourceContents,
    ResourceLink,
    Text,
)
from pegboard.model.frozen import FrozenDict, FrozenList, freeze
from pegboard.model.record import CallRecord
from pegboard.model.result import ToolResult
from pegboard.model.schema import ArgumentSchema
from pegboard.model.tool import Annotations, Tool

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
    "ResourceContents",
    "ResourceLink",
    "Step",
    "Tally",
    "Text",
    "Tool",
    "ToolCall",
    "ToolResult",
    "freeze",
]
