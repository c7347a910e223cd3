"""What somebody chose on the command line of `pegboard serve`."""

from typing import Literal

import msgspec

__all__ = ["ServeChoices", "Shown"]

Shown = Literal["search", "full"]
"""What clients see at `/mcp`."""


class ServeChoices(msgspec.Struct, frozen=True, kw_only=True):
    """The options of one start, each under its own name."""

    config: str | None = None
    demo: bool = False
    stdio: bool = False
    host: str = "127.0.0.1"
    port: int = 8765
    surface: Shown = "search"
    store: str | None = None
    audit: str | None = None
    allow_anonymous: bool = False
    allow_host: tuple[str, ...] = ()
    allow_origin: tuple[str, ...] = ()
    drain: float = 30.0
    notice: float = 0.0
    verbose: bool = False
