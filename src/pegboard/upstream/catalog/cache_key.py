"""Cache keys: the key of a server in the catalog cache, and how long an entry is kept."""

import hashlib

from pegboard.config import ServerConfig

__all__ = ["DAY", "KEPT_FOR", "SERVERS", "catalog_key"]

SERVERS = "servers"
"""The namespace of a store that holds the cached catalogs."""
DAY = 86_400.0
KEPT_FOR = 90 * DAY
"""Seconds after which an unused entry is removed: every new token makes a new key."""


def catalog_key(config: ServerConfig) -> str:
    """Return a key that changes with each setting that may change the tools, without secrets."""
    identity = (
        config.name,
        config.transport,
        config.command,
        config.args,
        dict(config.env),
        config.cwd,
        config.url,
        dict(config.headers),
        # The credential may decide which tools the server offers.
        config.bearer_token,
        None if config.oauth is None else (config.oauth.client_id, config.oauth.scopes),
    )
    # Not JSON: an environment may hold text that is not valid Unicode.
    return hashlib.sha256(repr(identity).encode("utf-8", "surrogatepass")).hexdigest()[:32]
