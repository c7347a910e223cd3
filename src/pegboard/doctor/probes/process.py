"""Processes that failed: what is to be learned from how they ended."""

import re
import shlex

from pegboard.config import ServerConfig
from pegboard.doctor.probes.command import instead_of, why_not_started
from pegboard.doctor.probes.probe import Probe
from pegboard.doctor.probes.stderr import meaning_of
from pegboard.doctor.report import Finding, found, shown
from pegboard.errors import ServerUnavailableError
from pegboard.upstream.stdio.process import without_chatter

__all__ = ["noise_of", "why_process_failed"]

_SERVES = re.compile(
    r"\b(?:listening|running|serving|started|available|ready)\b.{0,60}?"
    r"(https?://[\w.\-\[\]:]+\d(?:/[\w./\-]*)?|\bport:? \d+)",
    re.IGNORECASE,
)
_DOWNLOADS = frozenset({"npx", "uvx", "bunx", "uv", "pipx", "docker"})


def why_process_failed(visit: Probe) -> Finding | None:
    """Return why a process did not become a server; ``None`` when it is not the process. Blocking.

    That it answered, but with an error, is not its end.
    """
    config = visit.config
    ended = visit.lost_because
    if visit.error is None and visit.limit is None:
        return None
    if visit.phase == "starting" and ended is None and visit.limit is None:
        return why_not_started(config) or _cannot_start(visit)
    if ended is None:
        return _why_silent(visit) if visit.phase == "starting" and visit.limit else None
    if ended.startswith("does not speak MCP"):
        return _serves_http(visit) or _not_mcp(visit)
    if visit.phase == "listing":
        return None
    told = why_not_started(config) or _took_tilde(visit) or meaning_of(visit.words, config)
    return told or _exited(visit)


def noise_of(visit: Probe) -> Finding | None:
    """Return that a server which works prints what is no message, if it does."""
    if not visit.printed or visit.phase == "starting":
        return None
    name = visit.config.name
    return found(
        "stdout_noise",
        f"Server {name!r} prints to standard output what is no message: "
        f"{shown(visit.printed[0])!r}.",
        "It is skipped here, but other clients may give up: let the server write it to standard "
        "error, or switch its banner or log off.",
        server=name,
    )


def _cannot_start(visit: Probe) -> Finding | None:
    if not isinstance(visit.error, ServerUnavailableError):
        return None
    what, _, remedy = str(visit.error).partition(". ")
    return found(
        "not_executable",
        f"{shown(what).rstrip('.')}.",
        remedy or f"Try to start it by hand: `{visit.config.target}`.",
        server=visit.config.name,
    )


def _why_silent(visit: Probe) -> Finding:
    config, name = visit.config, visit.config.name
    serves = _serves_http(visit)
    if serves is not None:
        return serves
    if visit.printed:
        return _not_mcp(visit)
    told = meaning_of(visit.words, config)
    if told is not None:
        return told
    last = without_chatter(visit.said)[-1:]
    said = f" The last it said: {shown(last[0])}." if last else ""
    remedy = (
        f"Look whether it runs at all: start it by hand as `{config.target}`. If it needs longer, "
        f'write `"timeouts": {{"connect": {round(4 * (visit.limit or 30))}}}` into its entry.'
    )
    if config.command in _DOWNLOADS:
        remedy = (
            f"The first start may have to download it: run `{config.target}` once by hand. "
            f'If it always needs that long, write `"timeouts": {{"connect": '
            f"{round(4 * (visit.limit or 30))}}}` into its entry."
        )
    what = f"Server {name!r} did not answer within {visit.limit:g} s.{said}"
    return found("no_answer", what, remedy, server=name)


def _serves_http(visit: Probe) -> Finding | None:
    told = _SERVES.search(visit.words)
    if told is None:
        return None
    name, place = visit.config.name, told[1]
    url = place if place.startswith("http") else "http://127.0.0.1:" + place.rpartition(" ")[2]
    return found(
        "serves_http",
        f"Server {name!r} serves HTTP ({shown(place)}) instead of talking on its pipes.",
        "Give it the option that makes it talk on stdio (often `--stdio` or `--transport stdio`); "
        f'or run it by yourself, and write `"url": "{shown(url)}"` instead of `command`.',
        server=name,
    )


def _not_mcp(visit: Probe) -> Finding:
    name = visit.config.name
    printed = shown(visit.printed[0]) if visit.printed else "nothing"
    return found(
        "not_mcp",
        f"Server {name!r} does not speak MCP: it printed {printed!r}.",
        "Check that `command` and `args` start the server itself, in its stdio mode, and that "
        "nothing else in between prints, such as `npm run`.",
        server=name,
    )


def _took_tilde(visit: Probe) -> Finding | None:
    """Return that a program complains of a path that begins with `~`, which only shells know."""
    config = visit.config
    for argument in config.args:
        if argument.startswith("~/") and argument in visit.words:
            return found(
                "exited",
                f"Server {config.name!r} ended before it answered: it got the argument "
                f"`{shown(argument)}` as it stands, because no shell is in between that knows `~`.",
                instead_of(shown(argument)),
                server=config.name,
            )
    return None


def _exited(visit: Probe) -> Finding:
    name = visit.config.name
    how = (visit.lost_because or "").partition(";")[0].partition(",")[0]
    last = without_chatter(visit.words.splitlines())[-1:]
    said = f"; the last it said: {shown(last[0]).rstrip('.')}" if last else ", without a word"
    return found(
        "exited",
        f"Server {name!r} {how} before it answered{said}.",
        f"{_by_hand(visit.config)} by hand to see more.",
        server=name,
    )


def _by_hand(config: ServerConfig) -> str:
    """Return what to start, as a command if it can be typed as it is shown."""
    line = shlex.join((config.command or "", *config.args))
    return f"Start `{line}`" if line == config.target else "Start its `command` with its `args`"
