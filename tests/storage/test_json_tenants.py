"""The files of a tenant of the JSON store, by whatever path a program comes to them."""

import json
from pathlib import Path

import pytest

from pegboard.errors import StorageError, StoreDamagedError
from pegboard.model import Tool
from pegboard.storage import open_store
from pegboard.storage.json_file.recovery import recover
from tests.storage.test_json_file import files, names


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t.json"


def contents(path: Path) -> dict[str, bytes]:
    return {it.name: it.read_bytes() for it in path.parent.iterdir()}


def test_the_file_of_a_tenant_says_whose_it_is(path: Path) -> None:
    with open_store(path, tenant="red") as store:
        store.save(Tool(name="a"))
        store.namespace("pins").put("x", 1)
    found = json.loads(path.with_name("t.red.json").read_bytes())
    assert list(found) == ["version", "tenant", "tools"]
    assert found["tenant"] == "red"
    assert json.loads(path.with_name("t.red.state.json").read_bytes())["tenant"] == "red"
    with open_store(path, tenant="red") as store:
        store.save(Tool(name="b"))
        assert names(store) == ["a", "b"]


@pytest.mark.covers("R-REG-39")
@pytest.mark.parametrize("kept", ["t.red.json", "t.red.state.json", "t.red.json.journal"])
def test_no_other_tenant_can_open_a_file_by_its_own_path(path: Path, kept: str) -> None:
    with open_store(path, tenant="red") as store:
        store.save(Tool(name="a"))
        store.namespace("pins").put("x", 1)
        journal = path.with_name("t.red.json.journal").read_bytes()
    path.with_name("t.red.json.journal").write_bytes(journal)
    for name in files(path):
        if name != kept:
            path.with_name(name).unlink()
    # As if a person had copied it for another tenant.
    path.with_name(kept.replace("red", "blue")).write_bytes(path.with_name(kept).read_bytes())
    before = contents(path)
    with pytest.raises(StorageError, match=r"'red'.*'default'"):
        open_store(path.with_name("t.red.json"))
    with pytest.raises(StorageError, match=r"'red'.*'blue'"):
        open_store(path, tenant="blue")
    assert contents(path) == before


def test_a_file_that_does_not_say_whose_it_is_belongs_to_the_default_tenant(path: Path) -> None:
    mine = path.with_name("t.red.json")
    mine.write_text('{"version": 1, "tools": {"a": {}}}', "utf-8")
    before = contents(path)
    with pytest.raises(StorageError, match=r"'default'.*'red'"):
        open_store(path, tenant="red")
    assert contents(path) == before
    with open_store(mine) as store:
        assert names(store) == ["a"]
    mine.write_text('{"version": 1, "tenant": "red", "tools": {"a": {}}}', "utf-8")
    with open_store(path, tenant="red") as store:
        assert names(store) == ["a"]


def test_two_who_begin_the_same_file_for_different_tenants_do_not_mix(path: Path) -> None:
    with open_store(path, tenant="red") as red, open_store(path.with_name("t.red.json")) as other:
        red.save(Tool(name="a"))
        with pytest.raises(StorageError, match="'red'"):
            other.save(Tool(name="b"))
        with pytest.raises(StorageError, match="'red'"):
            names(other)
    with open_store(path, tenant="red") as red:
        assert names(red) == ["a"]


def test_a_tenant_that_is_no_name_is_damage(path: Path) -> None:
    path.write_text('{"version": 1,\n "tenant": 7, "tools": {}}', "utf-8")
    with pytest.raises(StoreDamagedError) as caught:
        open_store(path)
    assert (caught.value.line, caught.value.column) == (2, 2)


@pytest.mark.parametrize("cut", [60, 200])
def test_a_recovered_file_belongs_to_whom_it_belonged(path: Path, cut: int) -> None:
    with open_store(path, tenant="red") as store:
        store.save_many([Tool(name="a"), Tool(name="b")])
    mine = path.with_name("t.red.json")
    mine.write_bytes(mine.read_bytes()[:cut])
    kept = list(recover(mine).kept)
    with open_store(path, tenant="red") as store:
        assert names(store) == kept
    with pytest.raises(StorageError, match="'red'"):
        open_store(mine)
