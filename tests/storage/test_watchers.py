import threading

import pytest

from pegboard.errors import StorageError
from pegboard.storage import StoreChange, Watchers

X = StoreChange(tools=frozenset({"x"}))
Y = StoreChange(tools=frozenset({"y"}), namespaces=frozenset({"n"}))


class Changes:
    """What a look finds, one at a time."""

    def __init__(self, *changes: StoreChange) -> None:
        self.left = list(changes)

    def __call__(self) -> StoreChange | None:
        return self.left.pop(0) if self.left else None


def test_what_a_watcher_could_not_take_is_told_again_with_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: list[StoreChange] = []
    done = threading.Event()
    watchers = Watchers(Changes(X, Y), interval=0.001)

    def watcher(change: StoreChange) -> None:
        told.append(change)
        if len(told) == 1:
            raise OSError("not now")
        done.set()

    watchers.add(watcher, before_first=lambda: None)
    assert done.wait(5)
    watchers.close()
    assert told == [X, StoreChange(tools=frozenset({"x", "y"}), namespaces=frozenset({"n"}))]
    assert caplog.text.count("store_watcher_failed") == 1


@pytest.mark.parametrize(
    ("error", "traced"), [(StorageError("Gone.", url="x"), False), (KeyError("x"), True)]
)
def test_a_look_that_fails_is_logged_once_and_a_known_error_in_one_line(
    caplog: pytest.LogCaptureFixture, error: Exception, *, traced: bool
) -> None:
    looked: list[int] = []
    told = threading.Event()

    def look() -> StoreChange | None:
        looked.append(1)
        if len(looked) == 1:
            raise error
        return X

    watchers = Watchers(look, interval=0.001)
    watchers.add(lambda _: told.set(), before_first=lambda: None)
    assert told.wait(5)
    watchers.close()
    [record] = caplog.records
    assert record.getMessage() == f"store_watch_failed: {error}"
    assert bool(record.exc_info) == traced


def test_one_who_begins_while_the_last_one_stops_is_told() -> None:
    watchers = Watchers(lambda: X, interval=0.0001)
    for _ in range(200):
        stop = watchers.add(lambda _: None, before_first=lambda: None)
        told = threading.Event()
        stopping = threading.Thread(target=stop)
        stopping.start()
        end = watchers.add(lambda _, told=told: told.set(), before_first=lambda: None)
        stopping.join(5)
        assert told.wait(5)
        end()
    watchers.close()


def test_a_watcher_may_stop_itself_and_others() -> None:
    watchers = Watchers(lambda: X, interval=0.001)
    stopped = threading.Event()

    def watcher(_: StoreChange) -> None:
        stop()
        stopped.set()

    stop = watchers.add(watcher, before_first=lambda: None)
    assert stopped.wait(5)
    watchers.close()


def test_what_cannot_be_called_does_not_watch() -> None:
    with pytest.raises(TypeError, match="callable"):
        Watchers(lambda: None).add(3, before_first=lambda: None)  # pyright: ignore[reportArgumentType]
