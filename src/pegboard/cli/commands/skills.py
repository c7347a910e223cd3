"""`pegboard skills`: list the skills of all servers and of the folder, and show one."""

import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any

import anyio
import typer

from pegboard.cli.catalogue import tool_options as option
from pegboard.cli.catalogue.running_gateway import find_gateway
from pegboard.cli.exit_codes import NOT_FOUND
from pegboard.cli.terminal.output import say, show_table, warn, write_json
from pegboard.cli.terminal.plain_text import placed
from pegboard.config import ServerConfig, locate_config
from pegboard.errors import SkillNotFoundError
from pegboard.gateway.resource_uris import ResourceUris
from pegboard.gateway.skills.catalog import ShownSkill
from pegboard.gateway.skills.reading import file_of
from pegboard.gateway.skills.tenant_skills import TenantSkills
from pegboard.gateway.tool_lines import first_sentence
from pegboard.gateway.visibility import Visibility
from pegboard.hub import Hub
from pegboard.model.principal import LOCAL
from pegboard.upstream import ServerState

__all__ = ["add_to"]

_skills = typer.Typer(help="List skills and show one.", no_args_is_help=True)
_SECONDS = 30.0
_TTL_MS = 60_000


def add_to(root: typer.Typer) -> None:
    """Add the commands to an application."""
    root.add_typer(_skills, name="skills")


@_skills.command("list")
def list_skills(
    *, config: option.Config = None, alone: option.Alone = False, json: option.Json = False
) -> None:
    """List the skills of all servers and of the folder of skills."""
    shown = anyio.run(_listed, config, alone)
    if json:
        write_json([skill_as_json(it) for it in shown])
    elif shown:
        rows = [(it.skill.name, it.uri, first_sentence(it.description)) for it in shown]
        show_table(("SKILL", "URI", "DESCRIPTION"), rows)
    if not shown:
        warn('There are no skills. `"skills": "./skills"` in the configuration names a folder.')
        raise typer.Exit(NOT_FOUND)


@_skills.command()
def show(
    skill: Annotated[
        str, typer.Argument(metavar="SKILL", help="Name of the skill, or its URI from the list.")
    ],
    *,
    path: Annotated[
        str, typer.Option(metavar="FILE", help="A further file of the skill.")
    ] = "SKILL.md",
    config: option.Config = None,
    alone: option.Alone = False,
    json: option.Json = False,
) -> None:
    """Print a file of a skill, after its digest was verified."""
    found, content = anyio.run(_read, skill, path, config, alone)
    if json:
        write_json(skill_as_json(found))
    else:
        say(content.decode("utf-8", "replace").rstrip("\n"))


def skill_as_json(shown: ShownSkill) -> dict[str, Any]:
    """Return a skill as ``--json`` prints it: an object; `list` prints an array of them.

    ``name``, ``uri``, ``description``, ``frontmatter`` (as its author wrote it) and ``files``
    (``path``, ``digest``, ``size``; null if the server generates them).
    """
    skill = shown.skill
    files = skill.files
    return {
        "name": skill.name,
        "uri": shown.uri,
        "description": skill.description,
        "frontmatter": skill.entry["frontmatter"],
        "files": None
        if files is None
        else [
            {"path": uri.removeprefix(f"{skill.root}/"), "digest": it.digest, "size": it.size}
            for uri, it in files.items()
        ],
    }


@asynccontextmanager
async def _open(config: str | None, alone: bool) -> AsyncGenerator[TenantSkills]:  # noqa: FBT001 - an option
    """Give the skills of the gateway that runs, or else of the configured servers."""
    gateway = None if alone else find_gateway(config, None)
    source = config if gateway is None else [gateway.as_server("")]
    if gateway is None and locate_config(config).path is None:
        source = []
    with _told():
        async with _skills_of(source) as skills:
            yield skills


@asynccontextmanager
async def _skills_of(source: str | list[ServerConfig] | None) -> AsyncGenerator[TenantSkills]:
    async with Hub.open(source) as hub, anyio.create_task_group() as group:
        skills = TenantSkills(
            hub,
            group,
            ResourceUris(hub),
            seconds=_SECONDS,
            ttl_ms=_TTL_MS,
            on_change=lambda _: None,
        )
        await skills.list_all()
        for problem in hub.loaded.problems:
            warn(placed(problem, hub.loaded.path))
        for server in hub.servers.values():
            if server.last_error is not None and server.state != ServerState.READY:
                warn(server.last_error)
        yield skills
        skills.close()
        group.cancel_scope.cancel()


@contextmanager
def _told() -> Generator[None]:
    logger, told = logging.getLogger("pegboard"), _LeftOut()
    logger.addHandler(told)
    try:
        yield
    finally:
        logger.removeHandler(told)


class _LeftOut(logging.Handler):
    """Tells of skills that are left out; the command itself reports servers that failed, once."""

    def emit(self, record: logging.LogRecord) -> None:
        if str(record.msg).startswith("skill_left_out:"):
            warn(record.getMessage().replace("skill_left_out:", "Left out:", 1))


async def _listed(config: str | None, alone: bool) -> list[ShownSkill]:  # noqa: FBT001 - an option
    async with _open(config, alone) as skills:
        return skills.catalog.seen(Visibility(LOCAL))


async def _read(
    name: str,
    path: str,
    config: str | None,
    alone: bool,  # noqa: FBT001 - an option
) -> tuple[ShownSkill, bytes]:
    content, found, missing = b"", None, None
    async with _open(config, alone) as skills:
        try:
            found = skills.catalog.named(name, Visibility(LOCAL))
            content = await skills.reader.read(found.skill, file_of(found.skill, path))
        except SkillNotFoundError as error:
            missing = error
    if found is None or missing is not None:
        raise missing or SkillNotFoundError(name)
    return found, content
