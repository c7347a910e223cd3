"""`pegboard upgrade`: upgrade a server to another version, after its differences were shown."""

from typing import Annotated

import typer

from pegboard.cli.directory.opened import NEWEST
from pegboard.cli.files.user_file import ConfigOption, KeepSecretsOption, ServerName, YesOption

__all__ = ["add_to"]


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("upgrade")(upgrade)


def upgrade(
    name: ServerName,
    *,
    version: Annotated[str, typer.Option(metavar="VERSION", help="Version to change to.")] = NEWEST,
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE", help="A value that the new version asks for. Can be repeated."
        ),
    ] = None,
    no_start: Annotated[
        bool,
        typer.Option("--no-start", help="Do not start both versions to compare their tools."),
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Undo the last upgrade of this server.")
    ] = False,
    yes: YesOption = False,
    keep_secrets: KeepSecretsOption = False,
    config: ConfigOption = None,
) -> None:
    """Upgrade a server that was added from an MCP registry.

    It shows what would run, starts both versions once and shows which tools are added, removed or
    changed, each after a question, and asks before it changes your configuration.
    """
    # They bring an HTTP client, which `pegboard --help` does without.
    from pegboard.cli.directory.upgrading import Upgrade, undo_upgrade, upgrade_server  # noqa: PLC0415

    if undo:
        undo_upgrade(name, config, yes=yes)
        return
    upgrade_server(
        Upgrade(
            server=name,
            version=version,
            values=tuple(env or ()),
            starts=not no_start,
            yes=yes,
            keep_secrets=keep_secrets,
            config=config,
        )
    )
