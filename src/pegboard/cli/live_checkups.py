"""The look at servers while it lasts: a live table on a terminal, and lines elsewhere."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pegboard.cli.output import error_console, warn
from pegboard.cli.plain_text import one_line
from pegboard.cli.wording import counted

if TYPE_CHECKING:
    from rich.table import Table

    from pegboard.doctor import Checkup

__all__ = ["watching"]

_COLOURS = {"well": "green", "ill": "bold red", "starting": "yellow", "listing": "yellow"}


@contextmanager
def watching() -> Generator[Callable[["Checkup"], None]]:
    """Give what is told how far each server has come; it shows that on standard error."""
    if not sys.stderr.isatty():
        yield _say_when_done
        return
    from rich.live import Live  # noqa: PLC0415 - only where a person looks

    seen: dict[str, Checkup] = {}
    # Gone in the end, when the result says the same and more.
    with Live(console=error_console(), transient=True, refresh_per_second=8) as live:

        def tell(checkup: "Checkup") -> None:
            seen[checkup.server] = checkup
            live.update(_table(seen))

        yield tell


def _say_when_done(checkup: "Checkup") -> None:
    if checkup.stage == "well":
        tools = counted(checkup.tools or 0, "tool")
        warn(f"{checkup.server}: well, {tools}, {checkup.startup_seconds or 0:.1f} s")
    elif checkup.stage == "ill":
        warn(f"{checkup.server}: ill")


def _table(seen: "dict[str, Checkup]") -> "Table":
    from rich.table import Table  # noqa: PLC0415 - only where a person looks
    from rich.text import Text  # noqa: PLC0415 - only where a person looks

    table = Table(box=None, pad_edge=False, show_header=False)
    for checkup in seen.values():
        said = "" if checkup.tools is None else counted(checkup.tools, "tool")
        state = Text(checkup.stage, _COLOURS.get(checkup.stage, "dim"))
        table.add_row(Text(one_line(checkup.server)), state, Text(said))
    return table
