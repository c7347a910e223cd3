"""Groups: parts of a catalogue with their own address (a profile, a server, or a tag)."""

import msgspec
from mcp_types import INVALID_PARAMS

from pegboard.errors import ServerNotFoundError
from pegboard.gateway.catalog.tool_list import ToolList
from pegboard.gateway.options import GatewayOptions, Profile
from pegboard.gateway.request import RpcError
from pegboard.gateway.visibility import Admits, Visibility
from pegboard.hub import Hub
from pegboard.model import Principal
from pegboard.model.tool_names import name_matcher
from pegboard.policies import visible_to

__all__ = ["ApprovedServer", "Groups", "NoGroupError"]

_REMEMBERED = 1000
_SHOWN = 64


class NoGroupError(RpcError):
    """The address of a client names no group that the client may see."""

    def __init__(self, group: str) -> None:
        words = (
            f"There is no group {group[:_SHOWN]!r} here: a group is a server, a tag or a profile."
        )
        super().__init__(INVALID_PARAMS, words)


class ApprovedServer(msgspec.Struct, frozen=True, kw_only=True):
    """A configured server with its own address here; nothing says how the server is reached."""

    name: str
    version: str = ""
    """The version that it calls itself by; empty until it has said so."""


class Groups:
    """The profiles, servers and tags of one tenant with an address ``/mcp/<group>``.

    A group with nothing that the client may see gets the same error as a group that does not exist.
    Otherwise a client could find out which servers there are.
    """

    def __init__(self, hub: Hub, options: GatewayOptions) -> None:
        self._hub = hub
        self._profiles = options.profiles
        self._known: dict[tuple[str, Principal], Admits] = {}

    def admits(self, group: str, principal: Principal) -> Admits:
        """Return the function that tells what belongs to a group.

        Raises:
            NoGroupError: when there is no group of that name that the client may see.
        """
        known = self._known.get((group, principal))
        if known is not None:
            # A group stays a group; its members are checked at each use.
            return known
        admits = self._named(group)
        if admits is None or not self._shows_something(Visibility(principal, admits)):
            raise NoGroupError(group)
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[group, principal] = admits
        return admits

    def servers(self, principal: Principal, tools: ToolList) -> list[ApprovedServer]:
        """Return the servers that are switched on and that a caller may know, whether up or not.

        A server with the name of a profile is left out, because ``/mcp/<name>`` is the profile.
        """
        visibility = Visibility(principal)
        if not visibility.reads:
            return []
        found: list[ApprovedServer] = []
        by_tools = _servers_of_tools(visibility, tools)
        for server in self._hub.enabled_servers():
            name, said = server.config.name, server.connection.negotiated
            is_known = visibility.knows_server(name, server.config.tags) or name in by_tools
            if is_known and name not in self._profiles:
                version = said.server_version if said else ""
                found.append(ApprovedServer(name=name, version=version))
        return found

    def _named(self, group: str) -> Admits | None:
        profile = self._profiles.get(group)
        if profile is not None:
            return _of_profile(profile)
        try:
            self._hub.server(group)
        except ServerNotFoundError:
            is_tag = self._is_tag(group)
            return (lambda _server, _name, tags: group in tags) if is_tag else None
        return lambda server, _name, _tags: server == group

    def _is_tag(self, group: str) -> bool:
        hub = self._hub
        if any(group in hub.server(name).config.tags for name in hub.servers):
            return True
        return any(group in tool.tags for tool in hub.registry.tools())

    def _shows_something(self, visibility: Visibility) -> bool:
        hub, principal = self._hub, visibility.principal
        if None in (visible_to(principal, "read"), visible_to(principal, "register")):
            return True
        if any(visibility.knows_server(name, hub.server(name).config.tags) for name in hub.servers):
            return True
        others = visibility.to("register")
        return any(visibility.sees(tool) or others.sees(tool) for tool in hub.registry.tools())


def _of_profile(profile: Profile) -> Admits:
    of_server = name_matcher("servers", profile.servers)
    of_name = name_matcher("tools", profile.tools)
    wanted = frozenset(profile.tags)

    def admits(server: str | None, name: str | None, tags: tuple[str, ...]) -> bool:
        tagged = not wanted or not wanted.isdisjoint(tags)
        return tagged and of_server(server or "") and (name is None or of_name(name))

    return admits


def _servers_of_tools(visibility: Visibility, tools: ToolList) -> frozenset[str]:
    """Return the servers that a caller with only some tools knows by these tools."""
    if "*" in visibility.principal.tools:
        return frozenset()
    return frozenset(tool.server for tool in tools.seen(visibility) if tool.server)
