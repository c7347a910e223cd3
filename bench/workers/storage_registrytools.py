"""RegistryTools: its JSON storage, the default of its server."""

import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

from registrytools.registry.models import ToolMetadata
from registrytools.storage.json_storage import JSONStorage
from shared import report
from storage_shared import TOOLS, definition


def storage() -> None:
    """All tools in a batch, all of them read, and one added at a time."""
    with tempfile.TemporaryDirectory() as folder:
        store = JSONStorage(Path(folder) / "tools.json")
        tools = [ToolMetadata(**definition(number)) for number in range(TOOLS)]
        batch = _seconds(lambda: store.save_many(tools))
        load = _seconds(store.load_all)
        more = [ToolMetadata(**definition(number)) for number in range(TOOLS, TOOLS + 5)]
        add = median(_seconds(lambda tool=tool: store.save(tool)) for tool in more)
        report(add=add, batch=batch, load=load)


def parallel() -> None:
    """How many of 100 registrations by ten threads are there afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tools.json"
        acknowledged: list[str] = []
        barrier = threading.Barrier(10)

        def register(first: int) -> None:
            store = JSONStorage(path)
            barrier.wait()
            for number in range(first, first + 10):
                tool = ToolMetadata(**definition(number))
                try:
                    store.save(tool)
                except OSError:
                    continue
                acknowledged.append(tool.name)

        threads = [threading.Thread(target=register, args=(it * 10,)) for it in range(10)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        kept = {tool.name for tool in JSONStorage(path).load_all()}
        report(kept=len(kept), lost=len(set(acknowledged) - kept))


def _seconds(work) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


{"storage": storage, "parallel": parallel}[sys.argv[1]]()
