"""A disk that is full: in truth, no file may become larger than one of them is."""

import resource
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def full_disk(path: Path, *, room: int) -> Generator[None]:
    """Leave room for so many bytes behind a file; the rest of a longer write fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
