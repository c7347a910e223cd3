"""Why a tool that somebody wants is not on the board."""

from collections.abc import Iterable

from pegboard.errors import (
    PegboardError,
    ServerAuthenticationError,
    ServerUnavailableError,
    ToolNotFoundError,
)
from pegboard.model.tool_names import Naming
from pegboard.upstream import ServerState, UpstreamServer

__all__ = ["why_missing"]

_ANY = "tool"


def why_missing(
    error: ToolNotFoundError, name: str, *, servers: Iterable[UpstreamServer], naming: Naming
) -> PegboardError:
    """Return the error that says why there is no such tool; the one given if the name is wrong."""
    known = list(servers)
    if not known:
        return _reworded(
            error, f"{error} This hub has no servers; `hub.loaded` says what was read."
        )
    for server in known:
        if name in server.feed.filtered():
            return _reworded(
                error,
                f"Tool {name!r} is left out by the `allow` and `deny` of server "
                f"{server.config.name!r}.",
            )
    owner = _owner(name, known, naming)
    return error if owner is None or owner.is_known else _unavailable(owner, name)


def _owner(name: str, servers: list[UpstreamServer], naming: Naming) -> UpstreamServer | None:
    """Return the one server whose tools have names that begin like this one, if there is one."""
    prefixes = [_prefix(it.config.name, naming) for it in servers]
    fitting = [it for it in prefixes if it and name.startswith(it)]
    longest = max(fitting, key=len, default="")
    return servers[prefixes.index(longest)] if fitting.count(longest) == 1 else None


def _prefix(server: str, naming: Naming) -> str:
    """Return what the names of all tools of a server begin with; nothing if that is unknown."""
    try:
        # Asked about a tool as any other: a policy of somebody else need not cope with no name.
        return naming(server, _ANY).rpartition(_ANY)[0]
    except Exception:  # noqa: BLE001 - a policy may raise anything; each tool is told so
        return ""


def _unavailable(server: UpstreamServer, name: str) -> ServerUnavailableError:
    status = server.status
    reason = status.last_error or "nothing is known of its tools."
    how = "starting" if status.state == ServerState.READY else status.state.value
    words = f"Tool {name!r} is not there, because server {status.name!r} is {how}: "
    if isinstance(server.connection.failure, ServerAuthenticationError):
        # Nobody tries again by itself: only a person can help.
        again = f"Then call `await hub.server({status.name!r}).start()`."
        message = f"{words}{reason} {again}"
        return ServerAuthenticationError(message, server=status.name, tool=name)
    return ServerUnavailableError(words + reason, server=status.name, tool=name)


def _reworded(error: ToolNotFoundError, words: str) -> ToolNotFoundError:
    reworded = ToolNotFoundError(error.name, nearest=error.nearest)
    reworded.args = (words,)
    return reworded
