"""Open what says who asks: API keys, tokens, and what other packages offer."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.to_thread

from pegboard.auth.api_keys import ApiKeys
from pegboard.auth.authenticator import Authenticator, Door, KindOfCredential, OpenDoor
from pegboard.auth.settings import AuthSettings
from pegboard.errors import ConfigError
from pegboard.model.principal import OPERATOR
from pegboard.storage import open_store

__all__ = ["ENTRY_POINTS", "open_authenticator"]

ENTRY_POINTS = "pegboard.authenticators"

Plugin = Callable[[Mapping[str, Any]], KindOfCredential]
"""Takes its options from the settings."""


@asynccontextmanager
async def open_authenticator(
    settings: AuthSettings, *, storage: str | Path | None = None
) -> AsyncGenerator[Authenticator]:
    """Give what says who asks, for as long as the context lasts.

    Args:
        settings: which credentials are accepted.
        storage: where API keys are kept; a URL or path as for `open_store`.

    Raises:
        ConfigError: when a plug-in is missing or cannot be used.
        StorageError: when the keys cannot be read.
    """
    if not settings.required:
        yield OpenDoor()
        return
    with ExitStack() as stack:
        kinds = await anyio.to_thread.run_sync(partial(_open, settings, storage, stack))
        closing = stack.pop_all()
    try:
        yield Door(kinds)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(closing.close)


def _open(
    settings: AuthSettings, storage: str | Path | None, stack: ExitStack
) -> list[KindOfCredential]:
    kinds: list[KindOfCredential] = []
    if settings.keys:
        store = stack.enter_context(open_store(storage, tenant=OPERATOR))
        kinds.append(ApiKeys(store))
        stack.callback(kinds[-1].close)
    for name, options in settings.plugins.items():
        kinds.append(_plugin(name)(options))
        stack.callback(kinds[-1].close)
    if settings.issuers:
        # Only here: who has no tokens need not load what checks signatures.
        tokens = import_module("pegboard.auth.jwt")
        kinds.append(cast("KindOfCredential", tokens.IssuedTokens(settings)))
        stack.callback(kinds[-1].close)
    return kinds


def _plugin(name: str) -> Plugin:
    for plugin in entry_points(group=ENTRY_POINTS, name=name):
        try:
            return plugin.load()
        except (ImportError, AttributeError) as error:
            raise ConfigError(f"The authenticator {name!r} cannot be used: {error}.") from error
    known = ", ".join(sorted(entry_points(group=ENTRY_POINTS).names)) or "none"
    raise ConfigError(
        f"Nobody offers the authenticator {name!r} (there are: {known}). Install a package that "
        f"has it under the entry point {ENTRY_POINTS!r}."
    )
