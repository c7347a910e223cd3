"""SkillFallback: skills as prompts and resources, for clients that do not know the extension."""

from collections.abc import Container
from typing import Any

from pegboard.gateway.builtin_tool import CallerContext
from pegboard.gateway.request import object_in
from pegboard.gateway.skills.catalog import ShownSkill, SkillCatalog
from pegboard.gateway.skills.listings import SkillListings
from pegboard.gateway.skills.reading import SkillReader
from pegboard.hub import Hub
from pegboard.upstream.messages.extensions import SKILLS

__all__ = ["SkillFallback", "origin_line"]


class SkillFallback:
    """One prompt and one resource for each skill that a client may see.

    Args:
        hub: names the prompts of its servers.
        listings: the cached lists.
        catalog: who may see which skill.
        reader: reads and checks the files.
    """

    def __init__(
        self, hub: Hub, listings: SkillListings, catalog: SkillCatalog, reader: SkillReader
    ) -> None:
        self._hub = hub
        self._listings = listings
        self._catalog = catalog
        self._reader = reader

    async def resources(
        self, caller: CallerContext, *, listed: list[dict[str, Any]], taken: Container[str]
    ) -> list[dict[str, Any]]:
        """Return each ``SKILL.md`` that the client sees in no list so far, as a resource."""
        if not await self._is_needed(caller):
            return []
        uris = {it.get("uri") for it in listed}
        return [
            {
                "uri": it.uri,
                "name": it.skill.name,
                "description": it.description,
                "mimeType": "text/markdown",
            }
            for it in self._catalog.seen(caller.visibility)
            if it.uri not in uris and it.uri not in taken
        ]

    async def prompts(
        self, caller: CallerContext, *, taken: Container[str]
    ) -> list[dict[str, Any]]:
        """Return the prompts, none of which has the name of a server's own prompt."""
        if not await self._is_needed(caller):
            return []
        named = self._named(caller, taken)
        return [{"name": name, "description": it.description} for name, it in named.items()]

    async def prompt(
        self, name: object, caller: CallerContext, *, taken: Container[str]
    ) -> dict[str, Any] | None:
        """Return the result of `prompts/get` for a skill; ``None`` if no skill has that prompt.

        Raises:
            AccessDeniedError: when the client may only see the skill.
            SkillIntegrityError: when the ``SKILL.md`` is not what its entry says.
            UpstreamError: when its server cannot be reached.
        """
        if not isinstance(name, str) or name in taken or not await self._is_needed(caller):
            return None
        found = self._named(caller, taken).get(name)
        if found is None:
            return None
        caller.visibility.check_use(found.skill.server, found.uri)
        content = await self._reader.read(found.skill, found.skill.uri)
        text = f"{origin_line(found)}\n\n{content.decode('utf-8', 'replace')}"
        message = {"role": "user", "content": {"type": "text", "text": text + self._files(found)}}
        return {"description": found.description, "messages": [message]}

    def _files(self, shown: ShownSkill) -> str:
        files = [it for it in shown.skill.files or () if it != shown.skill.uri]
        if not files:
            return ""
        uris = (self._catalog.exposed(shown.skill.server, it) for it in files)
        return "\n\nFiles of this skill, as resources:\n" + "\n".join(f"- {it}" for it in uris)

    def _named(self, caller: CallerContext, taken: Container[str]) -> dict[str, ShownSkill]:
        named: dict[str, ShownSkill] = {}
        for it in self._catalog.seen(caller.visibility):
            server, name = it.skill.server, it.skill.name
            shown = name if server is None else self._hub.exposed_name(server, name)
            if shown in taken or shown in named:
                # The label is unique, because it has the whole path.
                shown = it.label
            if shown not in taken:
                named.setdefault(shown, it)
        return named

    async def _is_needed(self, caller: CallerContext) -> bool:
        extensions = object_in(caller.client.capabilities.get("extensions"))
        if SKILLS in extensions or not self._listings.sources():
            return False
        await self._listings.current()
        return True


def origin_line(shown: ShownSkill) -> str:
    """Return the line that tells a model where a skill comes from."""
    server = shown.skill.server
    owner = "this machine" if server is None else f"MCP server {server!r}"
    return f"[Skill {shown.label!r}, published by {owner}.]"
