import threading

from pegboard.model.lazy import LazyProperty


class Slow:
    """Has a value that may take long to make."""

    def __init__(self, go_on: threading.Event) -> None:
        self.go_on = go_on
        self.inside = threading.Event()
        self.times = 0

    @LazyProperty
    def value(self) -> list[int]:
        """Some numbers."""
        self.times += 1
        self.inside.set()
        assert self.go_on.wait(5)
        return [1, 2]


def test_a_value_is_made_when_first_needed_and_kept() -> None:
    go_on = threading.Event()
    go_on.set()
    slow = Slow(go_on)
    assert slow.times == 0
    assert slow.value is slow.value
    assert slow.times == 1
    assert Slow.value.__doc__ == "Some numbers."


def test_no_thread_waits_for_another_that_makes_the_value() -> None:
    # A forked child would wait for ever: the thread that makes it is not there.
    held, free = threading.Event(), threading.Event()
    free.set()
    slow = Slow(held)
    seen: list[list[int]] = []
    thread = threading.Thread(target=lambda: seen.append(slow.value))
    thread.start()
    assert slow.inside.wait(5)
    other: list[list[int]] = []
    reader = threading.Thread(target=lambda: other.append(Slow(free).value))
    reader.start()
    reader.join(3)
    assert other == [[1, 2]]
    held.set()
    thread.join(5)
    assert seen == [[1, 2]]
    assert slow.value is seen[0]
