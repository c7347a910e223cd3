"""Open the MCP registry that a command asks: its options and settings, and what is cached."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

import typer

from pegboard.cli.terminal.durations import shown
from pegboard.cli.terminal.output import warn
from pegboard.config.files.registry_settings import RegistrySettings, registry_settings_of
from pegboard.config.files.servers_file import file_to_edit
from pegboard.directory import OFFICIAL_REGISTRY, ServerDirectory

__all__ = ["OfflineOption", "RegistryOption", "open_directory", "say_if_cached", "settings_for"]

RegistryOption = Annotated[
    str | None,
    typer.Option(
        "--registry",
        metavar="URL",
        help="URL of the MCP registry (default: `PEGBOARD_REGISTRY`, `registry.url` of the "
        "configuration, or the official one).",
    ),
]
OfflineOption = Annotated[
    bool, typer.Option("--offline", help="Ask no registry; use what is cached of it.")
]


def settings_for(config: str | None) -> RegistrySettings:
    """Return the section `registry` of the configuration.

    Raises:
        ConfigError: when it cannot be used.
    """
    return registry_settings_of(file_to_edit(config))


@asynccontextmanager
async def open_directory(
    settings: RegistrySettings, url: str | None, *, offline: bool = False
) -> AsyncGenerator[ServerDirectory]:
    """Open the registry that is named, or else that of the settings.

    Raises:
        ConfigError: when its URL cannot be used.
    """
    async with ServerDirectory.open(
        url or settings.url or OFFICIAL_REGISTRY,
        allow_http=settings.allow_http,
        offline=offline,
    ) as directory:
        yield directory


def say_if_cached(cached_at: float | None, problem: str) -> None:
    """Say that an answer comes from the cache, why, and how old it is."""
    if cached_at is not None:
        warn(f"{problem} This is from the cache of {shown(cached_at, nothing='')} (UTC).")
