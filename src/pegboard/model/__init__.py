"""Values that travel through Pegboard: frozen, without I/O, without the MCP SDK.

Names are imported when they are first used: most programs look at tools without checking
arguments, and a command must start at once.
"""

from typing import TYPE_CHECKING

from pegboard.lazy_names import Listing, Lookup, lazy_names

if TYPE_CHECKING:
    from pegboard.model.call import CallRecord, Phases, Step, Tally, Temperature, ToolCall, Usage
    from pegboard.model.content import (
        Audio,
        Content,
        EmbeddedResource,
        Image,
        Other,
        ResourceContents,
        ResourceLink,
        Text,
        truncate_text,
    )
    from pegboard.model.json_values import FrozenDict, FrozenList, freeze
    from pegboard.model.lazy import LazyTool
    from pegboard.model.principal import Principal, Scope
    from pegboard.model.result import ToolResult
    from pegboard.model.schema.schema import ArgumentSchema
    from pegboard.model.tool import Annotations, CatalogChange, Tool
    from pegboard.model.tool_names import (
        NameTable,
        Naming,
        NamingOption,
        OnConflict,
        naming_of,
        prefixed,
    )

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
    "Phases",
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

_HOMES = {
    "Annotations": "tool",
    "ArgumentSchema": "schema.schema",
    "Audio": "content",
    "CallRecord": "call",
    "CatalogChange": "tool",
    "Content": "content",
    "EmbeddedResource": "content",
    "FrozenDict": "json_values",
    "FrozenList": "json_values",
    "Image": "content",
    "LazyTool": "lazy",
    "NameTable": "tool_names",
    "Naming": "tool_names",
    "NamingOption": "tool_names",
    "OnConflict": "tool_names",
    "Other": "content",
    "Phases": "call",
    "Principal": "principal",
    "ResourceContents": "content",
    "ResourceLink": "content",
    "Scope": "principal",
    "Step": "call",
    "Tally": "call",
    "Temperature": "call",
    "Text": "content",
    "Tool": "tool",
    "ToolCall": "call",
    "ToolResult": "result",
    "Usage": "call",
    "freeze": "json_values",
    "naming_of": "tool_names",
    "prefixed": "tool_names",
    "truncate_text": "content",
}

__getattr__: Lookup
__dir__: Listing
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
