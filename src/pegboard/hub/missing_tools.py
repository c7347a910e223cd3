"""Missing tools: explain why a tool is not on the board, and which servers have none there."""

from collections.abc import Iterable, Iterator
from typing import Literal

import msgspec

from pegboard.config import Problem
from pegboard.errors import (
    PegboardError,
    ServerAuthenticationError,
    ServerUnavailableError,
    ToolNotFoundError,
)
from pegboard.model.tool_names import Naming
from pegboard.upstream import ServerState, UpstreamServer

__all__ = ["UnavailableServer", "condition_of", "unavailable_servers", "why_missing"]

_ANY = "tool"
_OFF = "its entry in the configuration says so."
_UNKNOWN = "it has not listed its tools yet."
_CONDITIONS = {
    ServerState.STARTING: "still starting",
    ServerState.DISABLED: "switched off",
}


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


def _unavailable(server: UpstreamServer, name: str) -> ServerUnavailableError:
    status = server.status
    reason = status.last_error or "its tools are unknown."
    condition = condition_of(_state(status.state, is_starting=False))
    words = f"Tool {name!r} is missing, because server {status.name!r} is {condition}: "
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


class UnavailableServer(msgspec.Struct, frozen=True, kw_only=True):
    """A configured server of which no tool is known, so that the board shows nothing of it."""

    name: str
    state: ServerState | Literal["unusable"]
    """``unusable`` when its entry is wrong; ``starting`` until it has listed its tools."""
    reason: str = ""
    """Why it cannot be used, without secrets; for the operator, because it may name commands."""
    prefix: str = ""
    """What the names of its tools would begin with; empty if that is unknown."""
    target: str = ""
    """Its command line or address, without secrets; for the operator."""
    tags: tuple[str, ...] = ()


def condition_of(state: str) -> str:
    """Return in plain words, to follow "is", why a server in this state cannot be used."""
    return _CONDITIONS.get(state, "configured but not running")


def unavailable_servers(
    servers: Iterable[UpstreamServer],
    problems: Iterable[Problem],
    *,
    starting: Iterable[str],
    naming: Naming,
) -> list[UnavailableServer]:
    """Return the servers whose tools are unknown, and the entries that are no servers at all.

    Args:
        servers: the servers of a hub.
        problems: the problems in the configuration.
        starting: the names of the servers that are starting for the first time.
        naming: names the tools of a server.
    """
    known, early = list(servers), frozenset(starting)
    found = [
        _of_server(it, naming, is_starting=it.config.name in early)
        for it in known
        if not (it.config.enabled and it.is_known)
    ]
    names = {it.config.name for it in known}
    return [*found, *_left_out(problems, names, naming)]


def _prefix(server: str, naming: Naming) -> str:
    """Return the prefix of all tool names of a server; empty if it is unknown."""
    try:
        # With an ordinary tool name: a custom naming policy need not handle an empty one.
        return naming(server, _ANY).rpartition(_ANY)[0]
    except Exception:  # noqa: BLE001 - a policy may raise anything; each tool is told so
        return ""


def _of_server(server: UpstreamServer, naming: Naming, *, is_starting: bool) -> UnavailableServer:
    config, status = server.config, server.status
    reason = _OFF if status.state == ServerState.DISABLED else status.last_error or _UNKNOWN
    return UnavailableServer(
        name=config.name,
        state=_state(status.state, is_starting=is_starting),
        reason="" if is_starting else reason,
        prefix=_prefix(config.name, naming),
        target=config.target,
        tags=config.tags,
    )


def _state(state: ServerState, *, is_starting: bool) -> ServerState:
    # A server that is ready, and has no tools yet, is still listing them.
    return ServerState.STARTING if is_starting or state == ServerState.READY else state


def _left_out(
    problems: Iterable[Problem], servers: set[str], naming: Naming
) -> Iterator[UnavailableServer]:
    """Give each entry that could not become a server, with the first of its problems."""
    told = set(servers)
    for it in problems:
        if it.server is None or it.severity != "error" or it.server in told:
            continue
        told.add(it.server)
        prefix = _prefix(it.server, naming)
        yield UnavailableServer(name=it.server, state="unusable", reason=it.message, prefix=prefix)
