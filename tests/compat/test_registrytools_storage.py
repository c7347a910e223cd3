import gc
import inspect
import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
from abc import ABC
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from pegboard import Tool
from pegboard.compat.registrytools import (
    JSONStorage,
    SQLiteStorage,
    ToolMetadata,
    ToolRegistry,
    ToolStorage,
    ToolTemperature,
)
from pegboard.errors import InvalidToolError
from pegboard.model import Usage
from pegboard.storage import open_store

NOW = datetime.now(UTC)
FULL = ToolMetadata(
    name="aws_cost_explorer",
    description="查询 AWS 账单 \N{PUSHPIN}",
    mcp_server="aws",
    defer_loading=False,
    tags={"aws", "billing", "成本"},
    category="cloud",
    use_frequency=12,
    last_used=NOW,
    temperature=ToolTemperature.HOT,
    input_schema={"type": "object", "properties": {"start_date": {"type": "string"}}},
    output_schema={"type": "array", "items": {"type": "number"}},
)
DAMAGED = b'{"a": {"name": "a", "descr' * 200
Kind = type[JSONStorage] | type[SQLiteStorage]
both = pytest.mark.parametrize("kind", [JSONStorage, SQLiteStorage])


class CustomStorage(ToolStorage):
    """As the document shows it: two methods, no `delete`."""

    tools: Mapping[str, ToolMetadata] = {}

    def load_all(self):
        return list(self.tools.values())

    def save(self, tool):
        self.tools = {**self.tools, tool.name: tool}


@pytest.mark.covers("R-REG-21")
def test_metadata_has_the_fields_and_defaults_of_the_document() -> None:
    assert ToolMetadata(name="a", description="b").model_dump() == {
        "name": "a",
        "description": "b",
        "mcp_server": None,
        "defer_loading": True,
        "tags": [],
        "category": None,
        "use_frequency": 0,
        "last_used": None,
        "temperature": ToolTemperature.COLD,
        "input_schema": None,
        "output_schema": None,
    }
    assert ToolMetadata(name="a", description="b").tags == set()
    with pytest.raises(ValidationError):
        ToolMetadata.model_validate({"name": "a"})


@pytest.mark.covers("R-REG-21")
def test_metadata_survives_its_own_json_and_shares_nothing() -> None:
    assert ToolMetadata.model_validate_json(FULL.model_dump_json()) == FULL
    one, other = (ToolMetadata(name="a", description="") for _ in range(2))
    one.tags.add("mine")
    assert other.tags == set()


@pytest.mark.covers("R-REG-35")
@pytest.mark.parametrize(
    "wrong",
    [{"name": 1}, {"tags": "ab"}, {"use_frequency": "x"}, {"last_used": "soon"}, {"last_used": []}],
    ids=ascii,
)
def test_metadata_of_the_wrong_shape_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ToolMetadata.model_validate({"name": "a", "description": "", **wrong})


def test_a_moment_stays_as_it_was_given() -> None:
    tool = ToolMetadata(name="a", description="", last_used=NOW.replace(tzinfo=None))
    assert tool.last_used == NOW.replace(tzinfo=None)
    tool.last_used = NOW.astimezone(timezone(timedelta(hours=8)))
    assert tool.last_used.utcoffset() == timedelta(hours=8)
    assert tool.last_used == NOW


@pytest.mark.covers("R-REG-18")
def test_a_storage_is_abstract_and_has_the_three_methods_of_the_document() -> None:
    assert issubclass(ToolStorage, ABC)
    assert {"load_all", "save", "delete"} < ToolStorage.__abstractmethods__
    with pytest.raises(TypeError, match="abstract"):
        ToolStorage()  # type: ignore[abstract]
    assert list(inspect.signature(ToolStorage.load_all).parameters) == ["self"]
    assert list(inspect.signature(ToolStorage.save).parameters) == ["self", "tool"]
    assert list(inspect.signature(ToolStorage.delete).parameters) == ["self", "tool_name"]


@pytest.mark.covers("R-REG-20", "X-REG-11")
def test_a_storage_of_the_documents_two_methods_gets_the_rest() -> None:
    storage = CustomStorage()  # pyright: ignore[reportAbstractUsage] - the document's
    storage.save_many([FULL, ToolMetadata(name="b", description="")])
    assert storage.get("b") == ToolMetadata(name="b", description="")
    assert storage.get("c") is None
    assert storage.exists("b")
    assert not storage.exists("c")
    assert storage.count() == 2
    assert not storage.is_empty()
    assert storage.validate()
    assert storage.path is None
    assert storage.load_by_temperature(ToolTemperature.HOT) == [FULL]
    registry = ToolRegistry()
    assert registry.load_hot_tools(storage) == 1
    assert registry.get_tool(FULL.name) == FULL
    with pytest.raises(NotImplementedError, match="CustomStorage cannot delete 'b'"):
        storage.delete("b")


@pytest.mark.covers("R-REG-20")
def test_a_storage_that_forgets_to_call_its_parent_works() -> None:
    class Careless(CustomStorage):
        def __init__(self) -> None:
            self.other = 1

        def delete(self, tool_name: str) -> None:
            self.tools = {it.name: it for it in self.load_all() if it.name != tool_name}

    storage = Careless()  # pyright: ignore[reportAbstractUsage]
    storage.save(FULL)
    assert storage.path is None
    storage.clear()
    assert storage.is_empty()


def test_a_storage_that_cannot_be_read_is_not_valid() -> None:
    class Broken(CustomStorage):
        def load_all(self):
            raise ZeroDivisionError

    assert not Broken().validate()  # pyright: ignore[reportAbstractUsage]


@both
@pytest.mark.covers("R-REG-19")
def test_every_field_survives_a_restart(kind: Kind, tmp_path: Path) -> None:
    bare = ToolMetadata(name="bare", description="")
    with kind(tmp_path / "tools") as storage:
        storage.save(FULL)
        storage.save(bare)
    with kind(tmp_path / "tools") as storage:
        assert storage.load_all() == [FULL, bare]
        assert storage.get(FULL.name) == FULL
        assert storage.get("bare") == bare


@pytest.mark.covers("R-REG-19")
@pytest.mark.parametrize(
    ("kind", "given", "file"),
    [
        (JSONStorage, "tools.json", "tools.json"),
        (JSONStorage, "tools", "tools.json"),
        (SQLiteStorage, "tools.db", "tools.db"),
        (SQLiteStorage, "tools", "tools.db"),
        (JSONStorage, "catalog.v1", "catalog.json"),
        (JSONStorage, "catalog.db", "catalog.json"),
        (SQLiteStorage, "catalog.v1", "catalog.db"),
        (SQLiteStorage, "catalog.json", "catalog.db"),
        (JSONStorage, "mine: 100%20/tools.json", "mine: 100%20/tools.json"),
    ],
)
def test_the_file_is_where_it_was_asked_for(
    kind: Kind, given: str, file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with kind(given) as storage:
        assert list(tmp_path.iterdir()) == []
        assert storage.path == Path(file)
        storage.save(FULL)
    assert (tmp_path / file).is_file()


@both
@pytest.mark.covers("R-REG-19", "X-REG-11")
def test_the_helpers_tell_what_is_there(kind: Kind, tmp_path: Path) -> None:
    with kind(tmp_path / "tools") as storage:
        assert not storage.validate()
        storage.initialize()
        assert storage.is_empty()
        storage.save_many([FULL, ToolMetadata(name="b", description="")])
        assert storage.validate()
        assert storage.count() == 2
        assert storage.exists("b")
        assert storage.delete("b")
        assert not storage.delete("b")
        assert not storage.exists("b")
        storage.clear()
        assert storage.load_all() == []


@both
@pytest.mark.covers("R-REG-33")
def test_a_batch_is_stored_all_or_none(kind: Kind, tmp_path: Path) -> None:
    with kind(tmp_path / "tools") as storage:
        storage.save(FULL)
        storage.save_many([])
        assert storage.load_all() == [FULL]
        bad: Any = "not a tool"
        with pytest.raises(AttributeError):
            storage.save_many([ToolMetadata(name="good", description=""), bad])
        assert storage.load_all() == [FULL]
        storage.save_many(ToolMetadata(name=f"t{it}", description="") for it in range(50))
        # RegistryTools adds them to a database, and writes a JSON file anew.
        assert storage.count() == (50 if kind is JSONStorage else 51)


@both
@pytest.mark.covers("R-REG-19")
def test_saving_again_replaces_usage_too(kind: Kind, tmp_path: Path) -> None:
    with kind(tmp_path / "tools") as storage:
        storage.save(FULL)
        storage.save(FULL.model_copy(update={"use_frequency": 0, "last_used": None}))
        found = storage.get(FULL.name)
        assert found is not None
        assert (found.use_frequency, found.last_used) == (0, None)
        storage.save(FULL)
        assert storage.get(FULL.name) == FULL


@both
@pytest.mark.covers("X-REG-4", "R-REG-30")
def test_tools_are_loaded_by_temperature(kind: Kind, tmp_path: Path) -> None:
    def used(name: str, times: int, days_ago: int) -> ToolMetadata:
        moment = NOW - timedelta(days=days_ago)
        return ToolMetadata(name=name, description="", use_frequency=times, last_used=moment)

    with kind(tmp_path / "tools") as storage:
        storage.save_many(
            [
                used("a-hot", 10, 0),
                used("b-idle", 99, 61),
                used("c-warm", 3, 59),
                used("d-warm", 9, 0),
                used("e-cold", 2, 0),
                ToolMetadata(name="f-new", description=""),
            ]
        )

        def names(temperature: ToolTemperature, limit: int | None = None) -> list[str]:
            return [it.name for it in storage.load_by_temperature(temperature, limit)]

        assert names(ToolTemperature.HOT) == ["a-hot", "b-idle"]
        assert names(ToolTemperature.WARM) == ["c-warm", "d-warm"]
        assert names(ToolTemperature.COLD) == ["e-cold", "f-new"]
        assert names(ToolTemperature.HOT, 1) == ["a-hot"]
        assert names(ToolTemperature.HOT, 0) == ["a-hot", "b-idle"]


def test_a_negative_limit_of_a_database_is_refused(tmp_path: Path) -> None:
    storage = SQLiteStorage(tmp_path / "tools")
    with pytest.raises(ValueError, match="limit must be non-negative"):
        storage.load_by_temperature(ToolTemperature.HOT, -1)


@both
def test_what_was_loaded_can_be_edited_and_saved(kind: Kind, tmp_path: Path) -> None:
    with kind(tmp_path / "tools") as storage:
        storage.save(FULL)
        [found] = storage.load_all()
        assert found.input_schema is not None
        found.input_schema["required"] = ["start_date"]
        found.tags.add("new")
        assert storage.get(FULL.name) == FULL
        storage.save(found)
        assert storage.get(FULL.name) == found


@both
@pytest.mark.covers("R-REG-36")
@pytest.mark.parametrize("name", ["'; DROP TABLE tools; --", "../../etc/passwd", "%", "a b"])
def test_text_that_means_something_elsewhere_is_only_text(
    kind: Kind, name: str, tmp_path: Path
) -> None:
    tool = ToolMetadata(name=name, description=name, category=name, tags={name})
    with kind(tmp_path / "tools") as storage:
        storage.save_many([tool, FULL])
        assert storage.get(name) == tool
        assert storage.delete(name)
        assert storage.load_all() == [FULL]


@both
@pytest.mark.parametrize("name", ["", "  ", "a\0", "a\nb", "a" * 600], ids=ascii)
def test_names_that_pegboard_refuses_are_stored_for_registrytools(
    kind: Kind, name: str, tmp_path: Path
) -> None:
    with kind(tmp_path / "tools") as storage:
        storage.save(FULL.model_copy(update={"name": name}))
        assert storage.exists(name)
        assert storage.delete(name)


@both
@pytest.mark.covers("R-REG-40")
def test_a_hundred_parallel_registrations_are_a_hundred_tools(kind: Kind, tmp_path: Path) -> None:
    storages = [kind(tmp_path / "tools") for _ in range(4)]
    start = threading.Barrier(16)

    def register(number: int) -> None:
        if number < 16:
            start.wait(timeout=10)
        storages[number % 4].save(ToolMetadata(name=f"t{number}", description=""))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(register, range(100)))
    assert {it.name for it in storages[0].load_all()} == {f"t{number}" for number in range(100)}
    for storage in storages:
        storage.close()


@pytest.mark.covers("X-REG-13")
def test_a_json_file_is_whole_whenever_somebody_looks(tmp_path: Path) -> None:
    writing = threading.Event()
    writing.set()

    def write() -> None:
        try:
            for number in range(20):
                with JSONStorage(tmp_path / "tools") as storage:
                    storage.save(FULL.model_copy(update={"name": f"t{number}"}))
        finally:
            writing.clear()

    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(write)
        while writing.is_set():
            for file in tmp_path.glob("tools.json"):
                assert json.loads(file.read_text("utf-8"))
        written.result()
    assert len(json.loads((tmp_path / "tools.json").read_text("utf-8"))) == 20
    assert [it.name for it in tmp_path.iterdir()] == ["tools.json"]


@both
def test_a_damaged_file_is_not_valid_and_raises_an_os_error(kind: Kind, tmp_path: Path) -> None:
    with kind(tmp_path / "tools") as storage:
        storage.path.write_bytes(DAMAGED)
        assert not storage.validate()
        with pytest.raises(OSError, match=re.escape(str(storage.path))):
            storage.load_all()
        with pytest.raises(OSError, match=re.escape(str(storage.path))):
            storage.delete("a")
        assert (storage.count(), storage.get("a"), storage.exists("a")) == (0, None, False)
        assert storage.path.read_bytes() == DAMAGED


def test_a_damaged_json_file_is_kept_before_a_new_one_is_begun(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    storage = JSONStorage(tmp_path / "tools")
    storage.path.write_bytes(DAMAGED)
    storage.save(FULL)
    assert storage.load_all() == [FULL]
    [kept] = [it for it in tmp_path.iterdir() if it != storage.path]
    assert (kept.read_bytes(), str(kept) in caplog.text) == (DAMAGED, True)


def test_an_unreadable_json_file_is_not_replaced(tmp_path: Path) -> None:
    storage = JSONStorage(tmp_path / "tools")
    storage.path.mkdir()
    with pytest.raises(OSError, match=re.escape("tools.json")):
        storage.save(FULL)
    assert [it.name for it in tmp_path.iterdir()] == ["tools.json"]


def test_a_database_that_another_process_writes_to_is_an_os_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pegboard.storage.registrytools.PATIENCE", 0.01)
    with SQLiteStorage(tmp_path / "tools") as storage:
        storage.save(FULL)
        with closing(sqlite3.connect(storage.path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with SQLiteStorage(tmp_path / "tools") as second:
                with pytest.raises(OSError, match="locked"):
                    second.save(FULL)
                assert second.load_all() == [FULL]


def test_a_database_that_was_deleted_is_made_anew(tmp_path: Path) -> None:
    with SQLiteStorage(tmp_path / "tools") as storage:
        storage.save(FULL)
        storage.path.unlink()
        storage.save(FULL.model_copy(update={"name": "new"}))
        with SQLiteStorage(tmp_path / "tools") as other:
            assert [it.name for it in other.load_all()] == ["new"]


def test_a_database_with_other_columns_keeps_what_is_in_them(tmp_path: Path) -> None:
    with SQLiteStorage(tmp_path / "tools") as storage:
        storage.save_many([FULL, ToolMetadata(name="b", description="")])
        with closing(sqlite3.connect(storage.path)) as connection:
            connection.execute("ALTER TABLE tools ADD COLUMN future TEXT")
            connection.execute("UPDATE tools SET future = name")
            connection.commit()
            storage.save(FULL.model_copy(update={"description": "new"}))
            rows = connection.execute("SELECT name, description, future FROM tools").fetchall()
        assert rows == [(FULL.name, "new", FULL.name), ("b", "", "b")]
        assert [it.description for it in storage.load_all()] == ["new", ""]


def test_a_database_without_temperatures_can_be_written(tmp_path: Path) -> None:
    with SQLiteStorage(tmp_path / "tools") as storage:
        storage.initialize()
        with closing(sqlite3.connect(storage.path)) as connection:
            connection.execute("ALTER TABLE tools DROP COLUMN temperature")
        storage.save(FULL)
        assert storage.load_all()[0].description == FULL.description


@both
@pytest.mark.skipif(sys.platform == "win32", reason="no such limits")
def test_a_full_disk_is_an_os_error_and_changes_nothing(kind: Kind, tmp_path: Path) -> None:
    with kind(tmp_path / "tools") as storage:
        storage.save(FULL)
    code = f"""
import resource, signal, sys
from pegboard.compat.registrytools import {kind.__name__}, ToolMetadata
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, resource.RLIM_INFINITY))
storage = {kind.__name__}(sys.argv[1])
try:
    storage.save(ToolMetadata(name="large", description="x" * 100_000))
except OSError as error:
    print(error, storage.count())
"""
    place = str(tmp_path / "tools")
    done = subprocess.run([sys.executable, "-c", code, place], check=True, capture_output=True)
    assert done.stdout.rstrip().endswith(b" 1")
    with kind(tmp_path / "tools") as storage:
        assert storage.load_all() == [FULL]
    assert [it.name for it in tmp_path.iterdir()] == [storage.path.name]


@both
def test_many_writes_keep_the_log_short(kind: Kind, tmp_path: Path) -> None:
    with kind(tmp_path / "tools") as storage:
        for number in range(30):
            storage.save(FULL.model_copy(update={"name": "a", "description": "x" * 300_000}))
            assert storage.count() == 1, number
        sizes = [it.stat().st_size for it in tmp_path.iterdir()]
        assert max(sizes) < 8_000_000


@pytest.mark.parametrize(("kind", "name"), [(JSONStorage, "t.json"), (SQLiteStorage, "t.db")])
@pytest.mark.covers("R-REG-36", "R-REG-19")
def test_a_store_of_pegboard_is_used_as_it_is(kind: Kind, name: str, tmp_path: Path) -> None:
    odd = "'; DROP TABLE tools; --"
    with open_store(tmp_path / name) as store, kind(tmp_path / name) as storage:
        # It is open, and its newest changes are not in the file yet.
        store.save(Tool(name="of_the_gateway", description="here"))
        assert storage.validate()
        assert [it.name for it in storage.load_all()] == ["of_the_gateway"]
        storage.save_many([FULL, ToolMetadata(name=odd, description="")])
        storage.initialize()
        assert storage.count() == 3
        found = storage.get(FULL.name)
        assert found is not None
        assert (found.tags, found.input_schema) == (FULL.tags, FULL.input_schema)
        assert found.last_used is not None
        assert found.last_used.astimezone(UTC) == NOW
        assert store.usage() == {FULL.name: Usage(use_frequency=12, last_used=NOW)}
        assert [it.name for it in storage.load_by_temperature(ToolTemperature.HOT)] == [FULL.name]
        assert storage.delete(odd)
        assert not storage.delete(odd)
        assert not storage.exists("a\nb")
        with pytest.raises(InvalidToolError):
            storage.save(FULL.model_copy(update={"name": "a\nb"}))
        assert len(store.load_all()) == 2
        storage.clear()
        assert store.load_all() == []


def test_a_damaged_store_of_pegboard_is_an_os_error(tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_text('{"version": 1, "tools": {"a": {"description": 5}}}', "utf-8")
    with JSONStorage(path) as storage, pytest.raises(OSError, match="recover"):
        storage.load_all()


@pytest.mark.covers("R-REG-40")
def test_a_gateway_that_opens_the_same_json_file_loses_nothing(tmp_path: Path) -> None:
    storage = JSONStorage(tmp_path / "tools")
    storage.save(FULL)
    with open_store(storage.path) as store:
        storage.save(FULL.model_copy(update={"name": "a"}))
        assert {it.tool.name for it in store.load_all()} == {FULL.name, "a"}
        store.save(Tool(name="b", description=""))
        storage.save(FULL.model_copy(update={"name": "c"}))
        assert {it.tool.name for it in store.load_all()} == {FULL.name, "a", "b", "c"}
        assert {it.name for it in storage.load_all()} == {FULL.name, "a", "b", "c"}
    storage.close()
    assert (tmp_path / "tools.json.v0").exists()


@both
def test_a_closed_storage_opens_again_and_one_that_is_dropped_leaves_no_thread(
    kind: Kind, tmp_path: Path
) -> None:
    before = set(threading.enumerate())
    storage = kind(tmp_path / "tools")
    storage.save(FULL)
    storage.close()
    storage.close()
    assert storage.load_all() == [FULL]
    del storage
    gc.collect()
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=5)
    assert set(threading.enumerate()) <= before


@pytest.mark.covers("X-REG-11")
def test_tools_move_from_json_to_sqlite_and_back(tmp_path: Path) -> None:
    with JSONStorage(tmp_path / "a") as one, SQLiteStorage(tmp_path / "b") as two:
        one.save_many([FULL, ToolMetadata(name="b", description="")])
        two.save_many(one.load_all())
        with JSONStorage(tmp_path / "c") as three:
            three.save_many(two.load_all())
            assert three.load_all() == one.load_all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_does_not_wait_for_a_thread_of_its_parent(tmp_path: Path) -> None:
    # In a process of its own: pytest has threads, too.
    code = """
import os, sys, threading
from pegboard.compat.registrytools import SQLiteStorage, ToolMetadata
storage = SQLiteStorage(sys.argv[1])
storage.save(ToolMetadata(name="a", description=""))
stop = threading.Event()
def work():
    while not stop.is_set():
        storage.save(ToolMetadata(name="a", description=""))
thread = threading.Thread(target=work)
thread.start()
for number in range(10):
    child = os.fork()
    if not child:
        storage.save(ToolMetadata(name=f"child-{number}", description=""))
        os._exit(0 if storage.count() > number else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
thread.join()
print(storage.count())
"""
    path = tmp_path / "tools.db"
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, timeout=60, check=False
    )
    assert (done.stdout, done.returncode) == (b"11\n", 0), done.stderr.decode()


def test_a_batch_that_reads_the_storage_is_stored_all_or_none(tmp_path: Path) -> None:
    with SQLiteStorage(tmp_path / "tools") as storage:

        def tools(*, fails: bool) -> Iterator[ToolMetadata]:
            for name in ("a", "b"):
                if not storage.exists(name):
                    yield ToolMetadata(name=name, description="")
            if fails:
                raise KeyError

        with pytest.raises(KeyError):
            storage.save_many(tools(fails=True))
        assert storage.count() == 0
        storage.save_many(tools(fails=False))
        assert storage.count() == 2


def test_a_journal_that_is_not_ours_makes_no_store_of_a_file(tmp_path: Path) -> None:
    with JSONStorage(tmp_path / "tools") as storage:
        storage.save(FULL)
        (tmp_path / "tools.json.journal").write_bytes(b"junk")
        storage.save(ToolMetadata(name="b", description=""))
        assert {it.name for it in storage.load_all()} == {FULL.name, "b"}
    assert set(json.loads((tmp_path / "tools.json").read_text("utf-8"))) == {FULL.name, "b"}


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"[1]", (AttributeError, TypeError)),
        (b"null", (AttributeError, TypeError)),
        (b'{"\xe9": 1}', UnicodeDecodeError),
        (b"[" * 200_000, RecursionError),
        (b'{"a":' + b"9" * 5000 + b"}", ValueError),
    ],
)
def test_json_of_another_kind_raises_what_programs_catch(
    content: bytes, kind: type[Exception] | tuple[type[Exception], ...], tmp_path: Path
) -> None:
    path = tmp_path / "tools.json"
    path.write_bytes(content)
    storage = JSONStorage(path)
    with pytest.raises(kind):
        storage.load_all()
    with pytest.raises(kind):
        storage.save(FULL)
    assert path.read_bytes() == content


def test_a_database_refuses_a_number_that_is_too_large(tmp_path: Path) -> None:
    with SQLiteStorage(tmp_path / "tools") as storage:
        for expected in (OverflowError, OSError):
            with pytest.raises(expected):
                storage.save(ToolMetadata(name="a", description="", use_frequency=10**30))
        assert storage.count() == 0
        storage.save_many([FULL, ToolMetadata(name="deep", description="")])
        with closing(sqlite3.connect(storage.path)) as connection:
            deep = ("[" * 100_000,)
            connection.execute("UPDATE tools SET tags = ? WHERE name = 'deep'", deep)
            connection.commit()
        assert storage.load_all() == [FULL]
        with pytest.raises(ValueError, match="too deeply"):
            storage.get("deep")
