"""SkillCatalog: the skills of one tenant, their URIs and labels here, and what searches find."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec
from mcp_types import INVALID_PARAMS

from pegboard.errors import ServerNotFoundError, SkillNotFoundError
from pegboard.gateway.catalog.tool_list import NO_CURSOR, cursor_after, position_of
from pegboard.gateway.request import RpcError
from pegboard.gateway.resource_uris import ResourceUris, server_of
from pegboard.gateway.skills.listings import CacheHints, SkillListings
from pegboard.gateway.tool_lines import first_sentence
from pegboard.gateway.visibility import Visibility
from pegboard.hub import Hub
from pegboard.model import Tool
from pegboard.model.tool_names import MAX_READ, nearest_names
from pegboard.skills import Skill
from pegboard.skills.entry import MAIN

__all__ = ["ShownSkill", "SkillCatalog", "SkillLine", "shown_entry"]

logger: logging.Logger = logging.getLogger("pegboard.gateway")

_MARK = "skill:"
"""Begins the names of skills in the search index, so that no tool has the same."""
_TAGS = ("skill",)
_LONGEST_LABEL = 400
_PAGE_BYTES = 2 * 1024 * 1024
"""A page of `skills/list` ends after this many bytes, or after one skill."""


class SkillLine(NamedTuple):
    """A skill in one line of the results of a search."""

    label: str
    sentence: str
    uri: str
    whole: str

    def data(self, score: float) -> dict[str, Any]:
        """Return the line as data, with its score."""
        return {
            "kind": "skill",
            "name": self.label,
            "description": self.sentence,
            "uri": self.uri,
            "score": round(score, 3),
        }


class ShownSkill(msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """A skill as it is shown here."""

    skill: Skill
    uri: str
    """The URI of its ``SKILL.md`` in the gateway."""
    label: str
    """What models call it: the server and the path, such as ``docs/git-workflow``."""
    description: str
    """Without hidden characters, and not too long."""
    line: SkillLine
    document: Tool
    """What the search index has of it."""


class SkillCatalog:
    """The skills of all servers and of the folder of this machine, and who may see which.

    Args:
        hub: its servers have the skills.
        listings: the cached lists.
        uris: the URIs of resources in the gateway.
    """

    def __init__(self, hub: Hub, uris: ResourceUris) -> None:
        self._hub = hub
        self._uris = uris
        self._listings: SkillListings | None = None
        self._shown: dict[str, ShownSkill] = {}
        self._labels: dict[str, ShownSkill] = {}
        self.by_document: dict[str, ShownSkill] = {}
        """The skills by their names in the search index."""

    def follow(self, listings: SkillListings) -> None:
        """Show what these listings have."""
        self._listings = listings

    def close(self) -> None:
        """Take the skills out of the search index."""
        self._hub.registry.show_documents({})

    def changed(self) -> list[ShownSkill]:
        """Show what the listings have now, and return the skills that are new, changed or gone."""
        shown: dict[str, ShownSkill] = {}
        labels: dict[str, ShownSkill] = {}
        known = {} if self._listings is None else self._listings.known()
        for skills, _ in known.values():
            for skill in skills.values():
                uri = self.exposed(skill.server, skill.uri)
                if uri in shown:
                    words = "another skill has this URI here; give its server a `prefix`"
                    context = {"server": skill.server, "reason": words}
                    logger.warning("skill_left_out: %r: %s", uri, words, extra=context)
                    continue
                known_as = self._shown.get(uri)
                if known_as is None or known_as.skill.entry != skill.entry:
                    known_as = _shown(skill, uri, taken=labels)
                shown[uri] = labels[known_as.label] = known_as
        before = self._shown
        changed = [it for uri, it in shown.items() if before.get(uri) is not it]
        changed += [it for uri, it in before.items() if uri not in shown]
        self._shown, self._labels = shown, labels
        self.by_document = {it.document.name: it for it in shown.values()}
        documents = {name: it.document for name, it in self.by_document.items()}
        self._hub.registry.show_documents(documents)
        return changed

    def exposed(self, server: str | None, uri: str) -> str:
        """Return the URI in the gateway of a skill, a file or a folder."""
        return uri if server is None else self._uris.exposed(server, uri)

    def sees(self, shown: ShownSkill, visibility: Visibility) -> bool:
        """Tell whether a client may see a skill."""
        return self.sees_uri(shown.skill.server, shown.uri, visibility)

    def sees_uri(self, server: str | None, uri: str, visibility: Visibility) -> bool:
        """Tell whether a client may see a URI of a server in the gateway."""
        try:
            tags = () if server is None else self._hub.server(server).config.tags
        except ServerNotFoundError:
            return False
        return visibility.sees_of(server, uri, tags)

    def finds(self, visibility: Visibility) -> Callable[[Tool], bool] | None:
        """Return a function that tells whether a search of a client may find a tool or a skill.

        It is ``None`` when the client may find everything, because searches are faster then.
        """
        skills, sees_tool = self.by_document, visibility.visible
        if sees_tool is None:
            return None

        def admits(tool: Tool) -> bool:
            found = skills.get(tool.name)
            if found is not None and found.document is tool:
                return self.sees(found, visibility)
            # A skill that is just going is in the index, and not here.
            is_tool = not tool.name.startswith(_MARK) or tool.tags != _TAGS
            return is_tool and sees_tool(tool)

        return admits

    def seen(self, visibility: Visibility) -> list[ShownSkill]:
        """Return the skills that a client may see."""
        return [it for it in self._shown.values() if self.sees(it, visibility)]

    def shows_any(self, visibility: Visibility) -> bool:
        """Tell whether a client may see a skill."""
        return any(self.sees(it, visibility) for it in self._shown.values())

    def at(self, uri: str, visibility: Visibility) -> ShownSkill | None:
        """Return the skill with a URI in the gateway, if the client may see it."""
        found = self._shown.get(uri)
        return found if found is not None and self.sees(found, visibility) else None

    def named(self, name: str, visibility: Visibility) -> ShownSkill:
        """Return the skill that is meant: by label, by URI, or by a name that only one has.

        The name may also be the label of a gateway behind this one.

        Raises:
            SkillNotFoundError: when there is none that the client may see, or there are several.
        """
        wanted = name.removeprefix(_MARK)
        found = self._shown.get(name) or self._labels.get(wanted)
        if found is not None and self.sees(found, visibility):
            return found
        seen = self.seen(visibility)
        alike = [it for it in seen if wanted in (it.skill.name, _label_in(it.uri))]
        if len(alike) == 1:
            return alike[0]
        labels = [it.label for it in alike or seen[:MAX_READ]]
        raise SkillNotFoundError(name, nearest=labels if alike else nearest_names(wanted, labels))

    def page(self, visibility: Visibility, cursor: object, *, size: int) -> dict[str, Any]:
        """Return one page of `skills/list`; its entries are whole.

        Raises:
            RpcError: when the cursor is invalid.
        """
        after = position_of(cursor)
        seen = self.seen(visibility)
        start = 0
        if after:
            uris = [it.uri for it in seen]
            if after not in uris:
                raise RpcError(INVALID_PARAMS, NO_CURSOR)
            start = uris.index(after) + 1
        page: list[dict[str, Any]] = []
        done, last = 0, ""
        for it in seen[start:]:
            if len(page) == size or (page and done + it.skill.size > _PAGE_BYTES):
                return {"skills": page, "nextCursor": cursor_after(last)}
            page.append(shown_entry(it.skill, self))
            done, last = done + it.skill.size, it.uri
        return {"skills": page}

    def hints(self, most: CacheHints) -> CacheHints:
        """Return how long and for whom the whole list may be cached."""
        known = {} if self._listings is None else self._listings.known()
        return most.merged(hints for _, hints in known.values())


def shown_entry(skill: Skill, catalog: SkillCatalog) -> dict[str, Any]:
    """Return the entry of a skill with its URIs in the gateway; nothing else in it is touched."""
    entry: Mapping[str, Any] = skill.entry
    found = {**entry, "uri": catalog.exposed(skill.server, skill.uri)}
    if skill.files is not None:
        found["resources"] = [
            {**it, "uri": catalog.exposed(skill.server, it["uri"])} for it in entry["resources"]
        ]
    return found


def _label_in(uri: str) -> str:
    """Return what another gateway, which gave out a URI, calls the skill."""
    server, mark, rest = uri.removesuffix(f"/{MAIN}").partition("+")
    path = (rest if mark else server).partition("://")[2]
    try:
        return f"{server_of(server)}/{path}" if mark else path
    except (ValueError, OverflowError):
        return path


def _shown(skill: Skill, uri: str, *, taken: Mapping[str, ShownSkill]) -> ShownSkill:
    label = skill.path if skill.server is None else f"{skill.server}/{skill.path}"
    if label in taken or len(label) > _LONGEST_LABEL or not label.isprintable():
        label = uri
    words = skill.summary
    document = Tool(
        name=f"{_MARK}{label[:_LONGEST_LABEL]}",
        description=words,
        server=skill.server,
        tags=_TAGS,
    )
    sentence = first_sentence(words)
    line = SkillLine(label, sentence, uri, f"skill {label} — {sentence} (read: get_skill)")
    return ShownSkill(
        skill=skill,
        uri=uri,
        label=label,
        description=words,
        line=line,
        document=document,
    )
