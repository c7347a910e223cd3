"""`pegboard upgrade-notes`: show what changed in each version."""

import sys
from collections.abc import Iterator
from pathlib import Path

import typer

from pegboard.cli.terminal.output import result_console, say, warn

__all__ = ["add_to"]

_PACKAGE = Path(__file__).parents[2]
_KINDS = ("security", "removed", "deprecated", "added", "changed", "fixed")


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("upgrade-notes")(upgrade_notes)


def upgrade_notes() -> None:
    """Show what changed in each version, and what to do about it; the newest comes first."""
    text = "\n\n".join(_notes())
    if not text:
        warn("This package contains no notes.")
    elif sys.stdout.isatty():
        from rich.markdown import Markdown  # noqa: PLC0415 - only where a person looks

        result_console().print(Markdown(text))
    else:
        say(text)


def _notes() -> Iterator[str]:
    """Give what is not released yet, and then the versions, as Markdown."""
    coming = list(_coming())
    if coming:
        yield "## Not released yet"
        yield from coming
    released = _PACKAGE / "CHANGELOG.md"
    if released.is_file():
        yield released.read_text("utf-8").strip()


def _coming() -> Iterator[str]:
    folder = next(filter(Path.is_dir, _fragment_folders()), None)
    fragments = sorted(folder.glob("*.md"), key=_number) if folder else []
    for kind in _KINDS:
        texts = [it.read_text("utf-8").strip() for it in fragments if it.name.split(".")[1] == kind]
        if texts:
            yield f"### {kind.capitalize()}"
            yield from texts


def _fragment_folders() -> Iterator[Path]:
    yield _PACKAGE / "changelog.d"
    # Installed from a checkout, where the package lies in `src`.
    if _PACKAGE.parent.name == "src":
        yield _PACKAGE.parents[1] / "changelog.d"


def _number(path: Path) -> tuple[int, str]:
    first = path.name.split(".")[0]
    return -int(first) if first.isdecimal() else 0, path.name
