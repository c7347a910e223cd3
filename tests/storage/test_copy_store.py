from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from pegboard import Tool
from pegboard.errors import StorageError
from pegboard.model import Usage
from pegboard.storage import Copied, Store, StoredTool, Use, copy_store, open_store
from pegboard.storage.leases import LEASES
from pegboard.testing import Memory
from pegboard.testing.store_opening import FULL
from tests.storage.conftest import KINDS

NOON = datetime(2026, 11, 16, 12, 0, 0, 123456, UTC)


@pytest.mark.covers("R-REG-33", "X-REG-11")
@pytest.mark.parametrize("target_kind", KINDS)
@pytest.mark.parametrize("source_kind", KINDS)
def test_everything_moves_from_any_kind_of_store_to_any_other(
    source_kind: str, target_kind: str, new_url: Callable[[str], str]
) -> None:
    told: list[tuple[int, int]] = []
    target_url = new_url(target_kind)
    with open_store(new_url(source_kind)) as source:
        fill(source)
        with open_store(target_url) as target:
            copied = copy_store(
                source, target, on_progress=lambda done, total: told.append((done, total))
            )
        with open_store(target_url) as target:
            assert content(target) == content(source)
    assert copied == Copied(tools=1_202, used=3, values=4)
    assert told[-1] == (1_202, 1_202)


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_target_has_besides_stays(kind: str, new_url: Callable[[str], str]) -> None:
    source = Memory().open()
    source.save(Tool(name="a", description="new"))
    source.namespace("pins").put("a", "new")
    with open_store(new_url(kind)) as target:
        target.save_many([Tool(name="a", description="old"), Tool(name="b")])
        target.namespace("pins").put_many({"a": "old", "b": "old"})
        copy_store(source, target)
        tools = {it.tool.name: it.tool.description for it in target.load_all()}
        assert tools == {"a": "new", "b": ""}
        values = {key: it.value for key, it in target.namespace("pins").items().items()}
        assert values == {"a": "new", "b": "old"}


def test_copying_twice_changes_nothing_more() -> None:
    source, target = Memory().open(), Memory().open()
    fill(source)
    copy_store(source, target)
    copy_store(source, target)
    assert content(target) == content(source)


def test_who_does_which_job_is_not_copied() -> None:
    source, target = Memory().open(), Memory().open()
    with source.elected("clean-up"):
        copy_store(source, target)
    assert source.namespaces() == [LEASES]
    assert target.namespaces() == []


def test_a_store_that_is_closed_is_not_copied() -> None:
    source, target = Memory().open(), Memory().open()
    source.close()
    with pytest.raises(StorageError):
        copy_store(source, target)


def fill(store: Store) -> None:
    unknown = {"owner": {"team": ["a", None]}, "版本": 2}
    store.save_many([StoredTool(tool=FULL, extras=unknown), Tool(name="é\N{PUSHPIN}")])
    store.save_many(Tool(name=f"t{number}", description="x" * 100) for number in range(1_200))
    store.add_usage({FULL.name: Use(12, NOON), "not stored here": Use(1, NOON)})
    store.set_usage({"t7": Usage(use_frequency=3)})
    store.namespace("pins").put_many({"a": [1, {"b": None}], "é": "\0", "c": 1.5})
    store.namespace("keys").put("k", {"hash": "x"})


def content(store: Store) -> object:
    tools = {it.tool.name: (it.tool, dict(it.extras)) for it in store.load_all()}
    values = {
        room: {key: it.value for key, it in store.namespace(room).items().items()}
        for room in store.namespaces()
    }
    most_used = [it.tool.name for it in store.load_all()][:2]
    return tools, store.usage(), values, most_used
