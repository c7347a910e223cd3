"""The JSON store as a file: what people see, edit and find again."""

import json
import os
import stat
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

import pytest

from pegboard.errors import RevisionConflictError, StoreUnavailableError
from pegboard.model import Annotations, Tool, Usage
from pegboard.storage import Store, StoreChange, StoredTool, Use, open_store
from pegboard.storage.file_lock import LockedFile
from pegboard.storage.json_file.compaction import QUIET
from pegboard.storage.json_file.paths import paths_of, signature_of

WHEN = datetime(2026, 11, 16, 2, tzinfo=UTC)
EMPTY = '{\n  "version": 1,\n  "tools": {}\n}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tools.json"


def names(store: Store) -> list[str]:
    return [it.tool.name for it in store.load_all()]


def files(path: Path) -> list[str]:
    return sorted(it.name for it in path.parent.iterdir())


def edit(path: Path, change: Callable[[dict[str, dict[str, object]]], object]) -> None:
    content = json.loads(path.read_text("utf-8"))
    change(content["tools"])
    path.write_text(json.dumps(content), "utf-8")


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that gives no sign when it happens."""
    end = monotonic() + 5
    waiting = threading.Event()
    while not condition():
        assert monotonic() < end
        waiting.wait(0.01)


@pytest.mark.covers("R-REG-19")
def test_the_file_is_what_a_person_would_write(path: Path) -> None:
    tool = Tool(
        name="search",
        description="Sucht “alles”.",
        input_schema={"type": "object", "properties": {"q": {"type": "string"}}},
        annotations=Annotations(read_only=True),
        server="web",
        tags=("net",),
        category="search",
        defer_loading=True,
    )
    with open_store(path) as store:
        store.save(tool)
        store.add_usage({"search": Use(3, WHEN)})
    assert path.read_text("utf-8") == (
        """{
  "version": 1,
  "tools": {
    "search": {
      "name": "search",
      "description": "Sucht “alles”.",
      "mcp_server": "web",
      "category": "search",
      "tags": [
        "net"
      ],
      "defer_loading": true,
      "annotations": {
        "readOnlyHint": true
      },
      "input_schema": {
        "type": "object",
        "properties": {
          "q": {
            "type": "string"
          }
        }
      },
      "use_frequency": 3,
      "last_used": "2026-11-16T02:00:00Z"
    }
  }
}
"""
    )
    assert files(path) == ["tools.json"]
    with open_store(path) as store:
        [found] = store.load_all()
        assert found.tool == tool
        assert store.usage() == {"search": Usage(use_frequency=3, last_used=WHEN)}


def test_what_is_not_about_tools_in_the_file_is_kept_beside_it(path: Path) -> None:
    with open_store(path) as store:
        store.add_usage({"elsewhere": Use(1, WHEN)})
        store.namespace("pins").put("a", {"b": 1})
    assert files(path) == ["tools.state.json"]
    assert json.loads(path.with_name("tools.state.json").read_bytes()) == {
        "version": 1,
        "usage": {"elsewhere": {"use_frequency": 1, "last_used": "2026-11-16T02:00:00Z"}},
        "values": {"pins": {"a": {"b": 1}}},
    }
    with open_store(path) as store:
        # Now its usage belongs into its entry.
        store.save(Tool(name="elsewhere"))
        store.namespace("pins").delete(["a"])
    assert files(path) == ["tools.json"]
    with open_store(path) as store:
        assert store.usage() == {"elsewhere": Usage(use_frequency=1, last_used=WHEN)}
        store.delete("elsewhere")
    assert path.read_text("utf-8") == EMPTY
    assert files(path) == ["tools.json"]


def test_reading_changes_nothing(path: Path) -> None:
    text = '{"tools": {"b":{"description":"x"},\n\n "a": {}}, "version": 1}'
    path.write_text(text, "utf-8")
    with open_store(path) as store:
        assert names(store) == ["b", "a"]
        store.check()
        store.usage()
    assert path.read_text("utf-8") == text
    assert files(path) == ["tools.json"]


def test_order_and_unknown_fields_are_kept(path: Path) -> None:
    content = {
        "$schema": "https://example.com/tools.json",
        "version": 1,
        "tools": {
            "z": {"name": "z", "owner": {"team": ["a"]}, "description": "1", "cost": 1.50},
            "a": {"x-note": None, "last_used": None, "use_frequency": 7, "tags": None},
            "m": {"name": "m", "use_frequency": 0, "category": None},
        },
        "comment": ["mine"],
    }
    path.write_text(json.dumps(content), "utf-8")
    with open_store(path) as store:
        assert names(store) == ["a", "z", "m"]
        assert store.load(["z"])["z"].extras == {"owner": {"team": ["a"]}, "cost": 1.5}
        store.save(Tool(name="z", description="2"))
        store.save(Tool(name="b"))
        store.add_usage({"a": Use(1, WHEN)})
    found = json.loads(path.read_bytes())
    assert list(found) == ["$schema", "version", "tools", "comment"]
    assert found["comment"] == ["mine"]
    assert list(found["tools"]) == ["z", "a", "m", "b"]
    assert found["tools"]["z"] == {
        "name": "z",
        "description": "2",
        "defer_loading": False,
        "owner": {"team": ["a"]},
        "cost": 1.5,
    }
    assert found["tools"]["a"] == {
        "name": "a",
        "x-note": None,
        "use_frequency": 8,
        "last_used": "2026-11-16T02:00:00Z",
    }
    assert found["tools"]["m"] == {"name": "m"}
    with open_store(path) as store:
        store.save(StoredTool(tool=Tool(name="z"), extras={"new": 1}))
        assert store.load(["z"])["z"].extras == {"new": 1}


@pytest.mark.parametrize("shape", ["mapping", "list"])
def test_version_0_is_read_as_it_is_and_kept_before_it_is_written(path: Path, shape: str) -> None:
    entries = {
        "version": {"name": "version", "description": "says it", "mcp_server": None},
        "tools": {"name": "tools", "tags": ["x"], "use_frequency": 4},
        "github.create": {
            "name": "github.create",
            "input_schema": {"type": "object"},
            "output_schema": None,
            "last_used": "2026-01-05T12:00:00.5",
            "use_frequency": 1,
        },
    }
    old = json.dumps(entries if shape == "mapping" else list(entries.values())).encode()
    path.write_bytes(old)
    with open_store(path) as store:
        assert names(store) == ["tools", "github.create", "version"]
        assert store.load(["tools"])["tools"].tool.defer_loading
    assert path.read_bytes() == old
    assert files(path) == ["tools.json"]
    path.with_name("tools.json.v0").write_bytes(b"not ours")
    with open_store(path) as store:
        store.save(Tool(name="new"))
    assert path.with_name("tools.json.v0").read_bytes() == b"not ours"
    assert path.with_name("tools.json.v0.2").read_bytes() == old
    found = json.loads(path.read_bytes())
    assert found["version"] == 1
    assert list(found["tools"]) == ["version", "tools", "github.create", "new"]
    with open_store(path) as store:
        # Local time, as RegistryTools writes it.
        last = datetime(2026, 1, 5, 12, 0, 0, 500_000).astimezone(UTC)
        assert store.usage(["github.create"])["github.create"].last_used == last
        store.delete("new")
    assert files(path) == ["tools.json", "tools.json.v0", "tools.json.v0.2"]


def test_files_are_private_unless_their_owner_shared_them(path: Path) -> None:
    old = os.umask(0)
    try:
        nested = path.parent / "a" / "b" / "tools.json"
        with open_store(nested) as store:
            store.save(Tool(name="a"))
            store.namespace("pins").put("a", 1)
            for file in nested.parent.iterdir():
                assert stat.S_IMODE(file.stat().st_mode) == 0o600
        for file in nested.parent.iterdir():
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
        for folder in (nested.parent, nested.parent.parent):
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    finally:
        os.umask(old)
    nested.chmod(0o644)
    with open_store(nested) as store:
        store.save(Tool(name="b"))
    assert stat.S_IMODE(nested.stat().st_mode) == 0o644


def test_a_link_to_the_file_stays_a_link(path: Path) -> None:
    real = path.with_name("real.json")
    path.symlink_to(real)
    with open_store(path) as linked, open_store(real) as direct:
        linked.save(Tool(name="a"))
        assert names(direct) == ["a"]
    assert path.is_symlink()
    assert files(path) == ["real.json", "tools.json"]


def test_a_file_that_was_made_a_link_meanwhile_stays_one(path: Path) -> None:
    with open_store(path) as store:
        store.save(Tool(name="a"))
    with open_store(path) as store:
        real = path.rename(path.with_name("real.json"))
        path.symlink_to(real)
        store.save(Tool(name="b"))
    assert path.is_symlink()
    assert list(json.loads(real.read_bytes())["tools"]) == ["a", "b"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="It gives files away.")
def test_a_file_belongs_to_whom_it_belonged(path: Path) -> None:
    with open_store(path) as store:
        store.save(Tool(name="a"))
    os.chown(path, 4711, 4712)
    with open_store(path) as store:
        store.save(Tool(name="b"))
    assert (path.stat().st_uid, path.stat().st_gid) == (4711, 4712)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_every_tenant_has_a_file_of_its_own(path: Path) -> None:
    tenants = ["default", "a", "A", "state", "a.state", "%73tate", "..", "a/b", "~", "ä", "x" * 512]
    paths = [paths_of(path, None if it == "default" else it) for it in tenants]
    every = [file for it in paths for file in it]
    assert len({str(file).lower() for file in every}) == len(every)
    assert {file.parent for file in every} == {path.parent.resolve()}
    assert max(len(file.name) for file in every) < 200
    for tenant in tenants:
        with open_store(path, tenant=tenant) as store:
            store.save(Tool(name="same", description=tenant))
            store.namespace("pins").put("a", tenant)
    for tenant in tenants:
        with open_store(path, tenant=tenant) as store:
            assert [it.tool.description for it in store.load_all()] == [tenant]
    assert "tools.%73tate.json" in files(path)
    assert len(files(path)) == 2 * len(tenants)


def test_a_write_is_in_the_journal_first_and_in_the_file_when_it_is_quiet(path: Path) -> None:
    assert QUIET <= 1
    with open_store(path) as store:
        store.save_many([Tool(name="a"), Tool(name="b")])
        assert not path.exists()
        assert path.with_name("tools.json.journal").read_bytes().count(b"\n") == 2
        until(path.exists)
        assert list(json.loads(path.read_bytes())["tools"]) == ["a", "b"]
        until(lambda: path.with_name("tools.json.journal").read_bytes().count(b"\n") == 1)
        store.save(Tool(name="c"))
        assert names(store) == ["a", "b", "c"]


def test_a_long_journal_is_folded_while_others_write(path: Path) -> None:
    with open_store(path) as store:
        for number in range(30):
            store.save(Tool(name="a", description=f"{number}" * 100_000))
        assert path.exists()
        assert path.with_name("tools.json.journal").stat().st_size < 6_000_000


def test_saving_the_same_again_leaves_the_file_alone(path: Path) -> None:
    with open_store(path) as store:
        first = store.save(Tool(name="a"))
    before = signature_of(path)
    with open_store(path) as store:
        assert store.save(Tool(name="a")) == first
    assert signature_of(path) == before


def test_a_revision_is_the_same_everywhere_and_has_nothing_to_do_with_usage(path: Path) -> None:
    with open_store(path) as store, open_store(path) as other:
        revision = store.save(StoredTool(tool=Tool(name="a", tags=("x",)), extras={"more": 1}))
        store.add_usage({"a": Use(1, WHEN)})
        assert other.load(["a"])["a"].revision == revision
    with open_store(path) as store:
        assert store.load(["a"])["a"].revision == revision
        changed = store.save(Tool(name="a", tags=("y",)), expected=revision)
        with pytest.raises(RevisionConflictError):
            store.save(Tool(name="a", tags=("z",)), expected=revision)
        assert 0 <= changed < 2**63


def test_stores_that_are_open_at_once_follow_each_other_through_closing_and_folding(
    path: Path,
) -> None:
    with open_store(path) as one:
        for number in range(5):
            with open_store(path) as two:
                two.save(Tool(name=f"two-{number}"))
                one.save(Tool(name=f"one-{number}"))
                assert names(two) == names(one)
            one.save(Tool(name=f"again-{number}"))
            with open_store(path) as three:
                assert names(three) == names(one)
        assert len(names(one)) == 15
    assert files(path) == ["tools.json"]


def test_an_edit_by_hand_is_seen_and_told(path: Path) -> None:
    told: list[StoreChange] = []
    with open_store(path) as store:
        store.save_many([Tool(name="a"), Tool(name="b")])
    with open_store(path) as store:
        store.watch(told.append)
        edit(path, lambda tools: tools["a"].update(description="by hand"))
        until(lambda: bool(told))
        assert told == [StoreChange(tools=frozenset({"a"}))]
        assert store.load(["a"])["a"].tool.description == "by hand"
        edit(path, lambda tools: tools.pop("b"))
        until(lambda: len(told) == 2)
        assert told[1] == StoreChange(tools=frozenset({"b"}))
        path.unlink()
        with pytest.raises(StoreUnavailableError, match="gone"):
            names(store)
        with pytest.raises(StoreUnavailableError, match="gone"):
            store.save(Tool(name="c"))
    with open_store(path) as store:
        assert names(store) == []


def test_an_editor_that_puts_the_old_file_away_first_loses_nothing(path: Path) -> None:
    with open_store(path) as store:
        store.save(Tool(name="a"))
    with open_store(path) as store:
        store.save(Tool(name="b"))
        aside = path.rename(path.with_name("tools.json~"))
        back = threading.Timer(0.1, lambda: path.write_bytes(aside.read_bytes()))
        back.start()
        store.save(Tool(name="c"))
        back.join()
        assert names(store) == ["a", "b", "c"]
    assert list(json.loads(path.read_bytes())["tools"]) == ["a", "b", "c"]


def test_a_save_waits_for_an_edit_that_is_being_written(path: Path) -> None:
    with open_store(path) as store:
        store.save(Tool(name="a"))
    whole = path.read_bytes()
    with open_store(path) as store:
        path.write_bytes(whole[:20])
        rest = threading.Timer(0.1, lambda: path.write_bytes(whole))
        rest.start()
        store.save(Tool(name="b"))
        rest.join()
        assert names(store) == ["a", "b"]


def test_usage_that_stands_in_both_files_does_not_come_back(path: Path) -> None:
    entries = {"a": {"name": "a", "use_frequency": 3}, "b": {"name": "b", "use_frequency": 3}}
    path.write_text(json.dumps({"version": 1, "tools": entries}), "utf-8")
    counts = {"a": {"use_frequency": 9}, "b": {"use_frequency": 9}}
    path.with_name("tools.state.json").write_text(
        json.dumps({"version": 1, "usage": counts}), "utf-8"
    )
    with open_store(path) as store:
        store.set_usage({"a": Usage()})
        store.delete("b")
    with open_store(path) as store:
        store.save(Tool(name="b"))
        assert store.usage() == {}


def test_a_reader_of_what_has_not_changed_needs_no_lock(path: Path) -> None:
    with open_store(path) as store:
        store.save(Tool(name="a"))
        assert names(store) == ["a"]
        journal = LockedFile(path.with_name("tools.json.journal"))
        with journal.locked(alone=True):
            assert names(store) == ["a"]
        journal.close()


def test_a_reader_of_what_this_process_wrote_last_needs_no_lock(path: Path) -> None:
    with open_store(path) as store:
        store.save(Tool(name="a"))
        journal = LockedFile(path.with_name("tools.json.journal"))
        with journal.locked(alone=True):
            assert names(store) == ["a"]
        journal.close()


def test_a_write_after_another_store_has_removed_the_journal_is_kept(path: Path) -> None:
    with open_store(path) as store:
        store.save(Tool(name="a"))
        with open_store(path) as other:
            other.save(Tool(name="b"))
        assert not path.with_name("tools.json.journal").exists()
        store.save(Tool(name="c"))
        with open_store(path) as other:
            assert names(other) == ["a", "b", "c"]


def test_a_write_after_a_person_has_removed_the_journal_is_kept(path: Path) -> None:
    journal = path.with_name("tools.json.journal")
    with open_store(path) as store:
        store.save(Tool(name="a"))
        # Long enough ago for the store to trust the time of the folder.
        os.utime(path.parent, (1, 1))
        store.save(Tool(name="b"))
        journal.unlink()
        store.save(Tool(name="c"))
        assert b'"c"' in journal.read_bytes()


def test_what_raises_at_the_end_of_the_progress_keeps_nothing(path: Path) -> None:
    def cancel(done: int, total: int) -> None:
        if done == total:
            raise KeyboardInterrupt

    with open_store(path) as store:
        with pytest.raises(KeyboardInterrupt):
            store.save_many([Tool(name="a")], on_progress=cancel)
        assert names(store) == []


def test_an_edit_by_hand_wins_over_the_journal_for_its_entry_alone(path: Path) -> None:
    with open_store(path) as store:
        store.save_many([Tool(name="a"), Tool(name="b"), Tool(name="c")])
    with open_store(path) as store:
        store.save_many([Tool(name=name, description="ours") for name in "abd"])
        edit(path, lambda tools: tools["a"].update(description="by hand"))
        edit(path, lambda tools: tools.pop("c"))
        expected = {"a": "by hand", "b": "ours", "d": "ours"}
        assert {it.tool.name: it.tool.description for it in store.load_all()} == expected
        with open_store(path) as other:
            assert {it.tool.name: it.tool.description for it in other.load_all()} == expected
            other.save(Tool(name="e", description="ours"))
        edit(path, lambda tools: tools["b"].update(description="by hand"))
        store.save(Tool(name="d", description="later"))
    found = json.loads(path.read_bytes())["tools"]
    assert {name: it["description"] for name, it in found.items()} == {
        "a": "by hand",
        "b": "by hand",
        "d": "later",
        "e": "ours",
    }


@pytest.mark.covers("R-REG-40")
def test_threads_that_write_at_once_lose_nothing(path: Path) -> None:
    barrier = threading.Barrier(8)
    with open_store(path) as store:

        def write(thread: int) -> None:
            barrier.wait()
            for number in range(25):
                store.save(Tool(name=f"{thread}-{number}"))

        threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        lines = path.with_name("tools.json.journal").read_bytes().count(b"\n")
        assert len(names(store)) == 200
        assert lines <= 201
    with open_store(path) as store:
        assert len(names(store)) == 200


def test_one_who_is_refused_does_not_disturb_those_who_write_with_them(path: Path) -> None:
    barrier = threading.Barrier(6)
    refused: list[RevisionConflictError] = []
    with open_store(path) as store:
        store.save(Tool(name="a"))

        def write(number: int) -> None:
            barrier.wait()
            try:
                store.save(Tool(name="a", description=f"{number}"), expected=None)
            except RevisionConflictError as error:
                refused.append(error)
            store.save(Tool(name=f"{number}"))

        threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(refused) == 6
        assert len(names(store)) == 7
