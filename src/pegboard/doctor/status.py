"""The status of servers from the catalog cache: what is known without starting them."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from pegboard.config import LoadedConfig, ServerConfig
from pegboard.model.tool import definition_of
from pegboard.search.budget import tokens_of
from pegboard.storage import Store
from pegboard.upstream.catalog.failed_starts import FailedStarts
from pegboard.upstream.catalog.offline_catalog import SERVERS, catalog_key, read_cached_tools

__all__ = ["KnownStatus", "cached_status", "unusable_entries", "unusable_status"]


class KnownStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one server; it contains no secret."""

    server: str
    state: str
    """One of `ServerState`, or ``unusable`` for a bad entry."""
    transport: str
    """Empty when the entry cannot be read, and so is the target."""
    target: str
    era: str | None = None
    protocol_version: str | None = None
    server_version: str | None = None
    tools: int | None = None
    """``None`` when the server was never asked for its tools."""
    tokens: int | None = None
    """About how many tokens its tool definitions take in a model's context."""
    startup_seconds: float | None = None
    starts: int | None = None
    calls: int | None = None
    """How many calls of its tools have ended since the gateway was started."""
    failed_calls: int | None = None
    """How many of them did not end ``ok``."""
    last_error: str | None = None


def cached_status(configs: Iterable[ServerConfig], store: Store | None) -> list[KnownStatus]:
    """Return the status of servers from the cache in a store; no server is started.

    Raises:
        StorageError: when the store cannot be read.
    """
    servers = list(configs)
    tools: Counter[str] = Counter()
    tokens: Counter[str] = Counter()
    if store is not None:
        for it in read_cached_tools(servers, store).tools.values():
            tools[it.tool.server or ""] += 1
            shown = msgspec.json.encode(definition_of(it.tool, it.raw)).decode()
            tokens[it.tool.server or ""] += tokens_of(shown)
    failures = None if store is None else FailedStarts(store)
    found: list[KnownStatus] = []
    for config in servers:
        said = _said(config, store)
        failed = failures.get(config) if failures is not None and config.enabled else None
        is_known = said is not None and config.enabled
        # A gateway may have started it since: the cache says so, but not when.
        is_current = failed is not None and (said is None or failed.is_fresh)
        found.append(
            KnownStatus(
                server=config.name,
                state=("down" if is_current else "cold") if config.enabled else "disabled",
                transport=config.transport,
                target=config.target,
                era=_text(said, "era"),
                protocol_version=_text(said, "version"),
                server_version=_text(said, "server_version"),
                tools=tools[config.name] if is_known else None,
                tokens=tokens[config.name] if is_known else None,
                last_error=failed.error if failed and is_current else None,
            )
        )
    return found


def unusable_status(loaded: LoadedConfig) -> list[KnownStatus]:
    """Return the status of the entries that cannot be used, each with the reason."""
    return [
        KnownStatus(server=name, state="unusable", transport="", target="", last_error=problem)
        for name, problem in unusable_entries(loaded).items()
    ]


def unusable_entries(loaded: LoadedConfig) -> dict[str, str]:
    """Return the entries of a file that cannot be used, by name, each with its problem."""
    usable = {config.name for config in loaded.servers}
    found: dict[str, str] = {}
    # An error says more than a doubt about the same entry.
    for it in sorted(loaded.problems, key=lambda it: it.severity != "error"):
        if it.server is not None and it.server not in usable:
            found.setdefault(it.server, it.message)
    return found


def _said(config: ServerConfig, store: Store | None) -> Mapping[str, Any] | None:
    stored = None if store is None else store.namespace(SERVERS).get(catalog_key(config))
    value: object = None if stored is None else stored.value
    if not isinstance(value, Mapping):
        return None
    said: object = cast("Mapping[str, Any]", value).get("negotiated")
    return cast("Mapping[str, Any]", said) if isinstance(said, Mapping) else {}


def _text(said: Mapping[str, Any] | None, field: str) -> str | None:
    value: object = None if said is None else said.get(field)
    return value if isinstance(value, str) and value else None
