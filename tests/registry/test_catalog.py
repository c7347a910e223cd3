import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pegboard import Access, CatalogChange, Registry
from pegboard.model.garbage_collection import postponed_collections


class Named:
    def __init__(self, name: str, description: str = "") -> None:
        self.name = name
        self.description = description

    def call(self, arguments: dict[str, Any]) -> None: ...


def names(change: CatalogChange) -> tuple[list[str], list[str], list[str]]:
    parts = (change.added, change.changed, change.removed)
    added, changed, removed = ([tool.name for tool in part] for part in parts)
    return added, changed, removed


def test_subscribers_learn_of_every_change_in_order() -> None:
    changes: list[CatalogChange] = []
    registry = Registry()
    stop = registry.subscribe(changes.append)
    registry.register_many([Named("a"), Named("b")])
    registry.register(Named("a", "new"), on_conflict="override")
    registry.register(Named("a", "newer"), on_conflict="skip")
    registry.unregister("b")
    stop()
    registry.register(Named("c"))
    assert [names(it) for it in changes] == [
        (["a", "b"], [], []),
        ([], ["a"], []),
        ([], [], ["b"]),
    ]
    assert [it.revision for it in changes] == [1, 2, 3]
    assert changes[1].changed[0].description == "new"


def test_switching_a_group_is_a_change_and_hidden_tools_are_none() -> None:
    changes: list[CatalogChange] = []
    registry = Registry(access=Access(deny=["secret"]))
    registry.subscribe(changes.append)
    registry.register_many([Named("a"), Named("secret")], groups=["g"])
    registry.disable_group("g")
    registry.register(Named("b"), groups=["g"])
    registry.unregister("secret")
    registry.enable_group("g")
    assert [names(it) for it in changes] == [
        (["a"], [], []),
        ([], [], ["a"]),
        (["a", "b"], [], []),
    ]


def test_a_subscriber_may_change_the_catalogue_itself() -> None:
    seen: list[tuple[int, str]] = []
    registry = Registry()

    def grow(change: CatalogChange) -> None:
        for tool in change.added:
            seen.append((change.revision, tool.name))
            if len(tool.name) < 3:
                registry.register(Named(tool.name + "x"))

    registry.subscribe(grow)
    registry.register(Named("a"))
    assert seen == [(1, "a"), (2, "ax"), (3, "axx")]


def test_a_subscriber_may_wait_for_another_thread_that_registers() -> None:
    registry = Registry()
    seen: list[str] = []

    def wait_for_another(change: CatalogChange) -> None:
        seen.extend(tool.name for tool in change.added)
        if "first" in [tool.name for tool in change.added]:
            other = threading.Thread(target=registry.register, args=(Named("second"),))
            other.start()
            other.join(5)
            assert not other.is_alive()

    registry.subscribe(wait_for_another)
    registry.register(Named("first"))
    assert seen == ["first", "second"]


def test_a_subscriber_that_fails_harms_no_other(caplog: pytest.LogCaptureFixture) -> None:
    changes: list[CatalogChange] = []

    def broken(change: CatalogChange) -> None:
        raise OSError

    registry = Registry()
    registry.subscribe(broken)
    registry.subscribe(changes.append)
    registry.register(Named("a"))
    assert "a" in registry
    assert len(changes) == 1
    assert "subscriber_failed" in caplog.text


def test_nothing_is_lost_when_many_threads_register_and_call_at_once() -> None:
    registry = Registry()
    changes: list[CatalogChange] = []
    registry.subscribe(changes.append)
    barrier = threading.Barrier(8)

    def work(thread: int) -> None:
        barrier.wait(5)
        for number in range(100):
            registry.register(Named(f"{thread}.{number}"))
            registry.call(f"{thread}.{number}", {})
            registry.describe()
            if number % 2:
                registry.unregister(f"{thread}.{number}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert sorted(registry) == sorted(f"{t}.{n}" for t in range(8) for n in range(0, 100, 2))
    assert [it.revision for it in changes] == list(range(1, len(changes) + 1))
    assert len(changes) == 8 * 150


def test_one_name_is_won_by_one_thread() -> None:
    registry = Registry()
    barrier = threading.Barrier(8)

    def claim(number: int) -> bool:
        barrier.wait(5)
        try:
            registry.register(Named("one", str(number)))
        except ValueError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(claim, range(8))) == 1


def test_a_large_batch_postpones_full_collections_until_the_last_one_is_done() -> None:
    before = gc.get_threshold()
    with postponed_collections(10):
        assert gc.get_threshold() == before
    with postponed_collections(5_000):
        during = gc.get_threshold()
        assert during[:2] == before[:2]
        assert during[2] > 100_000
        with postponed_collections(5_000):
            assert gc.get_threshold() == during
        assert gc.get_threshold() == during
    assert gc.get_threshold() == before
