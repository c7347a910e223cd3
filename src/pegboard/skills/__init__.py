"""Skills: instructions for models with their files, as the Agent Skills specification has them.

A skill is a folder with a ``SKILL.md``. Servers publish theirs by the extension
``io.modelcontextprotocol/skills`` (SEP-2640); `SkillFolder` publishes those of this machine.
"""

from pegboard.skills.entry import Skill, SkillFile, read_entry
from pegboard.skills.folder import FolderProblem, SkillFolder
from pegboard.skills.integrity import check_content, digest_of, raw_content

__all__ = [
    "FolderProblem",
    "Skill",
    "SkillFile",
    "SkillFolder",
    "check_content",
    "digest_of",
    "raw_content",
    "read_entry",
]
