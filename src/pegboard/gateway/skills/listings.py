"""SkillListings: the skills that each server and the local folder list, cached and checked."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from anyio.to_thread import run_sync
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND

from pegboard.errors import (
    PegboardError,
    ProtocolError,
    ServerNotFoundError,
    SkillNotFoundError,
)
from pegboard.hub import Hub
from pegboard.model.json_values import object_in
from pegboard.skills import Skill, SkillFile, SkillFolder, read_entry
from pegboard.skills.entry import MAIN, InvalidSkill
from pegboard.upstream import (
    CallContext,
    ResourcesChanged,
    ServerState,
    ServerUp,
    UpstreamServer,
    context_of_call,
)
from pegboard.upstream.messages.extensions import SKILLS
from pegboard.upstream.session.list_pages import read_pages

__all__ = ["CacheHints", "SkillListings"]

logger: logging.Logger = logging.getLogger("pegboard.gateway")

MOST_SKILLS = 5_000
"""How many skills of one server are taken."""
_LEAST_FRESH = 1.0
"""Seconds that a list counts as current, even if its server says that it is never."""
_AFTER_FAILURE = 10.0
_MOST_GOT = 512
"""How many skills are remembered that no list has."""
_MOST_TOLD = 20
"""So many invalid entries of a list are named in the log; the others are counted."""
_TURN = 50
_OURS = CallContext(capabilities={"extensions": {SKILLS: {}}})

Source = str | None
"""The name of a server; ``None`` for the folder of this machine."""


class CacheHints(msgspec.Struct, frozen=True):
    """How long and for whom a list or an entry may be cached."""

    ttl_ms: int
    is_public: bool

    def merged(self, others: Iterable["CacheHints"]) -> "CacheHints":
        """Return the smallest time and the most private scope of all."""
        every = [self, *others]
        return CacheHints(min(it.ttl_ms for it in every), all(it.is_public for it in every))

    def fields(self) -> dict[str, Any]:
        """Return them as the protocol writes them."""
        return {"ttlMs": self.ttl_ms, "cacheScope": "public" if self.is_public else "private"}


class _SkillList:
    """The last list of one source, and the state of the next request for it."""

    def __init__(self, hints: CacheHints) -> None:
        self.skills: dict[str, Skill] | None = None
        self.hints = hints
        self.is_stale = True
        self.listed_at = 0.0
        self.asked_at = 0.0
        self.failed_at = -_AFTER_FAILURE
        self.arriving: anyio.Event | None = None

    def holding(self, uri: str) -> tuple[Skill, SkillFile] | None:
        """Return the skill that has a file, and what its entry says of the file."""
        # A file of a nested skill belongs to both; the inner one is checked.
        folder = uri
        while self.skills and "/" in folder:
            folder = folder.rpartition("/")[0]
            skill = self.skills.get(f"{folder}/{MAIN}")
            if skill is not None and skill.files is not None and uri in skill.files:
                return skill, skill.files[uri]
        return None

    async def is_as(self, skills: Mapping[str, Skill]) -> bool:
        """Tell whether it has the same entries; many take some time to compare."""
        before = self.skills
        if before is None or before.keys() != skills.keys():
            return False
        for number, (uri, skill) in enumerate(skills.items()):
            if number % _TURN == 0:
                await checkpoint()
            if before[uri].entry != skill.entry:
                return False
        return True


class SkillListings:
    """The skills of one hub by source. No request waits twice for a server that does not answer.

    Args:
        hub: its servers are asked.
        group: runs the tasks that ask them, so that a late answer is cached, too.
        seconds: how long a list waits for a server.
        ttl_ms: how long a list counts as current, at most.
        on_change: called when a list has changed.
    """

    def __init__(
        self,
        hub: Hub,
        group: TaskGroup,
        *,
        seconds: float,
        ttl_ms: int,
        on_change: Callable[[], None],
    ) -> None:
        self._hub = hub
        self._group = group
        self._seconds = seconds
        self._hints = CacheHints(ttl_ms, is_public=True)
        self._on_change = on_change
        self._lists: dict[Source, _SkillList] = {}
        self._got: OrderedDict[tuple[str, str], Skill] = OrderedDict()
        self._folder: SkillFolder | None = None
        self._sources: list[Source] = []

    @property
    def folder(self) -> SkillFolder | None:
        """The folder that the configuration names."""
        path = self._hub.loaded.skills
        if path != (None if self._folder is None else self._folder.path):
            # The configuration was read again.
            self._folder = None if path is None else SkillFolder(path)
            self._lists.pop(None, None)
        return self._folder

    def sources(self) -> list[Source]:
        """Return the folder and the servers that have skills, or may have them."""
        local: list[Source] = [] if self.folder is None else [None]
        names = (it.config.name for it in self._hub.enabled_servers())
        return [*local, *sorted(name for name in names if self.offers(name))]

    def offers(self, server: str) -> bool:
        """Tell whether a server has the extension; true if that is not known yet."""
        said = self._settings(server)
        return said is None or isinstance(said.get("skills"), dict)

    def reads_directories(self, server: str) -> bool:
        """Tell whether a server has `resources/directory/read`."""
        said = object_in((self._settings(server) or {}).get("skills"))
        return said.get("directoryRead") is True

    def known(self) -> dict[Source, tuple[Mapping[str, Skill], CacheHints]]:
        """Return what is cached."""
        known = ((source, self._lists.get(source)) for source in self.sources())
        return {
            source: (it.skills, it.hints)
            for source, it in known
            if it is not None and it.skills is not None
        }

    async def current(self, *, wakes: bool = True) -> bool:
        """Ask the sources whose lists are due, and wait for them, but not long.

        It returns true if no list is on its way any more.

        Args:
            wakes: otherwise servers that sleep are left alone, and only a source that has never
                answered is waited for.
        """
        asked: list[_SkillList] = []
        sources = self.sources()
        if sources != self._sources:
            # The skills of a server that is gone or switched off go with it.
            self._sources = sources
            self._on_change()
        for source in sources:
            known = self._asked(source, wakes=wakes)
            if known is not None and (wakes or known.skills is None):
                asked.append(known)
        for known in asked:
            with anyio.move_on_after(known.asked_at + self._seconds - monotonic()):
                if known.arriving is not None:
                    await known.arriving.wait()
        return not any(it.arriving for it in self._lists.values())

    async def look_at_folder(self) -> None:
        """Wait until changes of the folder are noticed."""
        if self.folder is not None:
            known = self._asked(None, wakes=True)
            if known is not None and known.arriving is not None:
                await known.arriving.wait()

    async def holding(self, server: str, uri: str) -> tuple[Skill, SkillFile] | None:
        """Return the skill of a server that has a file, and what its entry says of the file."""
        if not self.offers(server):
            return None
        known = self._asked(server, wakes=True) or self._lists[server]
        if known.skills is None and known.arriving is not None:
            with anyio.move_on_after(known.asked_at + self._seconds - monotonic()):
                await known.arriving.wait()
        found = known.holding(uri)
        if found is not None:
            return found
        for (name, _), skill in self._got.items():
            if name == server and skill.files is not None and uri in skill.files:
                return skill, skill.files[uri]
        return None

    def is_fresh(self, source: Source) -> bool:
        """Tell whether the source says that its list is current, so that it need not be asked."""
        known = self._lists.get(source)
        if known is None or known.skills is None or known.is_stale:
            return False
        return source is None or monotonic() - known.listed_at < known.hints.ttl_ms / 1000

    async def get(self, server: str, uri: str) -> tuple[Skill, CacheHints]:
        """Ask a server for the entry of one skill.

        Raises:
            SkillNotFoundError: when it has none there, or the entry is invalid.
            UpstreamError: when it cannot be reached.
        """
        upstream = self._hub.server(server)
        try:
            result = await _request(upstream, "skills/get", {"uri": uri})
            skill = read_entry(result.get("skill"), server)
        except ProtocolError as error:
            if error.rpc_code in (INVALID_PARAMS, METHOD_NOT_FOUND):
                self._forget(server, uri)
                raise SkillNotFoundError(uri) from error
            raise
        except InvalidSkill as error:
            _left_out(server, uri, str(error))
            raise SkillNotFoundError(uri) from error
        if skill.uri != uri:
            _left_out(server, uri, "the server returned another skill")
            raise SkillNotFoundError(uri)
        self._remember(skill)
        return skill, _hints_in([result], self._hints, upstream)

    def _remember(self, skill: Skill) -> None:
        assert skill.server is not None
        known = self._lists.get(skill.server)
        if known is not None and known.skills is not None and skill.uri in known.skills:
            if known.skills[skill.uri].entry != skill.entry:
                known.skills = {**known.skills, skill.uri: skill}
                self._on_change()
            return
        self._got[skill.server, skill.uri] = skill
        self._got.move_to_end((skill.server, skill.uri))
        while len(self._got) > _MOST_GOT:
            self._got.popitem(last=False)

    def _forget(self, server: str, uri: str) -> None:
        self._got.pop((server, uri), None)
        known = self._lists.get(server)
        if known is not None and known.skills is not None and uri in known.skills:
            known.skills = {place: it for place, it in known.skills.items() if place != uri}
            known.is_stale = True
            self._on_change()

    def _settings(self, server: str) -> dict[str, Any] | None:
        """Return the settings of the extension under ``skills``; ``None`` if they are unknown."""
        try:
            said = self._hub.server(server).connection.negotiated
        except ServerNotFoundError:
            return {}
        if said is None:
            return None
        extensions = object_in(said.capabilities.get("extensions"))
        return {"skills": extensions.get(SKILLS)}

    def take_in(self, event: ServerUp | ResourcesChanged) -> None:
        """Mark the list of a server as stale."""
        known = self._lists.get(event.server)
        if known is not None:
            known.is_stale = True
            known.failed_at = -_AFTER_FAILURE

    def _asked(self, source: Source, *, wakes: bool) -> _SkillList | None:
        """Ask a source if its list is due, and return the list that is on its way."""
        known = self._lists.setdefault(source, _SkillList(self._hints))
        if known.arriving is not None:
            return known
        if not self._is_due(known, source, wakes=wakes):
            return None
        known.arriving = anyio.Event()
        known.asked_at = monotonic()
        self._group.start_soon(self._fetch, source, known)
        return known

    def _is_due(self, known: _SkillList, source: Source, *, wakes: bool) -> bool:
        is_up = source is None or self._hub.server(source).connection.state == ServerState.READY
        if known.skills is None:
            return (wakes or is_up) and monotonic() - known.failed_at >= _AFTER_FAILURE
        # A server that sleeps is not woken only to refresh its list.
        return is_up and self._is_old(known, source)

    def _is_old(self, known: _SkillList, source: Source) -> bool:
        # Nothing tells of changed files, so the folder is looked through again.
        fresh = 0.0 if source is None else known.hints.ttl_ms / 1000
        fresh = max(_LEAST_FRESH, fresh)
        return known.is_stale or monotonic() - known.listed_at >= fresh

    async def _fetch(self, source: Source, known: _SkillList) -> None:
        known.is_stale = False
        try:
            if source is None:
                folder = self.folder
                skills = {} if folder is None else await run_sync(folder.skills)
                hints = self._hints
            else:
                skills, hints = await self._listed(source)
            known.hints, known.listed_at = hints, monotonic()
            if not await known.is_as(skills):
                known.skills = skills
                self._on_change()
        except PegboardError as error:
            known.failed_at, known.is_stale = monotonic(), True
            context = {"server": source, "reason": str(error)}
            logger.warning("list_failed: skills/list of %r: %s", source, error, extra=context)
        except Exception:
            known.failed_at = monotonic()
            logger.exception("list_failed: skills/list of %r", source)
        finally:
            if known.arriving is not None:
                known.arriving.set()
                known.arriving = None

    async def _listed(self, name: str) -> tuple[dict[str, Skill], CacheHints]:
        server = self._hub.server(name)
        if server.connection.negotiated is None:
            await server.start()
        if not self.offers(name):
            return {}, self._hints
        pages: list[dict[str, Any]] = []

        async def ask(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
            page = await _request(server, method, params)
            pages.append({key: page.get(key) for key in ("ttlMs", "cacheScope")})
            return page

        try:
            raw = await read_pages(ask, "skills/list", server.config)
        except ProtocolError as error:
            if error.rpc_code != METHOD_NOT_FOUND:
                raise
            raw = []
        return await _entries_in(raw, name), _hints_in(pages, self._hints, server)


async def _entries_in(raw: Iterable[object], server: str) -> dict[str, Skill]:
    """Return the skills of a list by URI, read in turns with other work."""
    found: dict[str, Skill] = {}
    invalid = 0
    for entry in raw:
        # An entry may have half a megabyte.
        await checkpoint()
        if len(found) == MOST_SKILLS:
            _left_out(server, "", f"it has more than {MOST_SKILLS} skills")
            break
        try:
            skill = read_entry(entry, server)
        except InvalidSkill as error:
            invalid += 1
            if invalid <= _MOST_TOLD:
                _left_out(server, str(object_in(entry).get("uri"))[:200], str(error))
            continue
        found.setdefault(skill.uri, skill)
    if invalid > _MOST_TOLD:
        _left_out(server, "", f"{invalid - _MOST_TOLD} more of its entries are not valid")
    return found


async def _request(
    server: UpstreamServer, method: str, params: Mapping[str, Any]
) -> dict[str, Any]:
    """Send a request of the gateway itself, which declares the extension."""
    token = context_of_call.set(_OURS)
    try:
        return await server.request(method, params)
    finally:
        context_of_call.reset(token)


def _hints_in(
    results: Iterable[Mapping[str, Any]], most: CacheHints, server: UpstreamServer
) -> CacheHints:
    said = server.connection.negotiated
    # Without this field, a server of the handshake era means: until it tells of a change.
    default = most.ttl_ms if said is not None and said.era == "legacy" else 0
    hints = [most]
    for it in results:
        ttl: object = it.get("ttlMs")
        if not isinstance(ttl, int) or isinstance(ttl, bool) or ttl < 0:
            ttl = default
        hints.append(CacheHints(ttl, is_public=it.get("cacheScope") == "public"))
    return most.merged(hints)


def _left_out(server: str, uri: str, reason: str) -> None:
    context = {"server": server, "reason": reason}
    logger.warning("skill_left_out: %r of server %r: %s", uri, server, reason, extra=context)
