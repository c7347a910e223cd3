"""Print results to standard output, and messages, errors and progress to standard error."""

import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, TextIO

from pegboard.cli.terminal.plain_text import (
    columns_of,
    cut_in_the_middle,
    escaped,
    fitting_widths,
    one_line,
    printable,
    width_of,
    without_folder,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress
    from rich.text import Text

__all__ = [
    "answer_to",
    "around_questions",
    "ask",
    "complain",
    "error_console",
    "progress",
    "result_console",
    "room_beside",
    "say",
    "say_wrapped",
    "show_table",
    "warn",
    "write_json",
    "write_json_line",
]

_STATES = {
    **dict.fromkeys(("ready", "enabled"), "green"),
    **dict.fromkeys(("down", "unusable", "tripped"), "bold red"),
    **dict.fromkeys(("starting", "listing", "waiting"), "yellow"),
    **dict.fromkeys(("disabled", "closed", "cold"), "dim"),
}
"""How the states of servers are coloured in tables; NO_COLOR leaves the bold and dim ones."""
_AROUND = ContextVar[Callable[[], AbstractContextManager[None]]]("around", default=nullcontext)
_MANY = 500
"""More rows are printed without colours: rich takes seconds for ten thousand."""


def say(line: str = "") -> None:
    """Print a line of the result; control characters are made harmless on a terminal."""
    _write(sys.stdout, line)


def say_wrapped(line: str, *, indent: int = 0) -> None:
    """Print a line of the result; on a terminal it is wrapped between words."""
    text = " " * indent + line
    _write(sys.stdout, _wrapped(text) if sys.stdout.isatty() else text)


def warn(line: str) -> None:
    """Print a line that is not the result: advice, a question or progress."""
    # A message that cannot be printed must not stop the command.
    with suppress(OSError):
        _write(sys.stderr, _wrapped(line) if sys.stderr.isatty() else line)


def complain(message: str) -> None:
    """Print an error: in red, and wrapped to the width of a terminal."""
    if not sys.stderr.isatty():
        warn(f"error: {message}")
        return
    from rich.text import Text  # noqa: PLC0415 - most commands end without an error

    words = Text.assemble(("error:", "bold red"), " ", printable(message))
    error_console().print(words)


def write_json(value: object) -> None:
    """Print a value as one JSON document: an array for a listing, an object for one thing."""
    import msgspec  # noqa: PLC0415 - only for JSON

    try:
        text = msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        # Half a surrogate pair from a file, or a character that the encoding of the output lacks:
        # it is escaped.
        import json  # noqa: PLC0415 - hardly ever

        text = json.dumps(msgspec.to_builtins(value), indent=2)
    sys.stdout.write(f"{escaped(text) if sys.stdout.isatty() else text}\n")


def write_json_line(value: object) -> None:
    """Print a value as one line of JSON, at once: for a stream of values."""
    import json  # noqa: PLC0415 - only for a stream

    import msgspec  # noqa: PLC0415 - the same

    # Only ASCII, whatever the encoding of the output is.
    text = json.dumps(msgspec.json.decode(msgspec.json.encode(value)))
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def show_table(
    columns: Sequence[str],
    rows: Iterable[Sequence["str | Text"]],
    *,
    right: Collection[str] = (),
    whole: Collection[str] = (),
    commands: Collection[str] = (),
) -> None:
    """Print a table: as wide as the terminal, or as wide as its cells without one.

    The first column is never cut: it names what people type next; nor are numbers. On a narrow
    terminal the last ones are left out, and named.

    Args:
        columns: what is above each column.
        rows: a cell for each column.
        right: the columns whose cells are numbers, so that these end below each other.
        whole: others that say nothing once they are cut, such as states and moments.
        commands: those with command lines: on a terminal the program goes by its name, and what
            is too long is cut in the middle.
    """
    cells = [list(row) for row in rows]
    if sys.stdout.isatty() and len(cells) <= _MANY:
        left_out = _show_rich_table(columns, cells, right, whole=whole, commands=commands)
        named = [it for it in left_out if it]
        if named:
            warn(f"The terminal is too narrow for: {', '.join(named)}; `--json` shows all.")
        return
    plain = [[it if isinstance(it, str) else it.plain for it in row] for row in cells]
    aligned = [">" if column in right else "<" for column in columns]
    sys.stdout.writelines(f"{line}\n" for line in columns_of([list(columns), *plain], aligned))


def room_beside(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> int | None:
    """Return how much room a terminal has beside these columns; ``None`` without one."""
    if not sys.stdout.isatty():
        return None
    return result_console().width - width_of([columns, *rows])


def result_console() -> "Console":
    """Return the console for results, with colours on a terminal."""
    from rich.console import Console  # noqa: PLC0415 - a tenth of a second to import

    return Console(file=sys.stdout, highlight=False)


def error_console() -> "Console":
    """Return the console for everything but results, with colours on a terminal."""
    from rich.console import Console  # noqa: PLC0415 - a tenth of a second to import

    return Console(file=sys.stderr, highlight=False)


def progress() -> AbstractContextManager["Progress"]:
    """Return a progress bar for long work; it is hidden without a terminal."""
    from rich.progress import Progress  # noqa: PLC0415 - a tenth of a second to import

    console = error_console()
    # Older versions of Rich end even a bar that is not shown with an empty line.
    console.quiet = not console.is_terminal
    return Progress(console=console, transient=True, disable=console.quiet)


def ask(question: str, *, default: bool = False) -> bool:
    """Ask the user yes or no; without a terminal, return the default.

    The end of the input is a no. What is neither a yes nor a no is asked again.
    """
    if not sys.stdin.isatty():
        return default
    while True:
        answer = answer_to(f"{question} {'[Y/n]' if default else '[y/N]'} ")
        if answer is None:
            return False
        match answer.strip().casefold():
            case "":
                return default
            case "y" | "yes":
                return True
            case "n" | "no":
                return False
            case _:
                warn("That was not understood; answer y or n.")


def answer_to(words: str, *, is_secret: bool = False) -> str | None:
    """Return what is typed behind some words; ``None`` at the end of the input."""
    with _AROUND.get()():
        if is_secret:
            from getpass import getpass  # noqa: PLC0415 - hardly ever

            try:
                return getpass(printable(words), stream=sys.stderr)
            except EOFError:
                return None
        sys.stderr.write(printable(words))
        sys.stderr.flush()
        line = sys.stdin.readline()
        if not line:
            # The next line begins at the margin.
            sys.stderr.write("\n")
            return None
        return line.rstrip("\r\n")


@contextmanager
def around_questions(during: Callable[[], AbstractContextManager[None]]) -> Generator[None]:
    """Enter a context whenever the user is asked, until the block ends."""
    before = _AROUND.set(during)
    try:
        yield
    finally:
        _AROUND.reset(before)


def _show_rich_table(
    columns: Sequence[str],
    rows: Sequence[Sequence["str | Text"]],
    right: Collection[str],
    *,
    whole: Collection[str],
    commands: Collection[str],
) -> Sequence[str]:
    """Print a table that fits the terminal, and return the columns that do not fit."""
    from rich.table import Table  # noqa: PLC0415 - only where a person looks
    from rich.text import Text  # noqa: PLC0415 - only where a person looks

    cells = [[Text(one_line(it)) if isinstance(it, str) else it for it in row] for row in rows]
    console = result_console()
    for at, column in enumerate(columns):
        if column in commands:
            for row in cells:
                row[at] = Text(without_folder(row[at].plain))
    if "STATE" in columns:
        at = columns.index("STATE")
        for row in cells:
            row[at].stylize(_STATES.get(row[at].plain, ""))
    plain = [list(columns), *([cell.plain for cell in row] for row in cells)]
    kept = {at for at, it in enumerate(columns) if it in right or it in whole}
    widths = fitting_widths(plain, console.width, whole=kept)
    table = Table(box=None, pad_edge=False, header_style="bold", show_edge=False)
    console.width = max(console.width, widths[0])
    for at, (column, width) in enumerate(zip(columns, widths, strict=False)):
        side = "right" if column in right else "left"
        table.add_column(column, overflow="ellipsis", no_wrap=True, justify=side, width=width)
        if column in commands:
            for row in cells:
                row[at] = Text(cut_in_the_middle(row[at].plain, width))
    for row in cells:
        table.add_row(*row[: len(widths)])
    console.print(table)
    return columns[len(widths) :]


def _wrapped(line: str) -> str:
    """Return a line as several ones that fit the terminal; no word is broken."""
    room = shutil.get_terminal_size().columns
    if len(line) <= room:
        return line
    indent = " " * (len(line) - len(line.lstrip()))
    parts = textwrap.wrap(
        line,
        room,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(parts)


def _write(stream: TextIO, line: str) -> None:
    stream.write(f"{printable(line) if stream.isatty() else line}\n")
