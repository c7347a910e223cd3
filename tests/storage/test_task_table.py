"""The tasks of the gateway in every kind of store, and in memory."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import msgspec
import pytest

from pegboard.errors import RevisionConflictError
from pegboard.gateway.tasks.record import TaskFailure, TaskRecord, new_task_id, read_object, written
from pegboard.gateway.tasks.table import Letter, TaskTable
from pegboard.model.task import ServerTask, TaskStatus
from pegboard.storage import Store

STRANGE = {"a": ["\ud800", "é", None, 1.5, {"deep": True}], "\x00": "nul"}


@pytest.fixture
def tables(place: Callable[[str], Store]) -> Iterator[Callable[[], TaskTable]]:
    """Return what opens the same table again, as another process does."""
    tenant = f"t-{uuid.uuid4().hex}"
    with ExitStack() as stack:
        yield lambda: TaskTable(stack.enter_context(place(tenant)))


def task(**more: object) -> TaskRecord:
    made = TaskRecord(
        id=new_task_id(),
        tenant="default",
        subject="key",
        tool="mcp_desk_slow",
        server="desk",
        created=1_700_000_000.25,
        updated=1_700_000_001.5,
        ttl=60.0,
    )
    return msgspec.structs.replace(made, **more)


def test_a_task_comes_back_as_it_was_in_another_process(tables: Callable[[], TaskTable]) -> None:
    full = task(
        status=TaskStatus.FAILED,
        message="Ü",
        asked=written(STRANGE),
        failure=TaskFailure(code=-32000, message="no", data=written(STRANGE)),
        is_error=True,
        size=7,
        runner="me",
        upstream=ServerTask(task_id="theirs", era="modern", ttl_ms=5, poll_interval_ms=1),
        era="legacy",
        version="2025-11-25",
        capabilities=written({"elicitation": {}}),
        relays=True,
    )
    revision = tables().save(full, expected=None)
    found = tables().load(full.id)
    assert found is not None
    assert (found.record, found.revision) == (full, revision)
    assert read_object(found.record.asked) == STRANGE
    assert tables().load(new_task_id()) is None


def test_only_one_of_two_processes_changes_a_task(tables: Callable[[], TaskTable]) -> None:
    mine, theirs = tables(), tables()
    first = task()
    revision = mine.save(first, expected=None)
    with pytest.raises(RevisionConflictError):
        theirs.save(first, expected=None)
    taken = theirs.save(msgspec.structs.replace(first, runner="theirs"), expected=revision)
    with pytest.raises(RevisionConflictError):
        mine.save(first, expected=revision)
    done = first.with_status(TaskStatus.COMPLETED, None, now=1_700_000_002.0)
    theirs.finish(done, written(STRANGE), expected=taken)
    found = mine.load(first.id)
    assert found is not None
    assert found.record.status is TaskStatus.COMPLETED
    assert read_object(mine.result(first.id) or "") == STRANGE


def test_all_are_listed_and_deleted_with_their_results(tables: Callable[[], TaskTable]) -> None:
    table = tables()
    made = [task() for _ in range(3)]
    for it in made:
        table.finish(it, "{}", expected=None)
    assert {key: it.record for key, it in tables().load_all().items()} == {it.id: it for it in made}
    table.delete([made[0].id, made[1].id])
    assert list(tables().load_all()) == [made[2].id]
    assert [tables().result(it.id) for it in made] == [None, None, "{}"]


def test_a_list_for_a_client_has_what_this_process_has_saved(
    tables: Callable[[], TaskTable],
) -> None:
    table, made = tables(), [task(), task()]
    assert table.load_recent() == {}
    table.save(made[0])
    assert list(table.load_recent()) == [made[0].id]
    assert table.load_recent() is table.load_recent()
    table.finish(made[1], "{}")
    assert len(table.load_recent()) == 2
    table.delete([it.id for it in made])
    assert table.load_recent() == {}


def test_letters_reach_another_process_once(tables: Callable[[], TaskTable]) -> None:
    tables().post(Letter(task="t", responses=written(STRANGE)))
    tables().post(Letter(task="t", cancel=True))
    found = tables().letters()
    assert sorted(it.cancel for it in found.values()) == [False, True]
    assert STRANGE in [read_object(it.responses) for it in found.values()]
    tables().take_letters(found)
    assert tables().letters() == {}


def test_a_gateway_lives_as_long_as_it_says(tables: Callable[[], TaskTable]) -> None:
    tables().stay("one", 60)
    tables().stay("two", -1)
    assert tables().living() == {"one"}
    tables().leave("one")
    assert tables().living() == set()


def test_without_a_store_tasks_are_in_memory() -> None:
    table = TaskTable(None)
    made = task()
    table.finish(made, "{}", expected=None)
    with pytest.raises(RevisionConflictError):
        table.save(made, expected=None)
    found = table.load(made.id)
    assert found is not None
    assert (found.record, table.result(made.id)) == (made, "{}")
    assert TaskTable(None).load(made.id) is None
