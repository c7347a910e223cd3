"""Data files of RegistryTools: taking them over, and writing them."""

import json
import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pegboard import Tool
from pegboard.cli.main import main
from pegboard.errors import StorageError
from pegboard.model import Usage
from pegboard.storage import open_store
from pegboard.storage.registrytools import (
    RegistryToolsDatabase,
    RegistryToolsJson,
    insert,
)
from pegboard.storage.registrytools_import import read_data
from tests.conftest import TOOLS

Run = Callable[..., tuple[int, str, str]]
REAL = TOOLS / "oracles" / "registrytools" / "bin" / "python"
with_the_real_one = pytest.mark.interop_full("oracles/registrytools")
kinds = pytest.mark.parametrize("name", ["tools.json", "tools.db"])
# What RegistryTools has written where the clocks were eight hours ahead of UTC.
NOON = "2026-01-05T12:00:00.500000"
FOUR = datetime(2026, 1, 5, 4, 0, 0, 500_000, UTC)


def entry(name: str, **fields: Any) -> dict[str, Any]:
    empty = {
        "mcp_server": None,
        "defer_loading": True,
        "tags": [],
        "category": None,
        "use_frequency": 0,
        "last_used": None,
        "temperature": "cold",
        "input_schema": None,
        "output_schema": None,
    }
    return {"name": name, "description": f"The tool {name}."} | empty | fields


FULL = entry(
    "aws.cost",
    mcp_server="aws",
    defer_loading=False,
    tags=["z", "成本"],
    category="cloud",
    use_frequency=12,
    last_used=NOON,
    temperature="hot",
    input_schema={"type": "object", "properties": {"b": {}, "a": {}}},
    output_schema={"type": "array"},
)
TAKEN = Tool(
    name="aws.cost",
    description="The tool aws.cost.",
    server="aws",
    defer_loading=False,
    tags=("z", "成本"),
    category="cloud",
    input_schema={"type": "object", "properties": {"b": {}, "a": {}}},
    output_schema={"type": "array"},
)


@pytest.fixture(autouse=True)
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if not hasattr(time, "tzset"):
        pytest.skip("The time zone of a process cannot be changed here.")
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "CST-8")
        time.tzset()
        yield
    time.tzset()


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def running(*words: object) -> tuple[int, str, str]:
        code = main(["store", *map(str, words)])
        said = capsys.readouterr()
        return code, said.out, said.err

    return running


def written(path: Path, *entries: dict[str, Any]) -> Path:
    """Write a file as RegistryTools does."""
    if path.suffix == ".json":
        path.write_text(json.dumps({it["name"]: it for it in entries}), "utf-8")
    else:
        database = RegistryToolsDatabase(path)
        database.create()
        with database.writing() as connection:
            insert(connection, entries)
        database.close()
    return path


def real(code: str, *arguments: object) -> Any:
    """Run a program with RegistryTools itself, and return the JSON that it prints."""
    done = subprocess.run(
        [
            REAL,
            "-c",
            f"import json, sys\nfrom registrytools import *\n{code}",
            *map(str, arguments),
        ],
        check=True,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
    )
    return json.loads(done.stdout) if done.stdout else None


@kinds
@pytest.mark.covers("R-REG-19")
def test_everything_is_taken_over_once_and_the_file_stays(
    name: str, tmp_path: Path, run: Run
) -> None:
    file = written(tmp_path / name, FULL, entry("b"), entry("c", use_frequency=2))
    before = file.read_bytes()
    target = tmp_path / "store.db"
    code, out, told = run("import", file, "--store", target)
    assert (code, told) == (0, "")
    assert "Copied 3 tools and the usage of 2 tools" in out
    with open_store(target) as store:
        assert store.load(["aws.cost"])["aws.cost"].tool == TAKEN
        assert store.usage() == {
            "aws.cost": Usage(use_frequency=12, last_used=FOUR),
            "c": Usage(use_frequency=2),
        }
        code, out, _ = run("import", file, "--store", target)
        assert "Copied 0 tools and the usage of 0 tools" in out
        assert "Skipped 3 tools that the store has already." in out
        assert store.usage()["aws.cost"].use_frequency == 12
    assert file.read_bytes() == before
    assert {it.name for it in tmp_path.iterdir() if it.name.startswith("tools")} == {name}


def test_the_same_tools_in_both_files_are_the_same(tmp_path: Path, run: Run) -> None:
    # RegistryTools sorts the keys of a schema in one of them.
    schema = {"properties": {"a": {}, "b": {}}, "type": "object"}
    other = FULL | {"tags": ["成本", "z"], "input_schema": schema}
    one = written(tmp_path / "tools.json", FULL)
    run("import", one, "--store", tmp_path / "s.db")
    out = run("import", written(tmp_path / "tools.db", other), "--store", tmp_path / "s.db")[1]
    assert "Skipped 1 tool that the store has already." in out


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": {}, "b": [], "c": [[], {}], "d": [1, 2.5, -0.0, 1e300, 10**30, None, True]},
        {"ü": 'quote " back \\ line \n 零 \u2028 \x7f', "": {"": [{"": ""}]}},
        {"x": float("nan"), "y": float("inf")},
    ],
)
def test_the_text_of_a_file_is_the_one_of_the_standard_library(
    value: dict[str, Any], tmp_path: Path
) -> None:
    file = RegistryToolsJson(tmp_path / "tools.json")
    with file.alone():
        file.write(value)
    expected = json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)
    assert file.path.read_text("utf-8") == expected
    assert [it.name for it in tmp_path.iterdir()] == ["tools.json"]


@kinds
def test_what_the_store_knows_better_is_kept(name: str, tmp_path: Path, run: Run) -> None:
    file = written(tmp_path / name, FULL, entry("b", use_frequency=2), entry("c", last_used=NOON))
    later = datetime(2026, 6, 1, tzinfo=UTC)
    with open_store(tmp_path / "store.db") as store:
        store.save(Tool(name="b", description="Mine."))
        store.set_usage(
            {
                "b": Usage(use_frequency=9, last_used=later),
                "aws.cost": Usage(use_frequency=3, last_used=later),
            }
        )
        code, out, told = run("import", file, "--store", tmp_path / "store.db")
        assert (code, "Copied 2 tools and the usage of 2 tools" in out) == (0, True)
        assert "Kept 1 tool that the store defines otherwise: b. `--replace` replaces" in told
        assert store.load(["b"])["b"].tool.description == "Mine."
        assert store.usage() == {
            "b": Usage(use_frequency=9, last_used=later),
            "aws.cost": Usage(use_frequency=12, last_used=later),
            "c": Usage(last_used=FOUR),
        }
        code, out, told = run("import", file, "--store", tmp_path / "store.db", "--replace")
        assert (code, "Copied 1 tool and" in out, told) == (0, True, "")
        assert store.load(["b"])["b"].tool.description == "The tool b."
        assert store.usage()["b"].use_frequency == 9


@kinds
@pytest.mark.covers("R-REG-35")
def test_what_pegboard_cannot_store_is_skipped_and_named(
    name: str, tmp_path: Path, run: Run
) -> None:
    odd = [entry("a\nb"), entry(""), entry("c", use_frequency=-1), entry("d" * 600)]
    file = written(tmp_path / name, *odd, entry("good"))
    code, out, told = run("import", file, "--store", tmp_path / "store.db")
    assert (code, "Copied 1 tool" in out) == (0, True)
    assert "Skipped 'a\\nb', which Pegboard cannot store: A tool's name must be printable" in told
    assert told.count("Skipped") == 4
    with open_store(tmp_path / "store.db") as store:
        assert [it.tool.name for it in store.load_all()] == ["good"]


def test_many_problems_are_not_all_told(tmp_path: Path, run: Run) -> None:
    file = written(tmp_path / "tools.json", *(entry(f"a\n{number}") for number in range(9)))
    told = run("import", file, "--store", tmp_path / "store.db")[2]
    assert (told.count("\n"), "Skipped 4 more for reasons like these." in told) == (6, True)


def test_odd_values_of_a_database_cost_only_their_tool(tmp_path: Path, run: Run) -> None:
    file = written(tmp_path / "tools.db", entry("a"), entry("b"), entry("c"))
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE tools SET tags = '{not json' WHERE name = 'b'")
        connection.execute("UPDATE tools SET last_used = 'yesterday' WHERE name = 'c'")
        connection.execute("ALTER TABLE tools ADD COLUMN future TEXT DEFAULT 'x'")
        connection.execute("ALTER TABLE tools DROP COLUMN temperature")
        connection.commit()
    code, out, told = run("import", file, "--store", tmp_path / "store.db")
    assert (code, "Copied 1 tool" in out, told.count("Skipped")) == (0, True, 2)


def test_a_database_in_use_is_read_with_its_newest_changes(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "tools.db"
    database = RegistryToolsDatabase(file)
    database.create()
    with database.writing() as connection:
        insert(connection, [FULL])
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        # A writer keeps no reader waiting.
        other.execute("BEGIN IMMEDIATE")
        code, out, _ = run("import", file, "--store", tmp_path / "store.db")
        assert (code, "Copied 1 tool" in out) == (0, True)
    database.close()


def test_another_file_is_refused_with_what_to_do(tmp_path: Path, run: Run) -> None:
    target = tmp_path / "new.db"

    def refused(file: Path) -> str:
        code, out, told = run("import", file, "--store", target)
        assert (code != 0, out, target.exists()) == (True, "", False)
        return told

    for name in ("own.json", "own.db"):
        with open_store(tmp_path / name) as store:
            store.save(Tool(name="a", description=""))
        assert (
            "is a store of Pegboard, not an export. Copy it with `pegboard store migr"
            in refused(tmp_path / name)
        )
    with closing(sqlite3.connect(tmp_path / "api_keys.db")) as connection:
        connection.execute("CREATE TABLE api_keys (id)")
    assert "Name its `tools.db`" in refused(tmp_path / "api_keys.db")
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"a": {"command": "b"}}}', "utf-8")
    assert "is not an archive" in refused(tmp_path / "mcp.json")
    (tmp_path / "half.json").write_text('{"a": {"name": "a", "descr', "utf-8")
    assert "not a data file of RegistryTools either" in refused(tmp_path / "half.json")
    whole = written(tmp_path / "whole.db", *(entry(f"t{number}") for number in range(500)))
    (tmp_path / "half.db").write_bytes(whole.read_bytes()[:6000])
    assert "restore the file from a backup" in refused(tmp_path / "half.db")
    assert "a folder" in refused(tmp_path)
    assert read_data(b"\xff", tmp_path / "x") is None
    with pytest.raises(StorageError, match="has to be a file"):
        read_data(whole.read_bytes(), Path("-"))


@kinds
def test_a_file_is_not_taken_over_into_itself(name: str, tmp_path: Path, run: Run) -> None:
    file = written(tmp_path / name, FULL)
    before = file.read_bytes()
    code, _, told = run("import", file, "--store", file)
    assert (code, "is the store itself" in told) == (2, True)
    assert file.read_bytes() == before


def test_a_database_of_registrytools_as_the_store_is_refused_with_the_way_in(
    tmp_path: Path, run: Run
) -> None:
    file = written(tmp_path / "tools.db", FULL)
    code, _, told = run("info", "--store", file)
    assert (code, "`pegboard store import` copies a database of RegistryTools" in told) == (1, True)


def test_options_for_files_of_registrytools_are_refused_for_an_export(
    tmp_path: Path, run: Run
) -> None:
    with open_store(tmp_path / "own.db") as store:
        store.save(Tool(name="a", description=""))
    run("export", tmp_path / "all.archive", "--store", tmp_path / "own.db")
    for option in (["--replace"], ["--tenant", "red"]):
        code, _, told = run("import", tmp_path / "all.archive", *option)
        assert (code, "are for files of RegistryTools" in told) == (2, True)


@kinds
def test_tools_go_to_the_tenant_that_is_named_and_come_back_from_it(
    name: str, tmp_path: Path, run: Run
) -> None:
    file, store, back = written(tmp_path / name, FULL), tmp_path / "s.db", tmp_path / f"b-{name}"
    assert run("import", file, "--store", store, "--tenant", "red")[0] == 0
    words = ["export", back, "--format", "registrytools", "--store", store]
    assert run(*words)[1] == f"Wrote 0 tools for RegistryTools to {back}.\n"
    code, out, _ = run(*words, "--tenant", "red", "--force")
    assert (code, out) == (0, f"Wrote 1 tool for RegistryTools to {back}.\n")
    assert back.stat().st_mode & 0o777 == 0o600
    code, _, told = run(*words, "--tenant", "red", "--tenant", "blue", "--force")
    assert (code, "one tenant" in told) == (2, True)


@kinds
def test_the_way_back_gives_the_same_tools(name: str, tmp_path: Path, run: Run) -> None:
    file, store, back = written(tmp_path / name, FULL), tmp_path / "s.db", tmp_path / f"b-{name}"
    run("import", file, "--store", store)
    run("export", back, "--format", "registrytools", "--store", store)
    if name == "tools.json":
        assert json.loads(back.read_text("utf-8")) == {"aws.cost": FULL}
        assert json.loads(run("export", "-", "--format", "registrytools", "--store", store)[1])
    else:
        rows = [RegistryToolsDatabase(it).rows("SELECT * FROM tools") for it in (file, back)]
        assert [tuple(row) for row in rows[0]] == [tuple(row) for row in rows[1]]


def test_a_database_in_use_is_not_replaced_by_an_export(tmp_path: Path, run: Run) -> None:
    with open_store(tmp_path / "s.db") as store:
        store.save(Tool(name="a", description=""))
    file = tmp_path / "tools.db"
    database = RegistryToolsDatabase(file)
    database.create()
    with database.writing() as connection:
        insert(connection, [FULL])
    words = ["export", file, "--format", "registrytools", "--store", tmp_path / "s.db", "--force"]
    code, _, told = run(*words)
    assert (code, "stop RegistryTools" in told) == (2, True)
    database.close()
    assert run(*words)[0] == 0


@kinds
def test_a_store_is_not_exported_onto_itself(name: str, tmp_path: Path, run: Run) -> None:
    with open_store(tmp_path / name) as store:
        store.save(Tool(name="a", description=""))
    before = (tmp_path / name).read_bytes()
    words = ["export", tmp_path / name, "--format", "registrytools", "--force"]
    code, _, told = run(*words, "--store", tmp_path / name)
    assert (code, "is the store itself" in told) == (2, True)
    assert (tmp_path / name).read_bytes() == before


def test_a_json_file_that_is_the_store_has_local_times_too(tmp_path: Path) -> None:
    file = written(tmp_path / "tools.json", FULL)
    with open_store(file) as store:
        assert store.usage() == {"aws.cost": Usage(use_frequency=12, last_used=FOUR)}
        store.save(Tool(name="new", description=""))
    with open_store(file) as store:
        assert store.usage() == {"aws.cost": Usage(use_frequency=12, last_used=FOUR)}


def test_a_recovered_json_file_has_local_times_too(tmp_path: Path, run: Run) -> None:
    file = written(tmp_path / "tools.json", FULL, entry("b"))
    file.write_text(file.read_text("utf-8")[:-20], "utf-8")
    assert run("recover", "--store", file)[0] == 0
    with open_store(file) as store:
        assert store.usage() == {"aws.cost": Usage(use_frequency=12, last_used=FOUR)}


@pytest.mark.covers("R-REG-40")
def test_a_store_takes_tools_over_while_it_counts(tmp_path: Path, run: Run) -> None:
    file = written(tmp_path / "tools.json", FULL)
    seen: list[object] = []
    with open_store(tmp_path / "store.json") as store:
        store.watch(seen.append)
        run("import", file, "--store", tmp_path / "store.json")
        assert [it.tool.name for it in store.load_all()] == ["aws.cost"]
        assert store.usage()["aws.cost"].use_frequency == 12


@with_the_real_one
@pytest.mark.parametrize(("name", "kind"), [("t.json", "JSONStorage"), ("t.db", "SQLiteStorage")])
@pytest.mark.covers("R-REG-19", "R-REG-40")
def test_files_of_the_real_one_are_taken_over_and_given_back(
    name: str, kind: str, tmp_path: Path, run: Run
) -> None:
    told = (
        f"print(json.dumps([it.model_dump(mode='json') for it in {kind}(sys.argv[1]).load_all()]))"
    )
    save = f"{kind}(sys.argv[1]).save_many([ToolMetadata(**it) for it in json.loads(sys.argv[2])])"
    given = [FULL | {"tags": ["one"]}, entry("b", description="二")]
    file, back = tmp_path / name, tmp_path / f"back-{name}"
    real(save, file, json.dumps(given))
    assert run("import", file, "--store", tmp_path / "store.db")[0] == 0
    words = ["export", back, "--format", "registrytools", "--store", tmp_path / "store.db"]
    assert run(*words)[0] == 0
    assert sorted(real(told, back), key=lambda it: it["name"]) == given


@with_the_real_one
@pytest.mark.covers("R-REG-19")
@pytest.mark.parametrize(("name", "kind"), [("t.json", "JSONStorage"), ("t.db", "SQLiteStorage")])
def test_our_storages_and_the_real_ones_read_each_others_files(
    name: str, kind: str, tmp_path: Path
) -> None:
    from pegboard.compat import registrytools  # noqa: PLC0415 - only where the real one is

    ours = getattr(registrytools, kind)(tmp_path / name)
    ours.save(registrytools.ToolMetadata.model_validate(FULL | {"last_used": NOON + "+08:00"}))
    code = f"""
storage = {kind}(sys.argv[1])
tool = storage.get("aws.cost")
storage.save(ToolMetadata(name="theirs", description="x"))
uses = [tool.last_used.isoformat(), tool.use_frequency]
print(json.dumps([tool.description, sorted(tool.tags), *uses, tool.input_schema]))
"""
    found = real(code, tmp_path / name)
    assert found[:2] == ["The tool aws.cost.", ["z", "成本"]]
    assert datetime.fromisoformat(found[2]) == FOUR
    assert found[3:] == [12, FULL["input_schema"]]
    assert {it.name for it in ours.load_all()} == {"aws.cost", "theirs"}
    ours.delete("theirs")
    ours.close()
    shutil.copy(tmp_path / name, tmp_path / f"copy-{name}")
    counted = real(f"print({kind}(sys.argv[1]).count())", tmp_path / f"copy-{name}")
    assert counted == 1


@with_the_real_one
def test_a_program_of_theirs_that_runs_keeps_no_import_waiting(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "tools.db"
    code = "s = SQLiteStorage(sys.argv[1]); s.save(ToolMetadata(name='a', description='b'))\n"
    wait = "print('there', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [REAL, "-c", f"import sys\nfrom registrytools import *\n{code}{wait}", file],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(os.environ),
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stdout.readline() == b"there\n"
        code_, out, _ = run("import", file, "--store", tmp_path / "store.db")
        running.stdin.close()
    assert (code_, "Copied 1 tool" in out) == (0, True)


def plain_database(file: Path, mode: str, tools: int = 900) -> Path:
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA journal_mode = {mode}")
        connection.execute("CREATE TABLE tools (name TEXT PRIMARY KEY, description TEXT NOT NULL)")
        connection.execute("BEGIN")
        rows = [(f"t{number}", "good" * 100) for number in range(tools)]
        connection.executemany("INSERT INTO tools VALUES (?, ?)", rows)
        connection.execute("COMMIT")
    return file


def begin_to_spoil(file: Path) -> sqlite3.Connection:
    """Begin a transaction that is too large for the memory of SQLite, and do not end it."""
    writer = sqlite3.connect(file, isolation_level=None)
    writer.execute("PRAGMA cache_size = 5")
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("UPDATE tools SET description = 'spoiled' || substr(description, 8)")
    return writer


def test_changes_of_a_dead_writer_are_not_taken_over(tmp_path: Path, run: Run) -> None:
    begun = plain_database(tmp_path / "begun.db", "DELETE")
    file = tmp_path / "tools.db"
    with closing(begin_to_spoil(begun)):
        # As a process that is killed leaves it.
        for suffix in ("", "-journal"):
            shutil.copyfile(f"{begun}{suffix}", f"{file}{suffix}")
    before = {it: it.read_bytes() for it in tmp_path.glob("tools.db*")}
    assert b"spoiled" in before[file]
    assert len(before) == 2
    code, out, _ = run("import", file, "--store", tmp_path / "store.db")
    assert (code, "Copied 900 tools" in out) == (0, True)
    with open_store(tmp_path / "store.db") as store:
        assert {it.tool.description for it in store.load_all()} == {"good" * 100}
    assert {it: it.read_bytes() for it in tmp_path.glob("tools.db*")} == before


def test_a_database_that_is_locked_for_long_is_refused(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pegboard.storage.registrytools.PATIENCE", 0.01)
    file = plain_database(tmp_path / "tools.db", "DELETE")
    with closing(begin_to_spoil(file)):
        code, out, told = run("import", file, "--store", tmp_path / "store.db")
    assert (code, out, "locked" in told) == (1, "", True)
    assert "Stop RegistryTools and try again" in " ".join(told.split())


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_reading_a_database_leaves_nothing_beside_it(mode: str, tmp_path: Path, run: Run) -> None:
    file = plain_database(tmp_path / "tools.db", mode, 3)
    before = file.read_bytes()
    assert run("import", file, "--store", tmp_path / "store.json")[0] == 0
    assert file.read_bytes() == before
    assert [it.name for it in tmp_path.glob("tools.db*")] == ["tools.db"]


def test_a_log_that_a_dead_writer_left_is_read_and_stays(tmp_path: Path, run: Run) -> None:
    begun = plain_database(tmp_path / "begun.db", "WAL", 3)
    file = tmp_path / "tools.db"
    with closing(sqlite3.connect(begun, isolation_level=None)) as writer:
        writer.execute("INSERT INTO tools VALUES ('new', 'n')")
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{begun}{suffix}", f"{file}{suffix}")
    before = file.read_bytes()
    out = run("import", file, "--store", tmp_path / "store.json")[1]
    assert "Copied 4 tools" in out
    assert file.read_bytes() == before


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="Root may write everywhere."
)
def test_a_database_in_a_folder_that_is_read_only_is_copied_first(tmp_path: Path, run: Run) -> None:
    (tmp_path / "theirs").mkdir()
    file = plain_database(tmp_path / "theirs" / "tools.db", "WAL", 3)
    (tmp_path / "theirs").chmod(0o500)
    out = run("import", file, "--store", tmp_path / "store.json")[1]
    assert "Copied 3 tools" in out
    (tmp_path / "theirs").chmod(0o700)


def test_one_odd_tool_costs_only_itself(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "tools.json"
    good = {"description": "x", "use_frequency": 7}
    odd = {"many": good | {"use_frequency": 10**19}, "more": good | {"use_frequency": 10**30}}
    file.write_text(json.dumps({"good": good, "five": 5, "list": [1]} | odd), "utf-8")
    code, out, told = run("import", file, "--store", tmp_path / "store.db")
    assert (code, "Copied 1 tool and the usage of 1 tool" in out) == (0, True)
    for name in ("five", "list", "many", "more"):
        assert f"Skipped '{name}'" in told
    file.write_text(json.dumps([good | {"name": "listed"}, 5]), "utf-8")
    _, out, told = run("import", file, "--store", tmp_path / "store.db")
    assert ("Copied 1 tool" in out, "Skipped 'entry 2'" in told) == (True, True)


def test_one_odd_row_costs_only_itself(tmp_path: Path, run: Run) -> None:
    file = written(tmp_path / "tools.db", entry("a"), entry("deep"), entry("bytes"))
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE tools SET tags = ? WHERE name = 'deep'", ("[" * 100_000,))
        connection.execute(
            "UPDATE tools SET description = CAST(x'ff41' AS TEXT) WHERE name = 'bytes'"
        )
        connection.execute(
            "INSERT INTO tools (name, description) VALUES (CAST(x'fe42' AS TEXT), '')"
        )
        connection.commit()
    code, out, told = run("import", file, "--store", tmp_path / "store.db")
    assert (code, "Copied 1 tool" in out, told.count("Skipped")) == (0, True, 3)
    assert "Skipped 'deep'" in told


def test_a_view_is_no_table_of_registrytools(tmp_path: Path, run: Run) -> None:
    file = tmp_path / "tools.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE VIEW tools AS SELECT 'a' AS name, 'b' AS description")
    code, _, told = run("import", file, "--store", tmp_path / "store.db")
    assert (code, "has no tools of RegistryTools" in " ".join(told.split())) == (1, True)


def test_a_long_name_is_told_in_short(tmp_path: Path, run: Run) -> None:
    file = written(tmp_path / "tools.json", entry("x" * 1_000_000))
    told = run("import", file, "--store", tmp_path / "store.db")[2]
    assert ("Skipped 'xxx" in told, len(told) < 1000) == (True, True)


@pytest.mark.parametrize("form", ["pegboard", "registrytools"])
def test_no_file_of_a_store_is_replaced_by_its_export(form: str, tmp_path: Path, run: Run) -> None:
    url = tmp_path / "own.json"
    for tenant in ("default", "red"):
        with open_store(url, tenant=tenant) as store:
            store.save(Tool(name="a", description=""))
            store.namespace("pins").put("a", 1)
    words = ["--force", "--format", form, "--store", url]
    for name in ("own.json", "own.state.json", "own.red.json", "own.red.state.json"):
        before = (tmp_path / name).read_bytes()
        code, _, told = run("export", tmp_path / name, *words)
        assert (code, "is the store itself" in " ".join(told.split())) == (2, True)
        assert (tmp_path / name).read_bytes() == before
    # Twice: an earlier export is no file of the store.
    for _ in range(2):
        assert run("export", tmp_path / "own.backup.json", *words)[0] == 0
    with open_store(tmp_path / "own.db") as store:
        store.save(Tool(name="a", description=""))
        for suffix in ("", "-wal", "-shm"):
            file = tmp_path / f"own.db{suffix}"
            code, _, _ = run("export", file, "--force", "--store", tmp_path / "own.db")
            assert code == 2
        assert len(store.load_all()) == 1


def test_names_that_cannot_be_used_are_refused_in_a_sentence(tmp_path: Path, run: Run) -> None:
    with open_store(tmp_path / "s.db") as store:
        store.save(Tool(name="a", description=""))
    store_option = ["--store", tmp_path / "s.db"]
    for command in ("import", "export"):
        code, _, told = run(command, tmp_path / f"{'x' * 300}.json", *store_option)
        assert (code, "too long" in " ".join(told.split())) == (2, True)
    code, _, told = run("import", "/dev/zero", *store_option)
    assert (code, "is a device" in told) == (2, True)
    words = ["export", tmp_path / "x.txt", "--format", "registrytools", *store_option]
    code, _, told = run(*words)
    assert (code, ".json or .db" in " ".join(told.split())) == (2, True)
