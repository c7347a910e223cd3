"""StoreContract: the tests that every `Store` must pass, from opening it to closing it."""

import threading
from typing import TYPE_CHECKING

import pytest

from pegboard.errors import StorageError
from pegboard.model import Usage
from pegboard.storage import Store, Use
from pegboard.testing.store_exactness import ExactnessContract
from pegboard.testing.store_opening import OpensStores, tool
from pegboard.testing.store_sharing import SharingContract
from pegboard.testing.store_tools import NOON, ToolsContract, UsageContract
from pegboard.testing.store_values import ValuesContract
from pegboard.testing.store_watching import TIMEOUT, RecordingWatcher, WatchingContract

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ClosingContract", "StoreContract"]

# ruff: noqa: D102 - the names of the tests say it


class ClosingContract(OpensStores):
    """Opening and closing a store."""

    def test_a_store_says_where_and_whose_it_is(self, store: Store, tenant: str) -> None:
        assert store.tenant == tenant
        assert isinstance(store.url, str)
        store.close()
        assert store.tenant == tenant

    def test_as_a_context_it_is_closed_at_the_end(self, tenant: str) -> None:
        with self.open(tenant) as store:
            store.save(tool("a"))
        with pytest.raises(StorageError):
            store.load_all()

    def test_closing_twice_is_closing_once(self, store: Store) -> None:
        store.save(tool("a"))
        store.close()
        store.close()

    def test_after_closing_every_method_says_so(self, store: Store, twin: Store) -> None:
        store.save(tool("a"))
        values = store.namespace("pins")
        stop = store.watch(RecordingWatcher())
        store.close()
        attempts: list[Callable[[], object]] = [
            store.load_all,
            lambda: store.load(["a"]),
            lambda: store.save(tool("b")),
            lambda: store.save_many([tool("b")]),
            lambda: store.delete("a"),
            lambda: store.add_usage({"a": Use(1, NOON)}),
            lambda: store.set_usage({"a": Usage()}),
            store.usage,
            lambda: store.namespace("pins").get("a"),
            store.namespaces,
            lambda: store.watch(RecordingWatcher()),
            lambda: store.elected("clean-up").__enter__(),
            lambda: store.fill_buckets({"a": 1.0}, most=60.0),
            store.check,
            lambda: values.get("a"),
            values.items,
            lambda: values.put("a", 1),
            lambda: values.put_many({"a": 1}),
            lambda: values.delete(["a"]),
        ]
        for attempt in attempts:
            with pytest.raises(StorageError, match="closed"):
                attempt()
        stop()
        assert [it.tool.name for it in twin.load_all()] == ["a"]
        assert twin.namespaces() == []

    def test_closing_one_leaves_the_others_open(self, store: Store, twin: Store) -> None:
        store.save(tool("a"))
        store.close()
        twin.save(tool("b"))
        assert {it.tool.name for it in twin.load_all()} == {"a", "b"}

    def test_closing_leaves_no_thread(self, tenant: str) -> None:
        before = set(threading.enumerate())
        for _ in range(3):
            store = self.open(tenant)
            told = RecordingWatcher()
            store.watch(told)
            store.save(tool("a"))
            assert told.wait(name="a")
            with store.elected("clean-up"):
                pass
            store.close()
        for thread in set(threading.enumerate()) - before:
            thread.join(timeout=TIMEOUT)
        assert set(threading.enumerate()) <= before

    def test_closing_while_others_work_gives_results_or_our_error(
        self, store: Store, twin: Store
    ) -> None:
        working = threading.Barrier(5)
        strange: list[BaseException] = []

        def work(number: int) -> None:
            working.wait(timeout=TIMEOUT)
            try:
                for step in range(10_000):
                    store.save(tool(f"{number}-{step}"))
                    store.load_all()
            except StorageError:
                return
            except BaseException as error:  # noqa: BLE001 - any other is what must not be
                strange.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        working.wait(timeout=TIMEOUT)
        store.close()
        for thread in threads:
            thread.join(timeout=TIMEOUT)
        assert strange == []
        assert not any(thread.is_alive() for thread in threads)
        twin.check()


class StoreContract(
    ToolsContract,
    UsageContract,
    ValuesContract,
    ExactnessContract,
    SharingContract,
    WatchingContract,
    ClosingContract,
):
    """Tests that a `Store` does what the protocol says.

    Subclass it in your tests and write `open`::

        class TestMyStore(StoreContract):
            @pytest.fixture(autouse=True)
            def place(self, tmp_path):
                self.path = tmp_path / "mine"

            def open(self, tenant):
                return MyStore(self.path, tenant)

    All stores that one test opens must share the same data. Each test uses tenants with new names,
    so all tests may share one database.
    """
