"""Approved servers: the configured servers that a caller may know, for a registry of servers."""

from collections.abc import Container

import msgspec

from pegboard.gateway.catalog.tool_list import ToolList
from pegboard.gateway.visibility import Visibility
from pegboard.hub import Hub

__all__ = ["ApprovedServer", "approved_servers"]


class ApprovedServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server of the configuration, without anything that says how it is reached."""

    name: str
    version: str = ""
    """The version that it calls itself by; empty until it has said so."""


def approved_servers(
    hub: Hub, visibility: Visibility, *, tools: ToolList, profiles: Container[str]
) -> list[ApprovedServer]:
    """Return the servers that are switched on and that a caller may know, whether up or not.

    A server without an address of its own is left out: ``/mcp/<name>`` leads to the profile of
    that name.
    """
    if not visibility.reads:
        return []
    found: list[ApprovedServer] = []
    limited_to = _servers_of_tools(visibility, tools)
    for server in hub.enabled_servers():
        name, said = server.config.name, server.connection.negotiated
        is_known = visibility.knows_server(name, server.config.tags) or name in limited_to
        if is_known and name not in profiles:
            found.append(ApprovedServer(name=name, version=said.server_version if said else ""))
    return found


def _servers_of_tools(visibility: Visibility, tools: ToolList) -> frozenset[str]:
    """Return the servers that a caller with only some tools knows by these tools."""
    if "*" in visibility.principal.tools:
        return frozenset()
    return frozenset(tool.server for tool in tools.seen(visibility) if tool.server)
