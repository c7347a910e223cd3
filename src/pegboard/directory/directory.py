"""ServerDirectory: search an MCP registry and look servers up in it, or in what is cached of it."""

import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlencode

import anyio
import msgspec
from anyio import to_thread

from pegboard.directory.registry_client import RegistryClient, checked_url, decoded
from pegboard.directory.response_cache import ResponseCache
from pegboard.directory.server_json import (
    SERVER_NAME,
    VERSION,
    DirectoryEntry,
    ListedPage,
    read_entry,
    read_page,
)
from pegboard.directory.versions import is_newer
from pegboard.errors import (
    DirectoryEntryNotFoundError,
    DirectoryResponseError,
    DirectoryUnavailableError,
)

__all__ = ["LATEST", "OFFICIAL_REGISTRY", "FoundServers", "LookedUp", "ServerDirectory"]

OFFICIAL_REGISTRY = "https://registry.modelcontextprotocol.io"
"""The registry that is asked if no other is named."""
LATEST = "latest"
_SERVERS = "/v0.1/servers"
_MOST_PAGES = 10
_MOST_WORDS = 4
_PAGE = 100
_LONGEST_QUERY = 200
_SECONDS_TO_SEARCH = 60.0


class FoundServers(msgspec.Struct, frozen=True, kw_only=True):
    """What a search has found."""

    entries: tuple[DirectoryEntry, ...]
    unreadable: int = 0
    """How many entries were left out because they have a wrong shape."""
    is_cut: bool = False
    """Whether there are more."""
    cached_at: float | None = None
    """When it was cached, if it comes from the cache: the time of the oldest part."""
    problem: str = ""
    """Why the registry was not asked, or could not be reached."""


class LookedUp(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a server, and whether it comes from the cache."""

    entry: DirectoryEntry
    cached_at: float | None = None
    problem: str = ""


class ServerDirectory:
    """One MCP registry, with a cache on disk; use it as `open` gives it.

    Everything it has answered is cached. If it cannot be reached, the cache answers, however old
    it is, and the result says so.
    """

    def __init__(self, url: str, client: RegistryClient | None, cache: ResponseCache) -> None:
        self.url: str = url
        """The URL of the registry."""
        self._client = client
        self._cache = cache
        self._unavailable: DirectoryUnavailableError | None = None

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        url: str = OFFICIAL_REGISTRY,
        *,
        allow_http: bool = False,
        offline: bool = False,
        cache: ResponseCache | None = None,
    ) -> AsyncGenerator["ServerDirectory"]:
        """Open a registry; nothing is sent before it is asked.

        Args:
            url: of the registry.
            allow_http: whether it may be asked in the clear; on this machine it always may.
            offline: ask nothing but the cache.
            cache: instead of the one in the user's state folder.

        Raises:
            ConfigError: when the URL cannot be used.
        """
        url = checked_url(url, allow_http=allow_http)
        cache = cache or ResponseCache()
        if offline:
            yield cls(url, None, cache)
            return
        async with RegistryClient.open(url, allow_http=allow_http) as client:
            yield cls(url, client, cache)

    async def search(self, text: str = "", *, limit: int = 20) -> FoundServers:
        """Find servers whose names or descriptions contain a text; the latest version of each.

        If nothing has the whole text, servers are found that have one of its words.

        Raises:
            DirectoryUnavailableError: when the registry cannot be reached and nothing is cached.
            DirectoryResponseError: when its answer cannot be used.
        """
        text = " ".join(text.split())[:_LONGEST_QUERY]
        try:
            with anyio.fail_after(_SECONDS_TO_SEARCH):
                found = await self._search(text, limit)
                words = text.split()
                if not found.entries and len(words) > 1:
                    found = await self._search_words(words[:_MOST_WORDS], limit)
                return found
        except DirectoryUnavailableError as error:
            problem = error
        except TimeoutError:
            words = f"The registry {self.url} took more than {_SECONDS_TO_SEARCH:.0f} seconds."
            problem = DirectoryUnavailableError(words, registry=self.url)
        return await to_thread.run_sync(self._search_cache, text, limit, problem)

    async def look_up(self, name: str, version: str = LATEST) -> LookedUp:
        """Return one version of a server, or the latest one.

        Raises:
            DirectoryEntryNotFoundError: when there is no such server or version.
            DirectoryUnavailableError: when the registry cannot be reached and nothing is cached.
            DirectoryResponseError: when its answer cannot be used.
        """
        if not SERVER_NAME.fullmatch(name) or not VERSION.fullmatch(version):
            raise DirectoryEntryNotFoundError(name, version=version, registry=self.url)
        path = f"{_SERVERS}/{quote(name, safe='')}/versions/{quote(version, safe='')}"

        def read(content: bytes) -> DirectoryEntry:
            entry = read_entry(decoded(content, self.url), registry=self.url)
            is_it = entry.name == name and version in (LATEST, entry.version)
            if not is_it:
                raise DirectoryResponseError(
                    f"The registry {self.url} was asked for {name} {version}, and answered with "
                    f"{entry.name} {entry.version}.",
                    registry=self.url,
                )
            return entry

        try:
            return LookedUp(entry=await self._fetch(path, {}, read))
        except DirectoryEntryNotFoundError:
            told = "" if version == LATEST else version
            raise DirectoryEntryNotFoundError(name, version=told, registry=self.url) from None
        except DirectoryUnavailableError as error:
            kept = await to_thread.run_sync(self._cache.get, self.url, path)
            if kept is not None:
                return LookedUp(entry=read(bytes(kept.body)), cached_at=kept.at, problem=str(error))
            return await to_thread.run_sync(self._look_up_listed, name, version, error)

    async def versions(self, name: str) -> FoundServers:
        """Return the versions of a server, as the registry orders them.

        Raises:
            DirectoryEntryNotFoundError: when there is no such server.
            DirectoryUnavailableError: when the registry cannot be reached and nothing is cached.
            DirectoryResponseError: when its answer cannot be used.
        """
        if not SERVER_NAME.fullmatch(name):
            raise DirectoryEntryNotFoundError(name, registry=self.url)
        path = f"{_SERVERS}/{quote(name, safe='')}/versions"
        try:
            page = await self._fetch(path, {}, self._page)
        except DirectoryEntryNotFoundError:
            raise DirectoryEntryNotFoundError(name, registry=self.url) from None
        except DirectoryUnavailableError as error:
            kept = await to_thread.run_sync(self._cache.get, self.url, path)
            if kept is None:
                raise
            entries = self._page(bytes(kept.body)).entries
            return FoundServers(entries=entries, cached_at=kept.at, problem=str(error))
        entries = tuple(it for it in page.entries if it.name == name)
        return FoundServers(entries=entries, unreadable=page.unreadable)

    async def _search(self, text: str, limit: int) -> FoundServers:
        query = {"search": text} if text else {}
        query |= {"version": LATEST, "limit": str(min(limit, _PAGE))}
        return await self._listed(query, limit)

    async def _search_words(self, words: Sequence[str], limit: int) -> FoundServers:
        """Ask for each word, and put those first that have most of the words."""
        found = [await self._search(it, _PAGE) for it in words]
        entries = {it.name: it for one in found for it in one.entries}
        ranked = sorted(entries.values(), key=lambda it: -_matches(it, words))
        return FoundServers(
            entries=tuple(ranked[:limit]),
            unreadable=max(it.unreadable for it in found),
            is_cut=len(ranked) > limit,
        )

    async def _listed(self, query: dict[str, str], limit: int) -> FoundServers:
        entries: dict[str, DirectoryEntry] = {}
        unreadable, cursors = 0, set[str]()
        cursor = ""
        for _ in range(_MOST_PAGES):
            asked = {**query, "cursor": cursor} if cursor else query
            page = await self._fetch(_SERVERS, asked, self._page)
            for it in page.entries:
                known = entries.get(it.name)
                # Some registries list every version.
                is_latest = known is None or is_newer(it.version, known.version)
                if it.status != "deleted" and is_latest:
                    entries[it.name] = it
            unreadable += page.unreadable
            cursor = page.cursor
            # A registry that gives the same cursor again would never end.
            if not cursor or cursor in cursors or len(entries) > limit:
                break
            cursors.add(cursor)
        listed = tuple(entries.values())
        is_cut = len(listed) > limit or bool(cursor)
        return FoundServers(entries=listed[:limit], unreadable=unreadable, is_cut=is_cut)

    async def _fetch(self, path: str, query: dict[str, str], read: Callable[[bytes], Any]) -> Any:
        """Ask the registry, and cache the answer once it was read."""
        if self._client is None:
            problem = f"The registry {self.url} is not asked, with `--offline`."
            raise DirectoryUnavailableError(problem, registry=self.url)
        if self._unavailable is not None:
            # It is not waited for once more.
            raise DirectoryUnavailableError(str(self._unavailable), registry=self.url)
        try:
            content = await self._client.get(path, query)
        except DirectoryUnavailableError as error:
            self._unavailable = error
            raise
        found = read(content)
        await to_thread.run_sync(self._cache.put, self.url, _request(path, query), content)
        return found

    def _page(self, content: bytes) -> ListedPage:
        return read_page(decoded(content, self.url), registry=self.url)

    def _search_cache(
        self, text: str, limit: int, error: DirectoryUnavailableError
    ) -> FoundServers:
        """Search everything that is cached of the registry.

        Raises:
            DirectoryUnavailableError: when nothing is.
        """
        words = text.split()
        known: dict[str, tuple[DirectoryEntry, float]] = {}
        for entry, at, is_latest in self._cached():
            if is_latest and entry.status != "deleted":
                known.setdefault(entry.name, (entry, at))
        if not known:
            raise _with_nothing_cached(error)
        fitting = [(it, at) for it, at in known.values() if _matches(it, words) == len(words)]
        if not fitting:
            fitting = [(it, at) for it, at in known.values() if _matches(it, words)]
        fitting.sort(key=lambda it: (-_matches(it[0], words), it[0].name))
        return FoundServers(
            entries=tuple(it for it, _ in fitting[:limit]),
            is_cut=len(fitting) > limit,
            cached_at=min((at for _, at in fitting[:limit]), default=time.time()),
            problem=str(error),
        )

    def _look_up_listed(
        self, name: str, version: str, error: DirectoryUnavailableError
    ) -> LookedUp:
        for entry, at, is_latest in self._cached():
            is_it = is_latest if version == LATEST else version == entry.version
            if entry.name == name and is_it:
                return LookedUp(entry=entry, cached_at=at, problem=str(error))
        raise _with_nothing_cached(error)

    def _cached(self) -> Iterator[tuple[DirectoryEntry, float, bool]]:
        """Give every entry that is cached, when, and whether it was the latest; new ones first."""
        for kept in self._cache.all_of(self.url):
            path = kept.request.partition("?")[0]
            try:
                body = decoded(bytes(kept.body), self.url)
                if path == _SERVERS or path.endswith("/versions"):
                    entries = read_page(body, registry=self.url).entries
                else:
                    entries = (read_entry(body, registry=self.url),)
            except DirectoryResponseError:
                continue
            is_latest = path == _SERVERS or path.endswith(f"/versions/{LATEST}")
            yield from ((it, kept.at, is_latest) for it in entries)


def _request(path: str, query: dict[str, str]) -> str:
    return f"{path}?{urlencode(sorted(query.items()))}" if query else path


def _matches(entry: DirectoryEntry, words: Sequence[str]) -> int:
    told = f"{entry.name} {entry.title} {entry.description}".casefold()
    return sum(it.casefold() in told for it in words)


def _with_nothing_cached(error: DirectoryUnavailableError) -> DirectoryUnavailableError:
    return DirectoryUnavailableError(
        f"{error} Nothing that answers this is cached.", registry=error.registry
    )
