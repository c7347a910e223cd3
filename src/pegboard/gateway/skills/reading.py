"""SkillReader: reads files of skills, and passes on only what their entries describe."""

import posixpath
from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import quote, unquote

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from pegboard.errors import SkillIntegrityError, SkillNotFoundError
from pegboard.gateway.builtin_tool import CallerContext
from pegboard.gateway.skills.catalog import SkillCatalog
from pegboard.gateway.skills.listings import SkillListings
from pegboard.hub import Hub
from pegboard.model.json_values import object_in
from pegboard.skills import Skill, SkillFile, check_content, raw_content
from pegboard.skills.entry import MOST_BYTES
from pegboard.skills.folder import content_item
from pegboard.skills.integrity import check_front_matter

__all__ = ["SkillReader", "file_of", "path_of"]

_LARGE = 256 * 1024
"""Bytes from which a digest is computed in a thread."""
_LOCAL = "skill://"
"""How the URIs of the skills of this machine begin."""


class SkillReader:
    """Reads and checks the files of the skills of one hub.

    Args:
        hub: its servers have the files.
        listings: what the entries say.
        catalog: the URIs of skills in the gateway.
    """

    def __init__(self, hub: Hub, listings: SkillListings, catalog: SkillCatalog) -> None:
        self._hub = hub
        self._listings = listings
        self._catalog = catalog
        # In a thread: YAML of a few kilobytes can take half a second. One at a time: threads that
        # compute keep the event loop from its turns.
        self._yaml = CapacityLimiter(1)

    async def local(self, uri: str, caller: CallerContext) -> dict[str, Any] | None:
        """Return the result of reading a file of the folder of this machine, or ``None``."""
        folder = self._listings.folder
        if folder is None or not uri.startswith(_LOCAL):
            return None
        if not self._catalog.sees_uri(None, uri, caller.visibility):
            return None
        found = await run_sync(folder.read, uri)
        if found is None:
            return None
        caller.visibility.check_use(None, uri)
        # Large pictures take long to encode.
        return {"contents": [await run_sync(content_item, uri, found[1])]}

    async def check(self, server: str, uri: str, result: Mapping[str, Any]) -> None:
        """Check what a server returned for one of its URIs, if it is a file of a skill.

        If the file is not what the entry says, the entry may be out of date, so it is asked for
        again.

        Raises:
            SkillIntegrityError: when the file is not what the entry says.
        """
        if not self._listings.offers(server) or "contents" not in result:
            return
        found = await self._listings.holding(server, uri)
        if found is not None:
            await self._checked(*found, uri, result["contents"])

    async def read(self, skill: Skill, uri: str) -> bytes:
        """Return a file of a skill, by its URI at the server; the file is checked.

        Raises:
            SkillNotFoundError: when the skill has no such file.
            SkillIntegrityError: when the file is not what the entry says, or is too large.
            UpstreamError: when the server cannot be reached.
        """
        if skill.server is None:
            folder = self._listings.folder
            found = None if folder is None else await run_sync(folder.read, uri)
            if found is None:
                raise SkillNotFoundError(uri, within=skill.name)
            return found[1]
        if not skill.holds(uri) or (skill.files is not None and uri not in skill.files):
            raise SkillNotFoundError(uri, nearest=_paths(skill), within=skill.name)
        result = await self._hub.server(skill.server).request("resources/read", {"uri": uri})
        contents: object = result.get("contents")
        if skill.files is not None:
            content = await self._checked(skill, skill.files[uri], uri, contents)
            return await self._checked_main(skill, uri, content)
        items = cast("list[Any]", contents) if isinstance(contents, list) else []
        content = raw_content(object_in(items[0])) if len(items) == 1 else None
        if content is None or len(content) > MOST_BYTES:
            words = f"Server {skill.server!r} returned no file, or one that is too large."
            raise SkillIntegrityError(words, server=skill.server, skill=skill.uri, uri=uri)
        return await self._checked_main(skill, uri, content)

    async def _checked(self, skill: Skill, file: SkillFile, uri: str, contents: object) -> bytes:
        try:
            return await _check(skill, uri, file, contents)
        except SkillIntegrityError as error:
            assert skill.server is not None
            try:
                fresh, _ = await self._listings.get(skill.server, skill.uri)
            except SkillNotFoundError:
                raise error from None
            now = None if fresh.files is None else fresh.files.get(uri)
            if now is None or now == file:
                raise
            return await _check(fresh, uri, now, contents)

    async def _checked_main(self, skill: Skill, uri: str, content: bytes) -> bytes:
        if uri != skill.uri:
            return content
        return await run_sync(check_front_matter, skill, content, limiter=self._yaml)


def file_of(skill: Skill, path: str) -> str:
    """Return the URI of a file of a skill at its server, by its path in the folder of the skill.

    Raises:
        SkillNotFoundError: when the skill has no such file.
    """
    wanted = posixpath.normpath(path)
    if skill.files is None:
        if wanted.startswith(("/", "..")):
            raise SkillNotFoundError(path, within=skill.name)
        return f"{skill.root}/{quote(wanted)}"
    paths = {path_of(skill, it): it for it in skill.files}
    if wanted not in paths:
        raise SkillNotFoundError(path, nearest=sorted(paths), within=skill.name)
    return paths[wanted]


def path_of(skill: Skill, uri: str) -> str:
    """Return the path of a file in the folder of its skill, as models read and write it."""
    quoted = uri.removeprefix(f"{skill.root}/")
    path = unquote(quoted)
    # A line break in a name would forge a line of the text that says who published the skill.
    return path if path.isprintable() else quoted


async def _check(skill: Skill, uri: str, file: SkillFile, contents: object) -> bytes:
    if file.size < _LARGE:
        return check_content(skill, uri, file, contents)
    return await run_sync(check_content, skill, uri, file, contents)


def _paths(skill: Skill) -> list[str]:
    return [it.removeprefix(f"{skill.root}/") for it in skill.files or ()]
