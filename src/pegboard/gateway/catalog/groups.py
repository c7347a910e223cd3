"""Groups: the parts of a catalogue that have an address of their own, and for whom they exist."""

from mcp_types import INVALID_PARAMS

from pegboard.errors import ServerNotFoundError
from pegboard.gateway.options import GatewayOptions, Profile
from pegboard.gateway.request import RpcError
from pegboard.gateway.visibility import Admits, Visibility
from pegboard.hub import Hub
from pegboard.model import Principal
from pegboard.model.tool_names import name_matcher
from pegboard.policies import visible_to

__all__ = ["Groups", "NoGroupError"]

_REMEMBERED = 1000
_SHOWN = 64


class NoGroupError(RpcError):
    """What is answered at the address of a group that there is not."""

    def __init__(self, group: str) -> None:
        words = f"Nothing is called {group[:_SHOWN]!r} here: a group is a server, a tag or a "
        super().__init__(INVALID_PARAMS, f"{words}profile.")


class Groups:
    """The profiles, servers and tags of one tenant that can be addressed: ``/mcp/<group>``.

    One that holds nothing for whoever asks is answered like one that there is not: otherwise
    anybody could find out what servers there are.
    """

    def __init__(self, hub: Hub, options: GatewayOptions) -> None:
        self._hub = hub
        self._profiles = options.profiles
        self._known: dict[tuple[str, Principal], Admits] = {}

    def admits(self, group: str, principal: Principal) -> Admits:
        """Return what belongs to a group.

        Raises:
            NoGroupError: when there is none of that name for whoever asks.
        """
        known = self._known.get((group, principal))
        if known is not None:
            # What is a group once stays one; what it holds is looked at each time.
            return known
        admits = self._named(group)
        if admits is None or not self._shows_something(Visibility(principal, admits)):
            raise NoGroupError(group)
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        self._known[group, principal] = admits
        return admits

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
