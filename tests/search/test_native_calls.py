import os
import subprocess
import sys
import threading

import pytest

from pegboard.search.methods import regex_patterns as native_calls
from pegboard.search.methods.regex_patterns import call_native

ENDING = """
import threading
from pegboard.model import CatalogChange, Tool
from pegboard.search import Query
from pegboard.search.methods.regex import Regex

searcher = Regex()
tools = tuple(Tool(name=f"tool_{it}", description="zebra " * 600) for it in range(300))
searcher.apply(CatalogChange(revision=1, added=tools))
began = threading.Barrier(4)

def search():
    searcher.search(Query(text="zebra.*zz"))
    began.wait()
    while True:
        searcher.search(Query(text="zebra.*zz"))

for _ in range(3):
    threading.Thread(target=search, daemon=True).start()
began.wait()
"""


def test_a_program_may_end_while_a_daemon_thread_searches_for_a_pattern() -> None:
    for _ in range(3):
        ended = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, check=False)
        assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_daemon_thread_is_known_while_it_is_in_a_call() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def call() -> str:
        inside.set()
        go_on.wait(5)
        return "done"

    results: list[str] = []
    thread = threading.Thread(target=lambda: results.append(call_native(call)), daemon=True)
    thread.start()
    assert inside.wait(5)
    assert native_calls.under_way
    go_on.set()
    thread.join(5)
    assert results == ["done"]
    assert not native_calls.under_way


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_waits_for_no_thread_of_its_parent() -> None:
    mark = object()
    native_calls.under_way.add(mark)
    try:
        child = os.fork()
        if child == 0:
            os._exit(len(native_calls.under_way))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        native_calls.under_way.discard(mark)
