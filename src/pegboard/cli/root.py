"""The typer application of the command line, with only the commands that are needed."""

import os
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from pegboard.cli.entry.command_table import COMMANDS

__all__ = ["root_group"]

_PURPOSE = "Every MCP server and every tool on one board."


def root_group(needed: Iterable[str]) -> TyperGroup:
    """Return the application with these commands; of all others it has only name and summary.

    Each command that is needed costs the import of its module.
    """
    root = typer.Typer(
        name="pegboard",
        help=_PURPOSE,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    # With a callback a single command keeps its name.
    root.callback()(_options)
    needed = set(needed)
    for name in COMMANDS:
        if name in needed:
            import_module(f"pegboard.cli.commands.{COMMANDS[name].module}").add_to(root)
    group = cast("TyperGroup", get_command(root))
    written = group.commands
    # It depends on the version of typer; with another one, commands are only slower.
    with suppress(ImportError, AttributeError):
        import_module("pegboard.cli.entry.plain_values").spare_pydantic()
    if needed and "_PEGBOARD_COMPLETE" in os.environ:
        with suppress(ImportError, AttributeError):
            import_module("pegboard.cli.entry.completion").offer_names(group)
    for command in written.values():
        _write_help_plainly(command)
    group.commands = {
        name: written.get(name) or TyperCommand(name=name, help=command.summary)
        for name, command in COMMANDS.items()
    }
    return group


def _write_help_plainly(command: Any) -> None:
    """Let help say `TOOL [ARGUMENT]...`, not `{TOOL} [[ARGUMENT]...]...`, and no Python types.

    The first sentences of the commands below it are not cut.
    """
    pieces = command.collect_usage_pieces

    def plain_pieces(context: Any) -> list[str]:
        return [_plain(it) for it in pieces(context)]

    command.collect_usage_pieces = plain_pieces
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = _no_type
    for inner in getattr(command, "commands", {}).values():
        inner.short_help = inner.short_help or (inner.help or "").partition("\n\n")[0]
        _write_help_plainly(inner)


def _no_type(ctx: Any) -> None:
    """Return nothing to write behind the name of an argument."""


def _plain(piece: str) -> str:
    piece = piece.replace("{", "").replace("}", "")
    return piece[1:-4] if piece.startswith("[[") and piece.endswith("...]...") else piece


def _options(
    *,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Every MCP server and every tool on one board."""
    # The entry point handles these already; here they are for completion.
