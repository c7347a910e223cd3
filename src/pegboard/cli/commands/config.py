"""`pegboard config`: find and check the configuration file, or print its JSON Schema."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from pegboard.cli.exit_codes import FAILED, NOT_FOUND
from pegboard.cli.terminal.output import say, show_table, warn, write_json
from pegboard.cli.terminal.plain_text import counted, placed
from pegboard.config import LoadedConfig, Problem, load_servers, locate_config, user_config_file
from pegboard.config.files.file_schema import schema_text
from pegboard.config.files.jsonc import files_read_once
from pegboard.config.files.locate import ConfigCandidate, candidates
from pegboard.errors import ConfigError

__all__ = ["add_to"]

_config = typer.Typer(
    help="Find and check the configuration, or print its schema.", no_args_is_help=True
)

_File = Annotated[
    str | None,
    typer.Option("--config", metavar="FILE", help="Configuration file (default: searched for)."),
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def add_to(root: typer.Typer) -> None:
    """Add the commands to an application."""
    root.add_typer(_config, name="config")


@_config.command()
def path(*, config: _File = None, json: _Json = False) -> None:
    """Show where Pegboard looks for the configuration, and which file it uses."""
    places = places_as_json(candidates(config))
    if json:
        write_json(places)
    else:
        rows = ([it["path"], it["state"], it["why"]] for it in places)
        show_table(("FILE", "STATE", "REASON"), rows, whole=["STATE"])
    # A file that was named has to exist.
    if locate_config(config).path is None:
        warn(
            "There is no file yet: `pegboard import` or `pegboard add` creates "
            f"{user_config_file()}."
        )


@_config.command()
def check(*, config: _File = None, json: _Json = False) -> None:
    """List every problem of the configuration, with its place and its remedy.

    The exit code is 0 if there is none, 1 if there is one, and 3 if there is no file to check.
    """
    with files_read_once():
        file, problems, servers = _problems(config)
    is_missing = file is not None and not Path(file).exists()
    if json:
        write_json([problem_as_json(it, file) for it in problems])
    else:
        for it in problems:
            say(placed(it, file))
    if problems:
        raise typer.Exit(NOT_FOUND if is_missing else FAILED)
    if file is None:
        warn("There is no configuration file: `pegboard config path` shows where Pegboard looks.")
        raise typer.Exit(NOT_FOUND)
    warn(f"{file} has no problems: {counted(servers, 'server')}.")


@_config.command()
def schema() -> None:
    """Print the JSON Schema of the file, for editors and validators."""
    say(schema_text().rstrip())


_WHY = {
    "explicit": "you named it",
    "PEGBOARD_CONFIG": "PEGBOARD_CONFIG names it",
    "project": "in the current folder",
    "user": "your own",
}


def places_as_json(found: list[ConfigCandidate]) -> list[dict[str, Any]]:
    """Return the places as ``--json`` prints them: an array of objects, in the order of search.

    ``path``, ``origin`` (``explicit``, ``PEGBOARD_CONFIG``, ``project`` or ``user``),
    ``state`` (``used``; ``not read``, because another one is used; or why there is no
    file), ``used`` (true for at most one; for none if a named file is missing), ``why`` (the origin
    in words).
    """
    places: list[dict[str, Any]] = []
    is_chosen = False
    for it in found:
        is_used = it.fault is None and not is_chosen
        # No other file replaces one that the user named.
        is_chosen = is_chosen or is_used or it.origin in ("explicit", "PEGBOARD_CONFIG")
        state = "used" if is_used else it.fault or "not read"
        why = _WHY[it.origin]
        place = {"path": str(it.path), "origin": it.origin, "state": state, "used": is_used}
        places.append({**place, "why": why})
    return places


def _problems(source: str | None) -> tuple[str | None, list[Problem], int]:
    """Return the file, its problems in their order, and how many servers can be used."""
    try:
        loaded = load_servers(source)
    except ConfigError as error:
        return error.path, [_problem(error)], 0
    file = None if loaded.path is None else str(loaded.path)
    problems = [*loaded.problems, *(_of_settings(source) if file else ()), *_of_skills(loaded)]
    return file, sorted(problems, key=lambda it: it.line or 0), len(loaded.servers)


def _of_settings(source: str | None) -> Iterator[Problem]:
    """Give the problems of the section that the gateway reads."""
    from pegboard.auth import load_auth_settings  # noqa: PLC0415 - only to check
    from pegboard.server.settings import load_gateway_settings  # noqa: PLC0415 - a second to import

    for load in (load_gateway_settings, load_auth_settings):
        try:
            load(source)
        except ConfigError as error:
            yield _problem(error)


def _of_skills(loaded: LoadedConfig) -> Iterator[Problem]:
    """Give the problems of the folder of skills, if the file names one."""
    if loaded.skills is None:
        return
    from pegboard.skills import SkillFolder  # noqa: PLC0415 - few files name a folder

    folder = SkillFolder(loaded.skills)
    folder.skills()
    for it in folder.problems:
        message = f"A skill cannot be served: {it}"
        yield Problem(message=message, severity="warning", kind="doubt")


def _problem(error: ConfigError) -> Problem:
    return Problem(message=error.problem, line=error.line, column=error.column)


def problem_as_json(problem: Problem, file: str | None) -> dict[str, Any]:
    """Return a problem as ``--json`` prints it: an array of objects.

    ``file``, ``line`` and ``column`` (null if no line is at fault), ``server`` (null if the problem
    concerns the whole file), ``severity`` (an ``error`` makes the entry unusable, or keeps the
    gateway from starting if it is in the section ``gateway``; a ``warning`` does neither),
    ``kind`` (``entry``, ``variable``, ``unknown_field``, ``plain_secret``, ``doubt``), ``message``.
    """
    return {"file": file, **msgspec.to_builtins(problem)}
