"""Values that make no sense: misuse of a command, in the words of whoever refused them."""

from collections.abc import Generator
from contextlib import contextmanager

import typer

from pegboard.errors import PegboardError

__all__ = ["values_checked"]


@contextmanager
def values_checked() -> Generator[None]:
    """Turn a ``ValueError`` about what was typed into misuse of the command.

    Raises:
        typer.BadParameter: instead of it; the errors of Pegboard stay as they are.
    """
    try:
        yield
    except PegboardError:
        raise
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
