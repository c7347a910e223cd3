"""Registration: which tools of a batch are on the board, and which are not and why."""

import msgspec

from pegboard.errors import PegboardError
from pegboard.model import Tool

__all__ = ["Registration", "Rejection"]


class Rejection(msgspec.Struct, frozen=True):
    """One item of a batch that was not registered."""

    index: int
    """Its place in the batch, from 0."""
    item: object
    error: PegboardError


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of registering a batch."""

    registered: tuple[Tool, ...] = ()
    skipped: tuple[Tool, ...] = ()
    """Left out because of ``on_conflict="skip"``."""
    rejected: tuple[Rejection, ...] = ()
