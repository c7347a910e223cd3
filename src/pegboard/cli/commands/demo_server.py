"""`pegboard demo-server`: one small server on standard input and output, to try things with."""

from importlib import import_module
from typing import Annotated, Literal

import typer

__all__ = ["add_to"]


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("demo-server")(demo_server)


def demo_server(
    name: Annotated[
        Literal["clock", "notes", "numbers", "texts"],
        typer.Argument(metavar="NAME", help="clock, notes, numbers or texts."),
    ],
) -> None:
    """Run one of the four demo servers, for a client that starts it, until the client leaves.

    pegboard add clock -- pegboard demo-server clock
    """
    # It imports the MCP SDK.
    import_module(f"pegboard.cli.demo.{name}").server.run()
