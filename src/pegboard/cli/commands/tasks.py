"""`pegboard tasks`: list, show and cancel the calls that run as tasks of the gateway."""

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from pegboard.cli.catalogue.running_gateway import store_meant
from pegboard.cli.entry.error_messages import values_checked
from pegboard.cli.exit_codes import FAILED, NOT_FOUND
from pegboard.cli.terminal.durations import as_iso, shown
from pegboard.cli.terminal.output import complain, say, show_table, warn, write_json
from pegboard.gateway.tasks.record import TaskRecord, read_object
from pegboard.gateway.tasks.table import Letter, StoredTask, TaskTable
from pegboard.model.hidden_characters import visible
from pegboard.model.json_values import object_in
from pegboard.model.principal import OPERATOR
from pegboard.storage.maintenance import open_existing
from pegboard.storage.open_store import without_password

__all__ = ["add_to", "task_as_json"]

_tasks = typer.Typer(
    help="List, show and cancel the calls that run as tasks of the gateway.", no_args_is_help=True
)

_Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help="Store with the tasks (default: PEGBOARD_STORE, or your own store).",
    ),
]
_Id = Annotated[
    str, typer.Argument(metavar="ID", help="Its id, as `pegboard tasks list` shows it.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def add_to(root: typer.Typer) -> None:
    """Add the commands to an application."""
    root.add_typer(_tasks, name="tasks")


@_tasks.command("list")
def list_tasks(
    *,
    tenant: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only the tasks of this tenant.")
    ] = None,
    running: Annotated[
        bool, typer.Option("--running", help="Only tasks that have not ended.")
    ] = False,
    store: _Store = None,
    json: _Json = False,
) -> None:
    """List the tasks that a gateway runs, and those whose results it still keeps."""
    with _opened(store) as table:
        stored = {} if table is None else table.load_all()
    now = time.time()
    found = [
        it.record
        for it in stored.values()
        if it.record.expires > now
        and (tenant is None or it.record.tenant == tenant)
        and not (running and it.record.status.is_final)
    ]
    found.sort(key=lambda it: -it.created)
    if json:
        write_json([task_as_json(it) for it in found])
    elif found:
        rows = ([_COLUMNS[column](it) for column in _COLUMNS] for it in found)
        show_table(list(_COLUMNS), rows, whole=("STATUS", "CREATED"))
    elif table is not None:
        warn("There are no tasks: a slow call becomes one if its client can have tasks.")


@_tasks.command()
def show(task: _Id, *, store: _Store = None, json: _Json = False) -> None:
    """Show a task, and its result if it has one.

    The exit code is 3 if there is no such task.
    """
    with _opened(store) as table:
        record = _found(table, task).record
        written = None if table is None or not record.status.is_final else table.result(task)
    result = None if written is None else read_object(written)
    if json:
        write_json({**task_as_json(record), "result": result})
        return
    for name, value in task_as_json(record).items():
        if value not in (None, ""):
            say(f"{name + ':':<10} {value}")
    for block in () if result is None else result.get("content", ()):
        text = object_in(block).get("text")
        say()
        say(visible(text) if isinstance(text, str) else f"[{object_in(block).get('type')}]")


@_tasks.command()
def cancel(task: _Id, *, store: _Store = None, json: _Json = False) -> None:
    """Cancel a task. The gateway that runs it does so a moment later, and tells the server.

    The exit code is 3 if there is no such task, and 1 if it has ended already.
    """
    with _opened(store) as table:
        record = _found(table, task).record
        is_over = record.status.is_final
        is_run = False
        if table is not None and not is_over:
            table.post(Letter(task=task, cancel=True))
            is_run = record.runner in table.living()
    if is_over:
        complain(f"Task {task} has ended already: it is {record.status.value}.")
        raise typer.Exit(FAILED)
    if json:
        write_json(task_as_json(record))
        return
    words = "" if is_run else " No gateway runs it now; the next that starts will."
    say(f"Task {task} is being cancelled.{words}")


def task_as_json(record: TaskRecord) -> dict[str, Any]:
    """Return a task as ``--json`` prints it.

    ``id``, ``status`` (``working``, ``input_required``, ``completed``, ``failed`` or
    ``cancelled``), ``tool``, ``server`` (null if it has none), ``tenant``, ``key``, ``created``,
    ``updated`` and ``expires`` (ISO 8601), ``message`` (null if there is none) and ``bytes`` of the
    result.
    """
    return {
        "id": record.id,
        "status": record.status.value,
        "tool": record.tool,
        "server": record.server,
        "tenant": record.tenant,
        "key": record.subject,
        "created": as_iso(record.created),
        "updated": as_iso(record.updated),
        "expires": as_iso(record.expires),
        "message": None if record.message is None else visible(record.message),
        "bytes": record.size,
    }


@contextmanager
def _opened(store: str | None) -> Generator[TaskTable | None]:
    url = store_meant(store)
    with values_checked():
        opened = open_existing(url, tenant=OPERATOR)
    if opened is None:
        warn(f"There is no store at {without_password(url)} yet, so no tasks are kept.")
        yield None
        return
    with opened:
        yield TaskTable(opened)


def _found(table: TaskTable | None, task: str) -> StoredTask:
    stored = None if table is None else table.load(task)
    if stored is None or stored.record.expires <= time.time():
        complain(f"There is no task {visible(task[:64])!r}: `pegboard tasks list` shows them.")
        raise typer.Exit(NOT_FOUND)
    return stored


_COLUMNS: Mapping[str, Callable[[TaskRecord], str]] = {
    "ID": lambda it: it.id,
    "STATUS": lambda it: it.status.value,
    "TOOL": lambda it: it.tool,
    "KEY": lambda it: it.subject,
    "TENANT": lambda it: it.tenant,
    "CREATED": lambda it: shown(it.created, nothing=""),
}
