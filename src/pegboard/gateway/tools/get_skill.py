"""get_skill: one file of a skill as text for a model, checked, with its origin."""

from typing import Any

from pegboard.gateway.builtin_tool import SKILL_TOOL, BuiltinTool, CallerContext, respond
from pegboard.gateway.calls.result_cache import ResultCache
from pegboard.gateway.skills.catalog import ShownSkill
from pegboard.gateway.skills.fallback import origin_line
from pegboard.gateway.skills.reading import file_of, path_of
from pegboard.gateway.skills.tenant_skills import TenantSkills
from pegboard.model import Annotations, Tool
from pegboard.skills.entry import MAIN

__all__ = ["get_skill"]

_SHOWN_FILES = 100

DEFINITION = Tool(
    name=SKILL_TOOL,
    description="Read a skill that search_tools found: instructions, not a tool to call. path "
    "names a further file of it.",
    input_schema={
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 4096},
            "path": {"type": "string", "minLength": 1, "maxLength": 2048, "default": MAIN},
        },
        "required": ["name"],
        "additionalProperties": False,
    },
    annotations=Annotations(read_only=True, open_world=False),
)


def get_skill(skills: TenantSkills, result_cache: ResultCache, *, limit: int) -> BuiltinTool:
    """Return the tool that reads skills; the cache keeps what is longer than the limit."""

    async def run(caller: CallerContext, arguments: dict[str, Any]) -> dict[str, Any]:
        await skills.learn()
        shown = skills.catalog.named(arguments["name"], caller.visibility)
        skill = shown.skill
        caller.visibility.check_use(skill.server, shown.uri)
        uri = file_of(skill, arguments["path"])
        content = await skills.reader.read(skill, uri)
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError:
            place = skills.catalog.exposed(skill.server, uri)
            text = f"This file is not text ({len(content)} bytes). It is the resource {place}"
        result = respond(f"{_heading(shown, uri)}\n\n{text}")
        # As a tool of the same server, so that the same callers may read the rest.
        owner = Tool(name=shown.uri, server=skill.server) if len(shown.uri) < 256 else DEFINITION
        return result_cache.shortened(result, owner=caller.owner, tool=owner, limit=limit)

    return BuiltinTool(DEFINITION, run)


def _heading(shown: ShownSkill, uri: str) -> str:
    skill = shown.skill
    words = origin_line(shown)
    if uri != skill.uri or skill.files is None or len(skill.files) < 2:
        return words
    paths = [path_of(skill, it) for it in skill.files if it != skill.uri]
    more = ", …" if len(paths) > _SHOWN_FILES else ""
    return f"{words}\n[Its further files, for `path`: {', '.join(paths[:_SHOWN_FILES])}{more}]"
