"""SharedIndex: the index that several searchers share, saved in a file between runs."""

import logging
import threading
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from pegboard.config.atomic_write import make_folder

if TYPE_CHECKING:
    from pegboard.search.index.index import ToolIndex

__all__ = ["SharedIndex"]

logger: logging.Logger = logging.getLogger("pegboard.search")

WORTH_SAVING = 500
"""Fewer tools are indexed sooner than a file is read."""


class SharedIndex:
    """Opens the index when first needed. Only closing waits until the file is written.

    Args:
        path: the file; ``None`` to save nothing.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._index: ToolIndex | None = None
        self._saved: tuple[ToolIndex, int] | None = None
        self._saver: threading.Thread | None = None

    def lacks(self, *, meaning: bool) -> bool:
        """Tell whether the open index lacks the vectors that a searcher needs."""
        return meaning and self._index is not None and self._index.meaning is None

    def open(self, *, meaning: bool) -> "ToolIndex":
        """Return the index, empty at first, with vectors if they are needed.

        A search by words alone need not load the word table.
        """
        if self._index is None or self.lacks(meaning=meaning):
            self._index = _new_index(_file(self._path, meaning=meaning), meaning=meaning)
        return self._index

    def forget(self) -> None:
        """Open another index next time."""
        self._index = None

    def keep_at(self, path: Path | None) -> None:
        """Save from now on in another file, or nowhere."""
        self._path = path

    def save_aside(self) -> None:
        """Save it in a thread, so that the next start finds one even without an orderly close."""
        job = self._to_save()
        if job is not None and not job[1].exists():
            thread = threading.Thread(target=self.save, name="pegboard-search-saver", daemon=True)
            try:
                thread.start()
                self._saver = thread
            except RuntimeError:
                # No more threads, or the program is ending: only the next start is slower.
                logger.debug("index_not_saved", exc_info=True)

    def save(self) -> None:
        """Save it, if it is worth it and not saved yet."""
        saver = self._saver
        if saver is not None and saver is not threading.current_thread():
            # A program that ends now would cut it off.
            saver.join()
        job = self._to_save()
        if job is None:
            return
        index, path, revision = job
        try:
            make_folder(path.parent)
            if index.save(path):
                self._saved = index, revision
        except OSError:
            logger.debug("index_not_saved", exc_info=True)

    def _to_save(self) -> "tuple[ToolIndex, Path, int] | None":
        index, path = self._index, self._path
        path = None if index is None else _file(path, meaning=index.meaning is not None)
        if index is None or path is None or len(index.snapshot) < WORTH_SAVING:
            return None
        if index.kept_in == path and path.exists():
            return None
        revision = index.snapshot.revision
        return None if self._saved == (index, revision) else (index, path, revision)


def _new_index(saved: Path | None, *, meaning: bool) -> "ToolIndex":
    # Imported when first needed: they need NumPy.
    index = import_module("pegboard.search.index.index").ToolIndex
    if not meaning:
        return index(saved=saved)
    return index(import_module("pegboard.search.vectors.meaning").open_meaning(), saved=saved)


def _file(path: Path | None, *, meaning: bool) -> Path | None:
    return path if path is None or meaning else path.with_name(f"{path.name}-words")
