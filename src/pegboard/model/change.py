"""CatalogChange: the only event of the catalogue."""

import msgspec

from pegboard.model.tool import Tool

__all__ = ["CatalogChange"]


class CatalogChange(msgspec.Struct, frozen=True, kw_only=True):
    """Tools that appeared, were redefined or went away, in one step."""

    revision: int
    """Grows by one with each change; a subscriber sees every revision, in order."""
    added: tuple[Tool, ...] = ()
    changed: tuple[Tool, ...] = ()
    removed: tuple[Tool, ...] = ()
