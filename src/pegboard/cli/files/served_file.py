"""Mark the served file for child processes, so that Pegboard never serves itself."""

import os
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import typer

from pegboard.config import load_servers, locate_config
from pegboard.errors import ConfigError
from pegboard.upstream.stdio.environment import SERVING

__all__ = ["claim_file", "file_claimed", "refuse_foreign_file"]


def claim_file(config: str | Mapping[str, Any] | None) -> None:
    """Tell the processes that this one starts which file it serves.

    Raises:
        ConfigError: when the named file cannot be used.
        typer.BadParameter: when a Pegboard that serves the same file has started this one.
    """
    path = None if isinstance(config, Mapping) else locate_config(config).path
    if path is None:
        return
    # One on a line: paths may well have a colon.
    own, above = str(path.resolve()), os.environ.get(SERVING, "").split("\n")
    if own in above:
        raise typer.BadParameter(
            f"A Pegboard that serves {path} has started this one, which would serve the same file "
            "and start another. Remove the entry that starts Pegboard: "
            f"`pegboard remove NAME --config {path}`."
        )
    os.environ[SERVING] = "\n".join(it for it in (*above, own) if it)


def refuse_foreign_file(config: str | Mapping[str, Any] | None) -> None:
    """Refuse a file without a section that Pegboard reads: it is mistyped, or not for Pegboard.

    Raises:
        ConfigError: with the problem that `pegboard config check` prints.
    """
    loaded = load_servers(config, undefined="keep")
    for it in loaded.problems:
        if it.server is None and it.severity == "error" and not loaded.has_section:
            path = None if loaded.path is None else str(loaded.path)
            raise ConfigError(it.message, path=path, line=it.line, column=it.column)


@contextmanager
def file_claimed(config: str | None) -> Generator[None]:
    """Let processes that are started meanwhile find the file served already."""
    before = os.environ.get(SERVING)
    # The code that reads the file reports what is wrong with it.
    with suppress(ConfigError, typer.BadParameter):
        claim_file(config)
    try:
        yield
    finally:
        os.environ.pop(SERVING, None)
        if before is not None:
            os.environ[SERVING] = before
