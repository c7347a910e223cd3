"""Open what says who asks: API keys, tokens, and what other packages offer."""

from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
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

Background = Callable[[], Coroutine[Any, Any, None]]
"""What a kind of credential does while nobody asks; until it is cancelled."""


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
        kinds, background = await anyio.to_thread.run_sync(partial(_open, settings, storage, stack))
        closing = stack.pop_all()
    try:
        async with _working(background):
            yield Door(kinds)
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(closing.close)


@asynccontextmanager
async def _working(background: Sequence[Background]) -> AsyncGenerator[None]:
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        for it in background:
            tasks.start_soon(it)
        try:
            yield
        except Exception as error:  # noqa: BLE001 - raised below, as it is and not in a group
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


def _open(
    settings: AuthSettings, storage: str | Path | None, stack: ExitStack
) -> tuple[list[KindOfCredential], list[Background]]:
    kinds: list[KindOfCredential] = []
    background: list[Background] = []
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
        issued = tokens.IssuedTokens(settings)
        kinds.append(cast("KindOfCredential", issued))
        background.append(cast("Background", issued.keep_fresh))
        stack.callback(kinds[-1].close)
    return kinds, background


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
