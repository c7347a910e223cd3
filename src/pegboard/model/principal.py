"""Principal: who asks, and what was granted to them."""

from typing import Literal

import msgspec

__all__ = ["ALL_SCOPES", "DEFAULT_TENANT", "LOCAL", "OPERATOR", "Principal", "Scope", "Surface"]

Surface = Literal["search", "full"]
"""``search`` shows a handful of small tools that find and call the others, ``full`` all of them."""

Scope = Literal["read", "call", "register", "admin"]
"""What may be done: find and describe; call, and find; register; all that, and what is others'."""

ALL_SCOPES: frozenset[Scope] = frozenset({"read", "call", "register", "admin"})
DEFAULT_TENANT = "default"
OPERATOR = "pegboard"
"""The tenant that is nobody's: keys and the audit are kept there, and no principal has it."""


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Somebody who asks. What they may do is decided in `pegboard.policies.access` alone."""

    tenant: str = DEFAULT_TENANT
    subject: str
    """Who it is within the tenant: the id of a key, the subject of a token."""
    scopes: frozenset[Scope] = frozenset()
    servers: tuple[str, ...] = ("*",)
    """Glob patterns of the servers that are meant; what belongs to no server matches as ``""``."""
    tools: tuple[str, ...] = ("*",)
    """Glob patterns of the names of tools, as they are shown here."""
    expires: float | None = None
    """Seconds since the epoch after which nothing is granted any more."""
    surface: Surface | None = None
    """What they see where the address does not say it; ``None``: what everybody sees."""
    calls_per_minute: int | None = None
    concurrent_calls: int | None = None


LOCAL = Principal(subject="local", scopes=ALL_SCOPES)
"""Whoever asks where nobody has to say who they are: over stdio, and on loopback without keys."""
