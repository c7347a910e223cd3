"""The store contract for watching: a watcher learns of the changes of every process."""
# ruff: noqa: D102 - the names of the tests say it

import threading
from typing import TYPE_CHECKING

import pytest

from pegboard.storage import Store, StoreChange
from pegboard.testing.store_opening import OpensStores, tool

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["RecordingWatcher", "WatchingContract"]

TIMEOUT = 5.0


class RecordingWatcher:
    """A watcher that records the changes, and can wait for one."""

    def __init__(self) -> None:
        self.changes: list[StoreChange] = []
        self.threads: set[threading.Thread] = set()
        self._changed = threading.Condition()

    def __call__(self, change: StoreChange) -> None:
        with self._changed:
            self.changes.append(change)
            self.threads.add(threading.current_thread())
            self._changed.notify_all()

    def has(self, *, name: str | None = None, namespace: str | None = None) -> bool:
        """Tell whether a change of this tool or namespace was recorded."""
        return any(
            it.everything or name in it.tools or namespace in it.namespaces for it in self.changes
        )

    def wait(self, *, name: str | None = None, namespace: str | None = None) -> bool:
        """Wait for such a change; return False after a timeout."""
        with self._changed:
            return self._changed.wait_for(
                lambda: self.has(name=name, namespace=namespace), timeout=TIMEOUT
            )


class WatchingContract(OpensStores):
    """Notification of changes."""

    @pytest.mark.parametrize("writer", ["the same store", "another"])
    def test_a_watcher_is_told_of_every_kind_of_change(
        self, store: Store, twin: Store, writer: str
    ) -> None:
        writing = store if writer == "the same store" else twin
        writing.save(tool("old"))
        writing.namespace("old").put("key", 1)
        changes: dict[str, Callable[[], object]] = {
            "a": lambda: writing.save(tool("a")),
            "b": lambda: writing.save_many([tool("b"), tool("c")]),
            "old": lambda: writing.delete("old"),
        }
        for name, change in changes.items():
            told = RecordingWatcher()
            stop = store.watch(told)
            change()
            assert told.wait(name=name)
            stop()
        namespaces: dict[str, Callable[[], object]] = {
            "pins": lambda: writing.namespace("pins").put("key", 1),
            "keys": lambda: writing.namespace("keys").put_many({"key": 1}),
            "old": lambda: writing.namespace("old").delete(["key"]),
        }
        for name, change in namespaces.items():
            told = RecordingWatcher()
            stop = store.watch(told)
            change()
            assert told.wait(namespace=name)
            stop()

    def test_what_is_told_can_be_read(self, store: Store, twin: Store) -> None:
        found: list[str] = []
        told = RecordingWatcher()

        def read(change: StoreChange) -> None:
            found.extend(it.tool.description for it in store.load(["a"]).values())
            told(change)

        store.watch(read)
        twin.save(tool("a", "new"))
        assert told.wait(name="a")
        assert found[-1] == "new"

    def test_a_watcher_is_told_in_a_thread_of_the_store(self, store: Store) -> None:
        told = RecordingWatcher()
        store.watch(told)
        store.save(tool("a"))
        assert told.wait(name="a")
        assert threading.current_thread() not in told.threads

    def test_earlier_changes_are_not_reported(self, store: Store, twin: Store) -> None:
        twin.save(tool("before"))
        store.namespace("before").put("a", 1)
        told = RecordingWatcher()
        store.watch(told)
        twin.save(tool("after"))
        assert told.wait(name="after")
        if not any(it.everything for it in told.changes):
            assert not told.has(name="before")
            assert not told.has(namespace="before")

    def test_a_stranger_is_told_nothing(self, store: Store, stranger: Store) -> None:
        told = RecordingWatcher()
        stranger.watch(told)
        store.save(tool("a"))
        store.namespace("pins").put("a", 1)
        stranger.save(tool("b"))
        assert told.wait(name="b")
        if not any(it.everything for it in told.changes):
            assert not told.has(name="a")
            assert not told.has(namespace="pins")

    def test_every_watcher_is_told_until_it_stops(self, store: Store, twin: Store) -> None:
        leaving, staying = RecordingWatcher(), RecordingWatcher()
        stop = store.watch(leaving)
        store.watch(staying)
        twin.save(tool("a"))
        assert leaving.wait(name="a")
        assert staying.wait(name="a")
        stop()
        stop()
        told_so_far = len(leaving.changes)
        twin.save(tool("b"))
        assert staying.wait(name="b")
        assert len(leaving.changes) == told_so_far

    def test_watching_can_begin_again(self, store: Store, twin: Store) -> None:
        store.watch(RecordingWatcher())()
        twin.save(tool("unseen"))
        told = RecordingWatcher()
        store.watch(told)
        twin.save(tool("a"))
        assert told.wait(name="a")

    def test_a_watcher_that_fails_does_not_stop_the_others(
        self, store: Store, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(change: StoreChange) -> None:
            raise ZeroDivisionError

        told = RecordingWatcher()
        store.watch(fail)
        store.watch(told)
        for name in ("a", "b"):
            store.save(tool(name))
            assert told.wait(name=name)
        assert "ZeroDivisionError" in caplog.text

    def test_a_watcher_can_stop_itself(self, store: Store) -> None:
        told, staying = RecordingWatcher(), RecordingWatcher()

        def once(change: StoreChange) -> None:
            told(change)
            stop()

        stop = store.watch(once)
        store.watch(staying)
        store.save(tool("a"))
        assert told.wait(name="a")
        assert staying.wait(name="a")
        store.save(tool("b"))
        assert staying.wait(name="b")
        assert len(told.changes) == 1

    def test_a_watcher_can_write(self, store: Store, twin: Store) -> None:
        answered = RecordingWatcher()

        def answer(change: StoreChange) -> None:
            if "question" in change.tools or change.everything:
                store.save(tool("answer"))

        store.watch(answer)
        twin.watch(answered)
        twin.save(tool("question"))
        assert answered.wait(name="answer")
