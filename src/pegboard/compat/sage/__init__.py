"""SAGE's registry, and its adapter for the tools of an MCP server.

Names are imported when they are first used: the registry needs no MCP SDK.
"""

from typing import TYPE_CHECKING

from pegboard.lazy_names import Listing, Lookup, lazy_names

if TYPE_CHECKING:
    from pegboard.compat.sage.adapter import RemoteMCPAdapter
    from pegboard.compat.sage.registry import MCPRegistry

__all__ = ["MCPRegistry", "RemoteMCPAdapter"]

__getattr__: Lookup
__dir__: Listing
__getattr__, __dir__ = lazy_names(
    __name__, {"MCPRegistry": "registry", "RemoteMCPAdapter": "adapter"}
)
