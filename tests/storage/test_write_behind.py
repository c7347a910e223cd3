import gc
import threading
import weakref

from pegboard.storage.write_behind import WriteBehind


class Collector:
    def __init__(self) -> None:
        self.written: list[str] = []
        self.pending: list[str] = []
        self.broken = False
        self.flushing = WriteBehind(self.flush, owner="store")

    def flush(self) -> None:
        if self.broken:
            raise OSError("away")
        self.written += self.pending
        self.pending = []


def test_closing_writes_the_rest() -> None:
    collector = Collector()
    collector.pending.append("a")
    collector.flushing.wake()
    collector.flushing.close()
    collector.flushing.close()
    assert collector.written == ["a"]


def test_what_cannot_be_written_at_the_end_is_logged(caplog) -> None:
    collector = Collector()
    collector.broken = True
    collector.pending.append("a")
    collector.flushing.close()
    assert "lost" in caplog.text


def test_an_owner_that_no_other_object_holds_is_let_go_of() -> None:
    collector = Collector()
    collector.flushing.wake()
    reference = weakref.ref(collector)
    del collector
    gc.collect()
    assert reference() is None


def test_waking_from_many_threads_starts_one_thread() -> None:
    before = threading.active_count()
    collector = Collector()
    threads = [threading.Thread(target=collector.flushing.wake) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert threading.active_count() <= before + 1
    collector.flushing.close()
    assert threading.active_count() <= before
