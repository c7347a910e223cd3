"""Under which key a server is remembered."""

import hashlib

from pegboard.config import ServerConfig

__all__ = ["DAY", "KEPT_FOR", "SERVERS", "memory_key"]

SERVERS = "servers"
"""The namespace of a store in which servers are remembered."""
DAY = 86_400.0
KEPT_FOR = 90 * DAY
"""Seconds after which what nobody has used is forgotten: every new token gives a new key."""


def memory_key(config: ServerConfig) -> str:
    """Return a key that changes with whatever may change the tools, and shows no secret."""
    identity = (
        config.name,
        config.transport,
        config.command,
        config.args,
        dict(config.env),
        config.cwd,
        config.url,
        dict(config.headers),
        # Who asks may decide what is offered.
        config.bearer_token,
        None if config.oauth is None else (config.oauth.client_id, config.oauth.scopes),
    )
    # Not JSON: an environment may hold text that is no Unicode.
    return hashlib.sha256(repr(identity).encode("utf-8", "surrogatepass")).hexdigest()[:32]
