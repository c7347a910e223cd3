"""Lists of a server, page by page: the most pages, items, bytes and values that are read."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

import anyio
import msgspec
from anyio.lowlevel import checkpoint

from pegboard.config import ServerConfig
from pegboard.errors import ProtocolError, ServerTimeoutError, UpstreamError

__all__ = ["read_pages"]

MAX_PAGES = 1000
MAX_ITEMS = 200_000
MAX_BYTES = 64 * 1024 * 1024
MAX_RESPONSES = 20
"""How many times the values of one response all pages together may have."""

_STEP = 64 * 1024
_encode = msgspec.json.Encoder().encode

AskForPage = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]


async def read_pages(ask: AskForPage, method: str, config: ServerConfig) -> list[dict[str, Any]]:
    """Return the items of all pages of a list such as ``tools/list``.

    A list beyond the limits is an error: a part of it would hide tools at random.

    Args:
        ask: requests one page, by the method and the parameters.
        method: the method of the list.
        config: the server.

    Raises:
        UpstreamError: when a page failed, or the list is too long or never ends.
    """
    items: list[dict[str, Any]] = []
    try:
        await _read_into(items, ask, method, config)
    except UpstreamError as error:
        # An error is kept as the last one of its server, and with it what its frames hold.
        items.clear()
        raise error.with_traceback(None) from None
    return items


async def _read_into(
    items: list[dict[str, Any]], ask: AskForPage, method: str, config: ServerConfig
) -> None:
    limit = config.timeouts.list
    key = "resourceTemplates" if "templates" in method else method.partition("/")[0]
    extent = _Extent(method, config)
    with anyio.move_on_after(limit):
        cursors: set[str] = set()
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            page = await ask(method, {"cursor": cursor} if cursor else {})
            found: object = page.get(key) or []
            more: object = page.get("nextCursor") or None
            if not isinstance(found, list) or not isinstance(more, str | None):
                raise _wrong(config, f"does not return a list for `{method}`")
            cursor = more
            await extent.add(cast("list[object]", found), more=more)
            items.extend(cast("list[dict[str, Any]]", found))
            if cursor is None:
                return
            if cursor in cursors:
                break
            cursors.add(cursor)
        raise _wrong(config, f"never ends its list `{method}`")
    raise ServerTimeoutError(
        f"Server {config.name!r} did not finish `{method}` within {limit:g} s. Raise its "
        "`timeouts.list` if it needs longer.",
        server=config.name,
    )


class _Extent:
    """How much of a list was read."""

    def __init__(self, method: str, config: ServerConfig) -> None:
        self._method = method
        self._config = config
        self._items = self._bytes = self._values = 0

    async def add(self, items: list[object], *, more: str | None) -> None:
        """Count the items of a page.

        Raises:
            ProtocolError: when the list is too long.
        """
        self._items += len(items)
        self._bytes += len(more or "")
        self._check()
        counted = 0
        for item in items:
            text = _encode(item)
            counted += len(text)
            self._bytes += len(text)
            self._values += sum(map(text.count, (b",", b":", b"[", b"{")))
            if counted > _STEP:
                counted = 0
                self._check()
                await checkpoint()
        self._check()

    def _check(self) -> None:
        values = MAX_RESPONSES * self._config.max_response_values
        limits = (
            (self._items, MAX_ITEMS, "items"),
            (self._bytes, MAX_BYTES, "bytes"),
            (self._values, values, "values, 20 times its `max_response_values`"),
        )
        for found, most, what in limits:
            if found > most:
                words = f"lists too much: `{self._method}` has more than {most} {what}"
                raise _wrong(self._config, words)


def _wrong(config: ServerConfig, words: str) -> ProtocolError:
    return ProtocolError(f"Server {config.name!r} {words}.", server=config.name)
