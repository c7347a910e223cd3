"""Check the folder of skills: a broken front matter, a wrong name, symbolic links, sizes."""

from collections.abc import Iterator

import msgspec

from pegboard.config import LoadedConfig
from pegboard.doctor.report import Finding, found
from pegboard.skills import FolderProblem, SkillFolder

__all__ = ["check_skills"]

_MOST_TOLD = 20
_IN_GENERAL = "Correct it; `pegboard config check` looks through the folder again."


def check_skills(loaded: LoadedConfig) -> list[Finding]:
    """Return what is wrong in the folder of skills that the configuration names. Blocking."""
    if loaded.skills is None:
        return []
    folder = SkillFolder(loaded.skills)
    folder.skills()
    return list(_findings(folder))


def _findings(folder: SkillFolder) -> Iterator[Finding]:
    for problem in folder.problems[:_MOST_TOLD]:
        yield _finding(folder, problem)
    more = len(folder.problems) - _MOST_TOLD
    if more > 0:
        words = f"{more} more files or folders in {str(folder.path)!r} have problems."
        yield found("bad_skill", words, _IN_GENERAL)


def _finding(folder: SkillFolder, problem: FolderProblem) -> Finding:
    what, _, remedy = problem.reason.partition("; ")
    words = f"{problem.place!r} in the folder of skills is left out: {what}."
    remedy = f"{remedy[:1].upper()}{remedy[1:]}." if remedy else _IN_GENERAL
    finding = found("bad_skill", words, remedy)
    return msgspec.structs.replace(finding, place=str(folder.path / problem.place))
