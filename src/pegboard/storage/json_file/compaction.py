"""Compaction: the journal is written into the JSON files after some quiet, in a thread."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

from pegboard.storage.json_file.atomic_write import free_name, new_file, replace_file, sync_folder
from pegboard.storage.json_file.content import JsonContent
from pegboard.storage.json_file.format import VERSION, state_text, stream_tools
from pegboard.storage.json_file.paths import JsonPaths, Signatures

QUIET = 1.0
"""Seconds without a write after which the journal is compacted."""
LONGEST_QUIET = 30.0
"""The same for files that take long to write."""
SHARE = 20
"""How much longer than a compaction takes it is quiet before the next one."""


def replace_files(paths: JsonPaths, content: JsonContent, files: Signatures) -> Signatures | None:
    """Write what is in memory to the files, and return their new signatures.

    Files that a person has edited meanwhile are left alone: then this returns ``None``. After an
    `OSError` some may be replaced, and others not.
    """
    tools, state = files
    with ExitStack() as stack:
        new_tools = new_state = None
        if content.tools_changed:
            new_tools = stack.enter_context(new_file(paths.tools, stream_tools(content)))
        text = state_text(content)
        if content.state_changed and text is not None:
            new_state = stack.enter_context(new_file(paths.state, [text]))
        if paths.signatures() != files:
            return None
        if new_tools is not None:
            if content.tools_version < VERSION and tools is not None:
                _keep_old(paths.tools, f".v{content.tools_version}")
            tools = new_tools()
        if new_state is not None:
            state = new_state()
        elif content.state_changed:
            paths.state.unlink(missing_ok=True)
            state = None
        sync_folder(paths.folder)
    return tools, state


class CompactionThread:
    """Compacts when there was no write for a while."""

    def __init__(self, compact: Callable[[], None]) -> None:
        self._compact = compact
        self._called = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_idle = True
        self._is_stopping = False
        self._last_write = 0.0

    def wake(self) -> None:
        """Say that something was written; raise `RuntimeError` without another thread."""
        self._last_write = monotonic()
        if self._is_stopping:
            return
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="pegboard-store-fold", daemon=True)
            thread.start()
            self._thread = thread
        # Not for every write: to wake a thread takes longer than to write.
        if self._is_idle:
            self._is_idle = False
            self._called.set()

    def stop(self) -> None:
        """Compact no more, and wait until the last compaction is over."""
        self._is_stopping = True
        thread, self._thread = self._thread, None
        self._called.set()
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        quiet = QUIET
        while True:
            self._called.wait()
            self._called.clear()
            rest = quiet
            while rest > 0 and not self._is_stopping:
                self._called.wait(rest)
                self._called.clear()
                rest = self._last_write + quiet - monotonic()
            if self._is_stopping:
                return
            # Before the compaction: a write after it calls again.
            self._is_idle = True
            began = monotonic()
            self._compact()
            quiet = max(QUIET, min(SHARE * (monotonic() - began), LONGEST_QUIET))


def _keep_old(path: Path, suffix: str) -> None:
    old, base = path.read_bytes(), path.with_name(path.name + suffix)
    if not base.exists() or base.read_bytes() != old:
        replace_file(free_name(base), [old])
