"""Activity of `pegboard serve`: one line on the terminal for each client, call and server event."""

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TextIO

from pegboard.cli.terminal.plain_text import cut_in_the_middle, one_line
from pegboard.errors.servers import without_name
from pegboard.gateway.request import Client
from pegboard.model import CallRecord
from pegboard.model.principal import DEFAULT_TENANT
from pegboard.observe.background_writer import BackgroundWriter
from pegboard.observe.server_log import LogLine

__all__ = ["ShownActivity", "activity_on"]

_MOST_WAITING = 1_000
_WIDTH = 36
_LONGEST = 500
"""The most characters of what a line says at its end: the reason of a failure has to fit."""
_GOOD = frozenset({"ok", "ready", "connected", "started"})
_BAD = frozenset({"raised", "refused", "timeout", "lost", "failed", "tool_error", "dropped"})
_GREEN, _RED, _PLAIN = "\033[32m", "\033[31m", "\033[0m"


class ShownActivity:
    """Shows lines on a stream. What comes faster than the terminal takes it is skipped.

    Lines have no arguments and no results.

    Args:
        stream: where the lines go.
        colours: whether the outcome is coloured.
    """

    def __init__(self, stream: TextIO, *, colours: bool) -> None:
        self._stream = stream
        self._colours = colours
        self._writer = BackgroundWriter[Callable[[], str]](
            self._write, most=_MOST_WAITING, owner="activity"
        )

    def client(self, client: Client, /) -> None:
        """Show a client that has connected."""
        self._writer.put(partial(self._of_client, time.time(), client))

    def call(self, record: CallRecord, /) -> None:
        """Show a call that has ended."""
        self._writer.put(partial(self._of_call, record))

    def server(self, line: LogLine, /) -> None:
        """Show what happened to a server."""
        self._writer.put(partial(self._of_server, line))

    def close(self) -> None:
        """Show what is waiting, unless the terminal is stuck."""
        self._writer.close(patience=1.0)

    def _of_client(self, at: float, client: Client) -> str:
        said = (client.info.get(key) for key in ("name", "version"))
        name = " ".join(it for it in said if isinstance(it, str)) or "unnamed client"
        who = client.principal.subject
        return self._line(at, "client", name, "connected", who=who)

    def _of_call(self, record: CallRecord) -> str:
        at = record.started + record.duration
        outcome = record.outcome
        if record.error_code not in (None, record.outcome):
            outcome = f"{record.outcome} {record.error_code}"
        who = " ".join(
            str(it)
            for it in (record.meta.get("tenant"), record.meta.get("subject"))
            if it and it != DEFAULT_TENANT
        )
        return self._line(at, "call", record.tool, outcome, seconds=record.duration, who=who)

    def _of_server(self, line: LogLine) -> str:
        name = "/".join(it for it in (line.tenant, line.server) if it) or "gateway"
        said = without_name(line.server, line.text)
        return self._line(line.at.timestamp(), "server", name, line.event, who=said)

    def _line(
        self, at: float, kind: str, what: str, outcome: str, *, seconds: float = -1.0, who: str = ""
    ) -> str:
        moment = time.strftime("%H:%M:%S", time.localtime(at))
        what = cut_in_the_middle(one_line(what[:500]), _WIDTH)
        took = "" if seconds < 0 else _duration(seconds)
        shown = f"{one_line(outcome[:60]):<10}"
        word = outcome.partition(" ")[0]
        if self._colours and word in _GOOD | _BAD:
            shown = f"{_GREEN if word in _GOOD else _RED}{shown}{_PLAIN}"
        line = (
            f"{moment}  {kind:<6}  {what:<{_WIDTH}}  {shown}  {took:>8}  {one_line(who[:_LONGEST])}"
        )
        return line.rstrip()

    def _write(self, lines: Sequence[Callable[[], str]], skipped: int) -> None:
        text = "".join(f"{make()}\n" for make in lines)
        if skipped:
            text += f"… {skipped:,} lines skipped\n"
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError, UnicodeError):
            # The terminal is gone; the gateway serves all the same.
            return


def activity_on(
    stream: TextIO, *, wanted: bool | None, is_quiet_here: bool
) -> ShownActivity | None:
    """Return what shows the activity, if it is to be shown.

    Args:
        stream: where.
        wanted: what the operator chose; ``None`` for the default: on a terminal.
        is_quiet_here: whether the default is to be silent even on a terminal.
    """
    is_terminal = stream.isatty()
    if not (is_terminal and not is_quiet_here if wanted is None else wanted):
        return None
    colours = is_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return ShownActivity(stream, colours=colours)


def _duration(seconds: float) -> str:
    return f"{seconds * 1000:,.0f} ms" if seconds < 10 else f"{seconds:,.1f} s"
