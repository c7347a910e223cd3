"""`pegboard import`: import the servers of MCP clients."""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import typer

from pegboard.cli.commands.add import say_where_secrets_are
from pegboard.cli.exit_codes import NOT_FOUND
from pegboard.cli.files.user_file import (
    ConfigOption,
    JsonOption,
    KeepSecretsOption,
    YesOption,
    agree,
    kept_references,
    open_file,
    say_that_it_counts,
    say_what_is_left,
    warn_of_exposed,
)
from pegboard.cli.terminal.output import (
    answer_to,
    complain,
    room_beside,
    say,
    say_wrapped,
    show_table,
    warn,
    write_json,
)
from pegboard.cli.terminal.plain_text import counted
from pegboard.cli.terminal.spinner import waiting
from pegboard.clients import (
    CLIENTS,
    ClientApp,
    ClientFile,
    FoundServer,
    Imported,
    ImportRecord,
    Machine,
    OnConflict,
    PlannedServer,
    TakenOver,
    answer_questions,
    client_named,
    differing_fields,
    files_of_clients,
    is_exposed,
    open_questions,
    plan_import,
    read_found,
    servers_in,
    take_over,
)
from pegboard.config import LoadedConfig, ServerConfig, load_servers
from pegboard.config.files.servers_file import ServersFile
from pegboard.config.secrets.kept_secrets import Keep, KeptSecret, KeptTogether
from pegboard.config.secrets.variables import input_variable
from pegboard.errors import ConfigError

__all__ = ["add_to", "import_from", "importable_servers", "plan_as_json"]


def add_to(root: typer.Typer) -> None:
    """Add the command to an application."""
    root.command("import")(import_servers)


def import_servers(
    sources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="CLIENT | FILE",
            help=f"{', '.join(CLIENTS)}, or a file. Default: every client that is found.",
            autocompletion=lambda: list(CLIENTS),
        ),
    ] = None,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan, and write nothing.")
    ] = False,
    on_conflict: Annotated[
        OnConflict | None,
        typer.Option(
            help="What to do with a server whose name is taken. By default, a terminal asks for "
            "each; without one, it is skipped."
        ),
    ] = None,
    keep_secrets: KeepSecretsOption = False,
    yes: YesOption = False,
    config: ConfigOption = None,
    json: JsonOption = False,
) -> None:
    """Import the servers of your MCP clients, and keep their secrets out of the file."""
    is_done = import_from(
        sources or [],
        dry_run=dry_run,
        on_conflict=on_conflict,
        keep_secrets=keep_secrets,
        yes=yes,
        config=config,
        json=json,
    )
    if is_done:
        warn(
            "Next: `pegboard doctor` checks each server, and `pegboard connect CLIENT` adds "
            "Pegboard to a client."
        )


def import_from(
    sources: Sequence[str] = (),
    *,
    dry_run: bool = False,
    on_conflict: OnConflict | None = None,
    keep_secrets: bool = False,
    yes: bool = False,
    config: str | None = None,
    json: bool = False,
    asks_once: bool = False,
) -> bool:
    """Import servers as the command does, and tell whether any were written.

    ``asks_once`` asks only whether to write, with yes as the default; it skips names that are
    taken, and leaves missing values to the environment.

    Raises:
        typer.Exit: when there is no file, or the user does not agree.
    """
    files = _files(sources)
    found = [server for it in files for server in _servers_in(it, is_named=bool(sources))]
    file = open_file(config)
    imported = ImportRecord(file.path)
    with waiting(f"Comparing {counted(len(found), 'server')}"):
        present = _present(file)
        plan = plan_import(found, present, on_conflict=on_conflict or "skip", imported=imported)
    asks = not (yes or dry_run or asks_once) and sys.stdin.isatty()
    asks_of_names = asks and on_conflict is None and not json
    unanswered = open_questions(file, plan)
    if json:
        write_json([plan_as_json(it) for it in plan])
    else:
        _show(plan, files, unanswered, asks_of_names=asks_of_names)
    if asks_of_names:
        plan = _settled(plan, found, present, imported)
    warn_of_exposed(it.path for it in plan if it.secrets and is_exposed(it.path))
    written = [it for it in plan if it.writes_as is not None]
    if not files:
        raise typer.Exit(NOT_FOUND)
    if not asks:
        _name_questions(unanswered)
        if any(map(_is_skipped, plan)):
            warn(
                "`--on-conflict rename` adds a server whose name is taken under another name; "
                "`replace` puts it in the place of yours."
            )
    open_ = unanswered if asks else []
    if dry_run or not (written or open_):
        _name_skipped([] if dry_run else plan)
        warn("Nothing was written." if dry_run else "There is nothing to write.")
        return False
    agree(
        f"Write {counted(len(written) + len(open_), 'server')} to {file.path}?",
        yes=yes,
        default=asks_once,
    )
    is_done = _write(file, written, open_, moves=not keep_secrets, asks=asks, is_quiet=json)
    _name_skipped(plan)
    names = [(it, it.writes_as or it.same_as) for it in plan]
    imported.note(Imported(it.path, it.name, name) for it, name in names if name is not None)
    return is_done


def importable_servers(config: str | None = None) -> tuple[Path, dict[str, int]]:
    """Return the file that an import would write, and how many servers it gets from each client.

    What is wrong with the file of a client is left to the import to say.
    """
    found: list[FoundServer] = []
    for it in files_of_clients(Machine.here()):
        with suppress(ConfigError):
            found += servers_in(it)
    file = open_file(config)
    plan = plan_import(found, _present(file), on_conflict="skip", imported=ImportRecord(file.path))
    return file.path, dict(Counter(it.client for it in plan if it.writes_as is not None))


_CHOICES: Mapping[str, OnConflict] = {
    **dict.fromkeys(("", "s", "skip"), "skip"),
    **dict.fromkeys(("a", "add", "rename"), "rename"),
    **dict.fromkeys(("r", "replace"), "replace"),
}


def _settled(
    plan: list[PlannedServer],
    found: list[FoundServer],
    present: LoadedConfig,
    imported: ImportRecord,
) -> list[PlannedServer]:
    """Ask what to do with each server whose name is taken, and return the plan with that."""
    ours = {it.name: it for it in present.servers}
    choices: list[OnConflict] = ["skip"] * len(plan)
    for index, server in enumerate(found):
        # A choice may settle later ones: two clients may have the same server.
        if not _is_skipped(plan[index]):
            continue
        whose = "your file has", ours.get(server.name)
        for it, earlier in zip(plan[:index], found, strict=False):
            if it.writes_as == server.name:
                whose = f"{it.client} has", read_found(earlier)
        _show_both(server, whose[0], whose[1])
        choices[index] = _choice(may_replace=whose[0] == "your file has")
        if choices[index] != "skip":
            plan = plan_import(found, present, on_conflict=choices, imported=imported)
    return plan


def _is_skipped(server: PlannedServer) -> bool:
    return server.status == "conflict" and server.writes_as is None


def _show_both(server: FoundServer, holder: str, held: ServerConfig | str | None) -> None:
    """Show a server, and the one that has its name; of what differs, only the names of fields."""
    config = read_found(server)
    warn(f"The name {server.name!r} is taken.")
    if isinstance(config, ServerConfig):
        warn(f"  {server.client} has: {config.target}")
    if not isinstance(held, ServerConfig):
        warn(f"  {holder}: an entry that cannot be used")
    else:
        warn(f"  {holder}: {held.target}")
        if isinstance(config, ServerConfig):
            warn(f"  They differ in: {', '.join(differing_fields(config, held))}")


def _choice(*, may_replace: bool) -> OnConflict:
    question = "  [s]kip it, [a]dd it under another name, or [r]eplace yours? [s] "
    if not may_replace:
        question = "  [s]kip it, or [a]dd it under another name? [s] "
    while True:
        # The end of the input is no answer, so the server is skipped.
        choice = _CHOICES.get((answer_to(question) or "").strip().casefold())
        if choice is not None and (may_replace or choice != "replace"):
            return choice
        warn(f"  That was not understood; answer {'s, a or r' if may_replace else 's or a'}.")


def _name_skipped(plan: list[PlannedServer]) -> None:
    """Say which servers were left out because their name is taken."""
    skipped = [f"{it.name} ({it.client})" for it in plan if _is_skipped(it)]
    if skipped:
        warn(f"Skipped, because the name is taken: {', '.join(skipped)}.")


def _write(
    file: ServersFile,
    written: list[PlannedServer],
    open_: list[PlannedServer],
    *,
    moves: bool,
    asks: bool,
    is_quiet: bool,
) -> bool:
    """Ask for missing values, write the file, report what was done, and tell whether it was."""
    answers = _answers([*written, *open_]) if asks else {}
    before = kept_references(file)
    secrets = sum(len(it.secrets) + len(it.inputs) for it in written)
    with KeptTogether(file.path) as keep, waiting("Copying secrets") as tell:
        place = _counting(keep, lambda done: tell(done, secrets)) if moves else None
        done = take_over(file, written, keep=place, answers=answers)
        done += answer_questions(file, open_, keep=place, answers=answers)
        file.save()
    _report(done, file, before, is_quiet=is_quiet)
    return bool(done)


def _name_questions(servers: list[PlannedServer]) -> None:
    """Say which servers wait for an answer, and how to give it."""
    for server in servers:
        for asked in server.inputs:
            warn(
                f"{server.same_as!r} needs the environment variable {input_variable(asked.id)} "
                f"(`${{input:{asked.id}}}`); or run `pegboard import` in a terminal to enter it."
            )


def _counting(keep: Keep, tell: Callable[[int], None]) -> Keep:
    """Return what keeps a secret, and says how many it has kept."""
    numbers = count(1)

    def kept(name: str, value: str) -> KeptSecret:
        place = keep(name, value)
        tell(next(numbers))
        return place

    return kept


def _files(sources: Sequence[str]) -> list[ClientFile]:
    machine = Machine.here()
    if not sources:
        files = files_of_clients(machine)
        if not files:
            complain("No client's file was found; name a file, or `pegboard add` a server.")
        return files
    found: list[ClientFile] = []
    for source in sources:
        if source in CLIENTS or not _is_path(source):
            client = _client(source)
            there = files_of_clients(machine, (client.name,))
            if not there:
                complain(
                    f"{client.title} has no file here; Pegboard looked for {client.file(machine)}."
                )
            found += there
        else:
            found.append(ClientFile(path=Path(source).expanduser().absolute()))
    return found


def _client(name: str) -> ClientApp:
    try:
        return client_named(name)
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from None


def _is_path(source: str) -> bool:
    return any(it in source for it in "/\\.") or Path(source).exists()


def _servers_in(file: ClientFile, *, is_named: bool) -> list[FoundServer]:
    if file.path.is_dir():
        raise ConfigError("That is a folder; name the file in it.", path=str(file.path))
    if not file.path.exists():
        raise ConfigError("The file does not exist.", path=str(file.path), is_missing=True)
    try:
        return servers_in(file)
    except ConfigError as error:
        if is_named:
            raise
        # One broken file does not keep the others from being taken over.
        warn(f"warning: {error}")
        return []


def _present(file: ServersFile) -> LoadedConfig:
    return LoadedConfig() if file.is_new else load_servers(file.path, undefined="keep")


def _show(
    plan: list[PlannedServer],
    files: list[ClientFile],
    unanswered: list[PlannedServer],
    *,
    asks_of_names: bool,
) -> None:
    for file in files:
        warn(f"Read: {file.path}")
    if plan:
        waiting = {(it.path, it.name) for it in unanswered}
        rows = [
            (
                it.name,
                it.client,
                _what(it, asks=asks_of_names)
                + (", needs a value" if (it.path, it.name) in waiting else ""),
                it.target,
                ", ".join(it.secrets),
            )
            for it in plan
        ]
        columns = ("SERVER", "FROM", "PLAN", "WHERE", "SECRETS IN")
        room = room_beside(columns, rows)
        if room is None or room >= 0:
            show_table(columns, rows)
        else:
            _show_in_lines(rows)
    for server in plan:
        if server.problem is not None:
            warn(f"{server.name} ({server.client}): {server.problem}")


def _show_in_lines(rows: Iterable[Sequence[str]]) -> None:
    """Print a plan on a narrow terminal: all of it is there, and nothing is cut."""
    for name, client, what, target, secrets in rows:
        say_wrapped(f"{name} ({client}): {what}")
        if target:
            say_wrapped(target, indent=2)
        if secrets:
            say_wrapped(f"secrets in {secrets}", indent=2)


def _what(server: PlannedServer, *, asks: bool) -> str:
    """Return the plan for one server in a few words."""
    off = "" if server.is_enabled else ", disabled"
    if server.status == "new":
        return f"new{off}"
    if server.status == "same":
        same = server.same_as if server.same_as != server.name else ""
        edited = ", edited since" if server.is_edited else ""
        return f"already present{f' as {same}' if same else ''}{edited}"
    if server.status == "pegboard":
        return "Pegboard itself"
    if server.status == "unusable":
        return "unusable"
    if server.writes_as is None:
        return "name is taken: you decide" if asks else "name is taken: skipped"
    other = server.writes_as != server.name
    return f"name is taken: {f'added as {server.writes_as}' if other else 'replaced'}{off}"


def plan_as_json(server: PlannedServer) -> dict[str, Any]:
    """Return a server as ``--json`` prints it: an array of objects, in the order of the plan.

    ``name``; ``client`` (or ``file``); ``file`` (the path that was read); ``status`` (``new``,
    ``same``, ``conflict``, ``pegboard``, ``unusable``); ``writes_as`` (its name in your file, null
    if it is not written); ``same_as`` (the server that is the same, or null); ``edited`` (whether
    one of these two was edited since the import); ``enabled``;
    ``type`` and ``target`` (null if unusable); ``secrets`` (fields with a secret in plain text);
    ``inputs`` (what VS Code would ask for); ``problem`` (or null).
    """
    return {
        "name": server.name,
        "client": server.client,
        "file": str(server.path),
        "status": server.status,
        "writes_as": server.writes_as,
        "same_as": server.same_as,
        "edited": server.is_edited,
        "enabled": server.is_enabled,
        "type": server.transport or None,
        "target": server.target or None,
        "secrets": list(server.secrets),
        "inputs": [it.id for it in server.inputs],
        "problem": server.problem,
    }


def _answers(plan: list[PlannedServer]) -> dict[tuple[Path, str], str]:
    """Ask for the inputs that VS Code would ask for; an empty one is left to the environment."""
    answers: dict[tuple[Path, str], str] = {}
    for server in plan:
        for asked in server.inputs:
            if (server.path, asked.id) in answers:
                continue
            words = f"{server.name} asks for {asked.description or asked.id}"
            words += f" [{asked.default}]: " if asked.default else ": "
            answers[server.path, asked.id] = answer_to(words, is_secret=asked.is_secret) or ""
    return answers


def _report(
    done: list[TakenOver], file: ServersFile, before: Iterable[str], *, is_quiet: bool
) -> None:
    tell = warn if is_quiet else say
    if not done:
        warn("Nothing was written.")
        return
    tell(f"Wrote {counted(len(done), 'server')} to {file.path}.")
    for server in done:
        # What the user entered is in no other place; the client's file keeps the rest.
        entered = {it: at for it, at in server.kept.items() if it.startswith("input:")}
        copied = {it: at for it, at in server.kept.items() if it not in entered}
        say_where_secrets_are(server.name, entered)
        say_where_secrets_are(server.name, copied, server.left, done="copied")
        for asked in server.unanswered:
            variable = input_variable(asked)
            warn(
                f"{server.name!r} needs the environment variable {variable} (`${{input:{asked}}}`)."
            )
    say_what_is_left(before, file)
    if any(not field.startswith("input:") for server in done for field in server.kept):
        warn(
            "The clients' files still contain these secrets; `pegboard connect CLIENT --only` "
            "removes the servers from them."
        )
    say_that_it_counts(file)
