"""Values that travel through Pegboard: frozen, without I/O, without the MCP SDK.

Names are imported when they are first used: most programs look at tools without checking
arguments, and commands are to be there at once.
"""

from typing import TYPE_CHECKING

from pegboard.lazy_names import Listing, Lookup, lazy_names

if TYPE_CHECKING:
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
    from pegboard.model.naming import (
        NameTable,
        Naming,
        NamingOption,
        OnConflict,
        naming_of,
        prefixed,
    )
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

_HOMES = {
    "Annotations": "tool",
    "ArgumentSchema": "schema",
    "Audio": "content",
    "CallRecord": "record",
    "CatalogChange": "change",
    "Content": "content",
    "EmbeddedResource": "content",
    "FrozenDict": "frozen",
    "FrozenList": "frozen",
    "Image": "content",
    "LazyTool": "lazy_tool",
    "NameTable": "naming",
    "Naming": "naming",
    "NamingOption": "naming",
    "OnConflict": "naming",
    "Other": "content",
    "Principal": "principal",
    "ResourceContents": "content",
    "ResourceLink": "content",
    "Scope": "principal",
    "Step": "call",
    "Tally": "call",
    "Temperature": "usage",
    "Text": "content",
    "Tool": "tool",
    "ToolCall": "call",
    "ToolResult": "result",
    "Usage": "usage",
    "freeze": "frozen",
    "naming_of": "naming",
    "prefixed": "naming",
    "truncate_text": "truncation",
}

__getattr__: Lookup
__dir__: Listing
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
