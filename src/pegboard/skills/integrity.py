"""Integrity of skills: the digests of files, and the check of what a server delivers."""

import base64
import binascii
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, cast

from pegboard.errors import SkillIntegrityError
from pegboard.model.json_values import object_in
from pegboard.skills.entry import InvalidSkill, Skill, SkillFile
from pegboard.skills.frontmatter import read_front_matter

__all__ = ["check_content", "check_front_matter", "digest_of", "raw_content"]


def digest_of(content: bytes) -> str:
    """Return the digest of a file, as entries of skills have it."""
    return f"sha256:{sha256(content).hexdigest()}"


def raw_content(item: Mapping[str, Any]) -> bytes | None:
    """Return the bytes of one item of ``contents``; ``None`` if it has none that can be read."""
    text, blob = item.get("text"), item.get("blob")
    if isinstance(text, str):
        return text.encode("utf-8", "surrogatepass")
    if not isinstance(blob, str):
        return None
    try:
        return base64.b64decode(blob, validate=True)
    except (binascii.Error, ValueError):
        return None


def check_content(skill: Skill, uri: str, file: SkillFile, contents: object) -> bytes:
    """Return the bytes of a file that was read, if they are what the entry of the skill says.

    Args:
        skill: the skill that has the file.
        uri: the file.
        file: what the entry says of it.
        contents: the ``contents`` of the result of `resources/read`.

    Raises:
        SkillIntegrityError: when the result has other bytes, or no bytes.
    """
    items = cast("list[Any]", contents) if isinstance(contents, list) else []
    # Some servers write the URI in another form; the bytes count.
    content = raw_content(object_in(items[0] if len(items) == 1 else None))
    if content is None:
        raise _mismatch(skill, uri, "the server did not return exactly one file")
    if len(content) != file.size:
        words = f"the file has {len(content)} bytes, and its entry says {file.size}"
        raise _mismatch(skill, uri, words)
    if digest_of(content) != file.digest:
        raise _mismatch(skill, uri, "the digest of the file is not the one in its entry")
    return content


def check_front_matter(skill: Skill, content: bytes) -> bytes:
    """Return a ``SKILL.md`` if its front matter is that of the entry.

    A number, a date or a truth value may be read in two ways, because there are two versions of
    YAML.

    Raises:
        SkillIntegrityError: when the front matter says something else.
    """
    try:
        found = read_front_matter(content)
    except InvalidSkill as error:
        raise _mismatch(skill, skill.uri, str(error)) from None
    if not _agree(found, skill.entry["frontmatter"]):
        raise _mismatch(skill, skill.uri, "its front matter is not the one in its entry")
    return content


def _agree(found: object, said: object) -> bool:
    if isinstance(found, dict) and isinstance(said, dict):
        one, other = cast("dict[str, object]", found), cast("dict[str, object]", said)
        return one.keys() == other.keys() and all(_agree(one[key], other[key]) for key in one)
    if isinstance(found, list) and isinstance(said, list):
        items, others = cast("list[object]", found), cast("list[object]", said)
        return len(items) == len(others) and all(map(_agree, items, others))
    if isinstance(found, str) and isinstance(said, str):
        return found == said
    return not isinstance(found, dict | list) and not isinstance(said, dict | list)


def _mismatch(skill: Skill, uri: str, words: str) -> SkillIntegrityError:
    owner = "this machine" if skill.server is None else f"server {skill.server!r}"
    return SkillIntegrityError(
        f"File {uri[:200]!r} of skill {skill.name!r} of {owner} was not passed on: {words}. If "
        "the skill has just changed, list it again; otherwise ask who runs the server.",
        server=skill.server or "",
        skill=skill.uri,
        uri=uri,
    )
