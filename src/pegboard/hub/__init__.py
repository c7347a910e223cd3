"""Hub: all servers of a configuration, connected, with their tools on one board."""

from pegboard.hub.hub import Hub
from pegboard.hub.missing_tools import UnavailableServer
from pegboard.hub.options import HubOptions
from pegboard.hub.sync_hub import SyncHub, SyncServer
from pegboard.hub.tool_mapping import HubTool, SyncHubTool, ToolMapping

__all__ = [
    "Hub",
    "HubOptions",
    "HubTool",
    "SyncHub",
    "SyncHubTool",
    "SyncServer",
    "ToolMapping",
    "UnavailableServer",
]
