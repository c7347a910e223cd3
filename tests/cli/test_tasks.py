"""`pegboard tasks`."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from pegboard.cli.main import main
from pegboard.gateway.tasks.record import TaskRecord, new_task_id, written
from pegboard.gateway.tasks.table import TaskTable
from pegboard.model.principal import OPERATOR
from pegboard.model.task import TaskStatus
from pegboard.storage import open_store

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_CONFIG_HOME", "APPDATA", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path))

    def running(*words: str) -> tuple[int, str, str]:
        code = main(["tasks", *words, "--store", str(tmp_path / "it.db")])
        said = capsys.readouterr()
        return code, said.out, said.err

    return running


@pytest.fixture
def kept(tmp_path: Path) -> tuple[TaskRecord, TaskRecord]:
    """A task that runs and one that has ended."""
    now = time.time()
    running = TaskRecord(
        id=new_task_id(),
        tenant="default",
        subject="k-1",
        tool="desk_slow",
        server="desk",
        created=now - 60,
        updated=now - 60,
        ttl=3600.0,
        runner="someone",
    )
    ended = msgspec.structs.replace(
        running, id=new_task_id(), tenant="garden", status=TaskStatus.COMPLETED, runner=""
    )
    with open_store(str(tmp_path / "it.db"), tenant=OPERATOR) as store:
        table = TaskTable(store)
        table.save(running)
        table.finish(ended, written({"content": [{"type": "text", "text": "dug \x1b[31m"}]}))
    return running, ended


def test_tasks_are_listed(run: Run, kept: tuple[TaskRecord, TaskRecord]) -> None:
    running, ended = kept
    code, out, _ = run("list")
    assert code == 0
    assert running.id in out
    assert ended.id in out
    code, out, _ = run("list", "--running", "--json")
    [found] = json.loads(out)
    assert (found["id"], found["status"], found["key"]) == (running.id, "working", "k-1")
    code, out, _ = run("list", "--tenant", "garden", "--json")
    assert [it["id"] for it in json.loads(out)] == [ended.id]


def test_a_task_is_shown_with_its_result(run: Run, kept: tuple[TaskRecord, TaskRecord]) -> None:
    code, out, _ = run("show", kept[1].id)
    assert code == 0
    assert "dug" in out
    assert "\x1b" not in out
    code, out, _ = run("show", kept[1].id, "--json")
    assert json.loads(out)["result"]["content"][0]["text"] == "dug \x1b[31m"


def test_a_task_is_cancelled_by_the_gateway_that_runs_it(
    run: Run, kept: tuple[TaskRecord, TaskRecord], tmp_path: Path
) -> None:
    running, ended = kept
    code, out, _ = run("cancel", running.id)
    assert code == 0
    assert "No gateway runs it now" in out
    with open_store(str(tmp_path / "it.db"), tenant=OPERATOR) as store:
        [letter] = TaskTable(store).letters().values()
    assert (letter.task, letter.cancel) == (running.id, True)
    code, _, told = run("cancel", ended.id)
    assert code == 1
    assert "ended already" in told


@pytest.mark.usefixtures("kept")
@pytest.mark.parametrize("command", ["show", "cancel"])
def test_an_unknown_task_is_not_found(run: Run, command: str) -> None:
    code, _, told = run(command, "pbt_unknown")
    assert code == 3
    assert "pegboard tasks list" in told


def test_without_a_store_there_are_no_tasks(run: Run) -> None:
    code, _, told = run("list")
    assert code == 0
    assert "no tasks are kept" in told
