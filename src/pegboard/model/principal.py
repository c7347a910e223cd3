"""Principal: the authenticated caller, its tenant and its scopes."""

from typing import Literal

import msgspec

__all__ = [
    "ALL_SCOPES",
    "ANONYMOUS",
    "DEFAULT_TENANT",
    "LOCAL",
    "OPERATOR",
    "Principal",
    "Scope",
    "Surface",
]

Surface = Literal["search", "full"]
"""``search`` shows a handful of small tools that find and call the others, ``full`` all of them."""

Scope = Literal["read", "call", "register", "admin"]
"""``read`` finds and describes tools, ``call`` also calls them, ``register`` registers them, and
``admin`` does all of that, also to what others own."""

ALL_SCOPES: frozenset[Scope] = frozenset({"read", "call", "register", "admin"})
DEFAULT_TENANT = "default"
OPERATOR = "pegboard"
"""The tenant of the operator: it holds the keys and the audit, and no principal belongs to it."""


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """An authenticated caller. `pegboard.policies.access` alone decides what the caller may do."""

    tenant: str = DEFAULT_TENANT
    subject: str
    """The caller within the tenant: the id of a key, or the subject of a token."""
    scopes: frozenset[Scope] = frozenset()
    withheld: frozenset[Scope] = frozenset()
    """Scopes that it lacks even where ``admin`` would grant them."""
    servers: tuple[str, ...] = ("*",)
    """Glob patterns of the servers it may use; what belongs to no server matches as ``""``."""
    tools: tuple[str, ...] = ("*",)
    """Glob patterns of the tools it may use, by the names that are shown here."""
    expires: float | None = None
    """When the grant ends, in seconds since the epoch; ``None`` for never."""
    surface: Surface | None = None
    """The surface where the address names none; ``None`` for the default of the gateway."""
    calls_per_minute: int | None = None
    concurrent_calls: int | None = None


LOCAL = Principal(subject="local", scopes=ALL_SCOPES)
"""The user of this machine: over stdio, and with the token of the user's own commands."""

ANONYMOUS = Principal(
    subject="local",
    scopes=ALL_SCOPES - {"register"},
    withheld=frozenset({"register"}),
)
"""A client over HTTP where no authentication is required; it registers nothing."""
