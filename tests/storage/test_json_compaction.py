"""Compaction of the JSON store: writers wait for it, editors win, and a crash loses nothing."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from pegboard.model import Tool
from pegboard.storage import open_store
from pegboard.storage.json_file import compaction
from pegboard.storage.json_file.content import JsonContent
from tests.storage.test_json_file import files as files_of
from tests.storage.test_json_file import names, until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tools.json"


@pytest.fixture
def while_compacting(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What is appended to it is done once each, in the middle of the next compaction."""
    todo: list[Any] = []
    text = compaction.tools_text

    def interrupted(content: JsonContent) -> bytes:
        if todo:
            todo.pop(0)()
        return text(content)

    monkeypatch.setattr(compaction, "tools_text", interrupted)
    monkeypatch.setattr(compaction, "QUIET", 0.0)
    return todo


def test_what_is_written_during_a_compaction_waits_for_it_and_is_kept(
    path: Path, while_compacting: list[Any]
) -> None:
    began = threading.Event()
    with open_store(path) as store, open_store(path) as other, open_store(path) as late:
        writers = [
            threading.Thread(target=store.save, args=(Tool(name="b"),)),
            threading.Thread(
                target=other.save_many,
                args=([Tool(name="c"), Tool(name="a", description="changed")],),
            ),
        ]

        def meanwhile() -> None:
            for writer in writers:
                writer.start()
            began.set()

        while_compacting.append(meanwhile)
        store.save(Tool(name="a"))
        assert began.wait(5)
        for writer in writers:
            writer.join()
        for one in (store, other, late):
            assert sorted(names(one)) == ["a", "b", "c"]
            assert one.load(["a"])["a"].tool.description == "changed"
    assert files_of(path) == ["tools.json"]
    assert sorted(json.loads(path.read_bytes())["tools"]) == ["a", "b", "c"]


def test_an_edit_during_a_compaction_is_not_overwritten(
    path: Path, while_compacting: list[Any]
) -> None:
    edited = threading.Event()
    with open_store(path) as store:
        store.save(Tool(name="a"))
    text = path.read_text("utf-8").replace('"defer', '"description": "by hand", "defer')

    def edit() -> None:
        path.write_text(text, "utf-8")
        edited.set()

    with open_store(path) as store:
        while_compacting.append(edit)
        store.save(Tool(name="b"))
        assert edited.wait(5)
        assert store.load(["a"])["a"].tool.description == "by hand"
    assert list(json.loads(path.read_bytes())["tools"]) == ["a", "b"]
    with open_store(path) as store:
        assert store.load(["a"])["a"].tool.description == "by hand"
        assert names(store) == ["a", "b"]


def test_the_longer_a_compaction_takes_the_rarer_it_is(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "QUIET", 0.0)
    monkeypatch.setattr(compaction, "SHARE", 1e9)
    with open_store(path) as store:
        store.save(Tool(name="a"))
        until(path.exists)
        store.save(Tool(name="b"))
        # Kept by another: it has a measure of its own, and does not wait for this one.
        with open_store(path) as other:
            assert names(other) == ["a", "b"]
        journal = path.with_name("tools.json.journal")
        store.save(Tool(name="c"))
        assert journal.read_bytes().count(b"\n") >= 2


VERSION_0 = '{"old": {"name": "old"}}'
CRASHING = """
import json, os, sys
from pegboard.model import Tool
from pegboard.storage import open_store

CALLS = ("write", "pwrite", "fsync", "fdatasync", "replace", "ftruncate", "unlink", "open", "close")
real_exit, real_write = os._exit, os.write


def dies(name):
    real = getattr(os, name)

    def call(*arguments, **options):
        global step
        step -= 1
        if step == 0:
            if name.endswith("write"):
                # Half of it is on the disk.
                handle, data, *rest = arguments
                real(handle, data[: len(data) // 2], *rest)
            real_exit(9)
        return real(*arguments, **options)

    return call


def child(path, told):
    store = open_store(path)

    def keep(word, tool):
        store.save(tool)
        real_write(told, word)

    for name in CALLS:
        setattr(os, name, dies(name))
    keep(b"a1 ", Tool(name="a", description="1"))
    store.namespace("room").put("key", 1)
    real_write(told, b"key ")
    keep(b"b ", Tool(name="b"))
    store._transactions.compact()
    keep(b"a2 ", Tool(name="a", description="2"))
    keep(b"c ", Tool(name="c"))
    store.close()


for number in range(1, 1000):
    path = f"{sys.argv[1]}/{number}/tools.json"
    os.mkdir(os.path.dirname(path))
    with open(path, "w", encoding="utf-8") as file:
        file.write(VERSION_0)
    ours, told = os.pipe()
    step = number
    if os.fork() == 0:
        child(path, told)
        real_exit(0)
    os.close(told)
    with open(ours, "rb") as words:
        told = words.read().decode().split()
    code = os.waitstatus_to_exitcode(os.wait()[1])
    print(json.dumps([path, code, told]))
    if code != 9:
        break
"""


@pytest.mark.skipif(sys.platform == "win32", reason="It forks.")
@pytest.mark.timeout(60)
@pytest.mark.covers("R-REG-40")
def test_a_process_that_dies_at_any_step_of_a_compaction_loses_nothing(tmp_path: Path) -> None:
    script = f"VERSION_0 = {VERSION_0!r}\n{CRASHING}"
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=True)
    runs = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(runs) > 40
    assert [code for _, code, _ in runs] == [9] * (len(runs) - 1) + [0]
    for name, _, told in runs:
        with open_store(name) as store:
            # So that the file is written in any case.
            store.save(Tool(name="afterwards"))
            found = {it.tool.name: it.tool.description for it in store.load_all()}
            assert found.keys() >= {"old", *(word[0] for word in told if word != "key")}, name
            assert "a2" not in told or found["a"] == "2", name
            assert "key" not in told or store.namespaces() == ["room"], name
        first = Path(name).with_name("tools.json.v0")
        assert first.read_text("utf-8") == VERSION_0
        assert set(files_of(Path(name))) <= {"tools.json", "tools.state.json", first.name}, name
