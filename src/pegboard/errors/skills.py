"""Errors of skills: there is no such skill, or a file of it is not what its entry says."""

from collections.abc import Sequence
from typing import ClassVar

from pegboard.errors.root import LISTED, Outcome, PegboardError, shorten
from pegboard.errors.servers import UpstreamError

__all__ = ["SkillIntegrityError", "SkillNotFoundError"]


class SkillNotFoundError(PegboardError, KeyError, ValueError):
    """No skill has that name or URI, or no file of a skill has that path."""

    code: ClassVar[str] = "skill_not_found"

    def __init__(self, name: object, *, nearest: Sequence[str] = (), within: str = "") -> None:
        near = ", ".join(map(repr, nearest[:LISTED]))
        if within:
            words = f"Skill {within!r} has no file {shorten(name)}."
            hint = f" Its files: {near}." if near else ""
        else:
            words = f"There is no skill {shorten(name)}."
            hint = f" Did you mean {near}?" if near else ""
        super().__init__(words + hint)
        self.name = name
        self.nearest: tuple[str, ...] = tuple(nearest)
        self.within = within


class SkillIntegrityError(UpstreamError, RuntimeError):
    """A file of a skill is not what the entry of the skill says, so it was not passed on.

    ``server`` and ``skill`` name the server and the URI of the skill; ``uri`` is the file.
    """

    code: ClassVar[str] = "skill_integrity"
    outcome: ClassVar[Outcome] = "raised"
    sent: bool = True

    def __init__(self, message: str, *, server: str, skill: str, uri: str) -> None:
        super().__init__(message, server=server)
        self.skill = skill
        self.uri = uri
