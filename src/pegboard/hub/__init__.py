"""Hub: all servers of a configuration, connected, with their tools on one board."""

from pegboard.hub.hub import Hub
from pegboard.hub.options import HubOptions
from pegboard.hub.sync_hub import SyncHub, SyncServer

__all__ = ["Hub", "HubOptions", "SyncHub", "SyncServer"]
