"""Missing tools: explain why a tool that a caller wants is not on the board."""

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
    """Return an error that says why there is no such tool, or the given one if none applies."""
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
    """Return the server whose tool names begin like this one, if there is exactly one."""
    prefixes = [_prefix(it.config.name, naming) for it in servers]
    fitting = [it for it in prefixes if it and name.startswith(it)]
    longest = max(fitting, key=len, default="")
    return servers[prefixes.index(longest)] if fitting.count(longest) == 1 else None


def _prefix(server: str, naming: Naming) -> str:
    """Return the prefix of all tool names of a server; empty if it is unknown."""
    try:
        # With an ordinary tool name: a custom naming policy need not handle an empty one.
        return naming(server, _ANY).rpartition(_ANY)[0]
    except Exception:  # noqa: BLE001 - a policy may raise anything; each tool is told so
        return ""


def _unavailable(server: UpstreamServer, name: str) -> ServerUnavailableError:
    status = server.status
    reason = status.last_error or "its tools are unknown."
    how = "starting" if status.state == ServerState.READY else status.state.value
    words = f"Tool {name!r} is missing, because server {status.name!r} is {how}: "
    if isinstance(server.connection.failure, ServerAuthenticationError):
        # The background does not try again: only a person can log in.
        again = f"Then call `await hub.server({status.name!r}).start()`."
        message = f"{words}{reason} {again}"
        return ServerAuthenticationError(message, server=status.name, tool=name)
    return ServerUnavailableError(words + reason, server=status.name, tool=name)


def _reworded(error: ToolNotFoundError, words: str) -> ToolNotFoundError:
    reworded = ToolNotFoundError(error.name, nearest=error.nearest)
    reworded.args = (words,)
    return reworded
