"""Compaction: the journal is written into the JSON files after some quiet, in a thread."""

import errno
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from time import monotonic

from pegboard.config.atomic_write import new_file, sync_folder
from pegboard.storage.json_file.content import JsonContent
from pegboard.storage.json_file.format import VERSION, state_text, tools_text
from pegboard.storage.json_file.paths import (
    JsonPaths,
    Signature,
    Signatures,
    keep_copy,
    signature_of,
)

__all__ = ["CompactionThread", "FileEditedError", "replace_files"]

QUIET = 1.0
"""Seconds without a write after which the journal is compacted."""
LONGEST_QUIET = 30.0
"""The same for files that take long to write."""
SHARE = 20
"""How much longer than a compaction takes it is quiet before the next one."""


class FileEditedError(OSError):
    """A person has edited a file that was about to be replaced."""


def replace_files(paths: JsonPaths, content: JsonContent, files: Signatures) -> Signatures:
    """Write what is in memory to the files, and return their new signatures.

    Raises:
        FileEditedError: when a file is not the one with the signature; it is left alone.
        OSError: when one cannot be written. Then, too, the other one may be replaced.
    """
    tools, state = files
    if content.tools_changed:
        if content.tools_version < VERSION and tools is not None:
            keep_copy(paths.tools, f"v{content.tools_version}", paths.tools.read_bytes())
        tools = _replace(paths.tools, tools_text(content), tools)
    if content.state_changed:
        state = _replace(paths.state, state_text(content), state)
    sync_folder(paths.folder)
    return tools, state


def _replace(path: Path, text: bytes | None, found: Signature) -> Signature:
    # A link stays one, and the file that it leads to is replaced.
    target = path.resolve()
    with nullcontext() if text is None else new_file(target, text) as temporary:
        if signature_of(path) != found:
            raise FileEditedError(errno.EBUSY, "It is being edited")
        if temporary is None:
            path.unlink(missing_ok=True)
            return None
        new = signature_of(temporary)
        temporary.replace(target)
    return new


class CompactionThread:
    """Compacts when there was no write for a while."""

    def __init__(self, compact: Callable[[], None]) -> None:
        self._compact = compact
        self._thread: threading.Thread | None = None
        self._written = threading.Event()
        self._stopping = threading.Event()
        self._last_write = 0.0

    def wake(self) -> None:
        """Say that something was written; raise `RuntimeError` without another thread."""
        self._last_write = monotonic()
        if self._thread is None and not self._stopping.is_set():
            thread = threading.Thread(target=self._run, name="pegboard-store-fold", daemon=True)
            thread.start()
            self._thread = thread
        # Not for every write: to wake a thread takes longer than to write.
        if not self._written.is_set():
            self._written.set()

    def stop(self) -> None:
        """Compact no more, and wait until the last compaction is over."""
        self._stopping.set()
        self._written.set()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        quiet = QUIET
        while True:
            self._written.wait()
            while (rest := self._last_write + quiet - monotonic()) > 0:
                if self._stopping.wait(rest):
                    return
            # Before the compaction: a write during it wakes the thread again.
            self._written.clear()
            if self._stopping.is_set():
                return
            began = monotonic()
            self._compact()
            quiet = max(QUIET, min(SHARE * (monotonic() - began), LONGEST_QUIET))
