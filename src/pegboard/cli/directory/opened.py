"""Open the MCP registry that a command asks: its options and settings, and what is cached."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from pegboard.cli.terminal.durations import shown
from pegboard.cli.terminal.output import warn
from pegboard.config.files.registry_settings import RegistrySettings, registry_settings_of
from pegboard.config.files.servers_file import file_to_edit

if TYPE_CHECKING:
    from pegboard.directory import ServerDirectory

__all__ = [
    "NEWEST",
    "OfflineOption",
    "RegistryOption",
    "is_registry_name",
    "open_directory",
    "say_if_cached",
    "settings_for",
]

NEWEST = "latest"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*\.[A-Za-z0-9.-]*/[A-Za-z0-9_.-]+")

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


def is_registry_name(name: str) -> bool:
    """Tell whether a name is one of a registry, such as ``io.github.owner/server``."""
    return _NAME.fullmatch(name) is not None


def settings_for(config: str | None) -> RegistrySettings:
    """Return the section `registry` of the configuration.

    Raises:
        ConfigError: when it cannot be used.
    """
    return registry_settings_of(file_to_edit(config))


@asynccontextmanager
async def open_directory(
    settings: RegistrySettings, url: str | None, *, offline: bool = False
) -> AsyncGenerator["ServerDirectory"]:
    """Open the registry that is named, or else that of the settings.

    Raises:
        ConfigError: when its URL cannot be used.
    """
    # It brings an HTTP client, which most commands that may ask a registry do not need.
    from pegboard.directory import OFFICIAL_REGISTRY, ServerDirectory  # noqa: PLC0415

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
