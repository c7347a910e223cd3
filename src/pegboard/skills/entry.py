"""Skill: an entry of `skills/list`, checked: its URI, front matter, files, and their digests."""

import re
from collections.abc import Mapping
from typing import Any, TypeGuard, cast

import msgspec

from pegboard.model.hidden_characters import hidden_kinds, visible

__all__ = [
    "DYNAMIC",
    "MAIN",
    "MOST_BYTES",
    "MOST_FILES",
    "NAME",
    "InvalidSkill",
    "Skill",
    "SkillFile",
    "read_entry",
]

MAIN = "SKILL.md"
DYNAMIC = "dynamic"
"""What stands in place of the files of a skill that its server generates."""
MOST_FILES = 512
MOST_BYTES = 16 * 1024 * 1024
"""The limits of the extension: every client accepts a skill within them, and none needs to accept
a larger one."""
LARGEST_ENTRY = 512 * 1024
LARGEST_FRONT_MATTER = 64 * 1024
NAME = re.compile(r"(?!.*--)[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?")
"""The names that the Agent Skills specification allows."""
_LONGEST_URI = 2048
_LONGEST_DESCRIPTION = 1024
"""Characters that the Agent Skills specification allows."""
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_encode = msgspec.json.Encoder().encode


class InvalidSkill(ValueError):  # noqa: N818 - a reason, which its reader reports
    """An entry or a folder is no skill; the message says what is wrong with it."""


class SkillFile(msgspec.Struct, frozen=True):
    """One file of a skill, as its entry describes it."""

    digest: str
    """``sha256:`` and the hash of its bytes."""
    size: int


class Skill(msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """A skill of a server or of this machine."""

    server: str | None
    """``None`` for a skill of this machine."""
    uri: str
    """The URI of its ``SKILL.md`` at the server."""
    name: str
    description: str
    files: Mapping[str, SkillFile] | None
    """Its files by URI; ``None`` when the server generates them."""
    entry: Mapping[str, Any]
    """The entry as the server wrote it."""
    summary: str
    """The description as it is shown: cut if it is too long, with hidden characters as escapes."""
    size: int
    """How many bytes the entry has."""

    @property
    def root(self) -> str:
        """The URI of its folder."""
        return self.uri.removesuffix(f"/{MAIN}")

    @property
    def path(self) -> str:
        """Its place among the skills of its server, such as ``billing/refunds``."""
        return self.root.partition("://")[2]

    def holds(self, uri: str) -> bool:
        """Tell whether a URI is within its folder."""
        return uri.startswith(f"{self.root}/")


def read_entry(raw: object, server: str | None) -> Skill:
    """Return the skill that an entry describes.

    Raises:
        InvalidSkill: when the entry breaks the rules of the extension, or is too large.
    """
    if not isinstance(raw, dict):
        raise InvalidSkill("its entry is not an object")
    entry = cast("dict[str, Any]", raw)
    size = _size(entry)
    if size > LARGEST_ENTRY:
        raise InvalidSkill(f"its entry has more than {LARGEST_ENTRY} bytes")
    uri = _uri(entry.get("uri"))
    front: object = entry.get("frontmatter")
    if not isinstance(front, dict):
        raise InvalidSkill("its entry has no `frontmatter`")
    name, description = described(cast("dict[str, Any]", front))
    if uri.split("/")[-2] != name:
        raise InvalidSkill(f"its folder is not named {name!r}, as its front matter is")
    return Skill(
        server=server,
        uri=uri,
        name=name,
        description=description,
        files=_files(entry.get("resources"), uri),
        entry=entry,
        summary=_summary(description),
        size=size,
    )


def described(front: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name and the description in the front matter of a skill.

    Raises:
        InvalidSkill: when one of them is missing, or the specification does not allow it.
    """
    if _size(front) > LARGEST_FRONT_MATTER:
        raise InvalidSkill(f"its front matter has more than {LARGEST_FRONT_MATTER} bytes")
    name, description = front.get("name"), front.get("description")
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        raise InvalidSkill(
            "its `name` must have 1 to 64 lower-case letters, digits and single hyphens between"
        )
    if not isinstance(description, str) or not description.strip():
        raise InvalidSkill("its front matter needs a `description`")
    return name, description


def _summary(description: str) -> str:
    if len(description) > _LONGEST_DESCRIPTION:
        description = f"{description[: _LONGEST_DESCRIPTION - 1]}…"
    return visible(description)


def _uri(uri: object) -> str:
    if not _is_uri(uri):
        raise InvalidSkill("its `uri` is missing, too long, or has hidden characters")
    scheme, _, path = uri.partition("://")
    steps = path.split("/")
    if not scheme or len(steps) < 2 or steps[-1] != MAIN or not {"", ".", ".."}.isdisjoint(steps):
        raise InvalidSkill(f"its `uri` is not that of a {MAIN} in a folder")
    return uri


def _files(listed: object, uri: str) -> dict[str, SkillFile] | None:
    if listed == DYNAMIC:
        return None
    if not isinstance(listed, list):
        raise InvalidSkill(f"its `resources` must be a list, or {DYNAMIC!r}")
    items = cast("list[object]", listed)
    if len(items) > MOST_FILES:
        raise InvalidSkill(f"it has {len(items)} files, and {MOST_FILES} are the most")
    root = uri.removesuffix(MAIN)
    files: dict[str, SkillFile] = {}
    for item in items:
        place, file = _file(item, root)
        if place in files:
            raise InvalidSkill("its `resources` name a file twice")
        files[place] = file
    if uri not in files:
        raise InvalidSkill(f"its `resources` do not name its {MAIN}")
    if sum(it.size for it in files.values()) > MOST_BYTES:
        raise InvalidSkill(f"its files have more than {MOST_BYTES} bytes together")
    return files


def _file(item: object, root: str) -> tuple[str, SkillFile]:
    said = cast("dict[str, object]", item) if isinstance(item, dict) else {}
    uri, digest, size = said.get("uri"), said.get("digest"), said.get("size")
    if not _is_uri(uri):
        raise InvalidSkill("its `resources` have a file without a valid `uri`")
    steps = uri.removeprefix(root).split("/")
    if not uri.startswith(root) or not {"", ".", ".."}.isdisjoint(steps):
        raise InvalidSkill("its `resources` name a file outside of its folder")
    if not isinstance(digest, str) or _DIGEST.fullmatch(digest) is None:
        raise InvalidSkill("a file in its `resources` has no SHA-256 `digest`")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise InvalidSkill("a file in its `resources` has no `size`")
    return uri, SkillFile(digest, size)


def _is_uri(value: object) -> TypeGuard[str]:
    if not isinstance(value, str) or len(value) > _LONGEST_URI:
        return False
    # A line break would forge a line of what models read.
    return value.isprintable() and not hidden_kinds(value)


def _size(value: object) -> int:
    try:
        return len(_encode(value))
    except (TypeError, ValueError, RecursionError):
        raise InvalidSkill("its entry cannot be written as JSON") from None
