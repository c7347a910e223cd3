"""Errors of stores."""

from typing import ClassVar

from pegboard.errors.root import PegboardError

__all__ = [
    "RevisionConflictError",
    "StorageError",
    "StoreDamagedError",
    "StoreUnavailableError",
    "StoreVersionError",
]


class StorageError(PegboardError):
    """What is to be kept was not kept, or cannot be read; ``url`` says where."""

    code: ClassVar[str] = "storage"

    def __init__(self, message: str, *, url: str) -> None:
        super().__init__(message)
        self.url = url


class StoreUnavailableError(StorageError, OSError):
    """The store cannot be read or written now, and nothing was changed by the attempt."""

    code: ClassVar[str] = "store_unavailable"


class StoreDamagedError(StorageError, ValueError):
    """The store does not hold what was written to it; nothing in it is touched.

    ``line`` and ``column`` say where a file stops making sense, ``remedy`` what to run.
    """

    code: ClassVar[str] = "store_damaged"

    def __init__(
        self,
        problem: str,
        *,
        url: str,
        remedy: str,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        place = ":".join(str(part) for part in (url, line, column) if part is not None)
        super().__init__(
            f"{place}: {problem} Nothing was changed. What helps: `{remedy}`.",
            url=url,
        )
        self.problem = problem
        self.remedy = remedy
        self.line = line
        self.column = column


class StoreVersionError(StorageError):
    """The store was written by a newer Pegboard; nothing in it is touched."""

    code: ClassVar[str] = "store_version"

    def __init__(self, *, url: str, found: int, known: int) -> None:
        super().__init__(
            f"{url} is of version {found}, and this Pegboard knows versions up to {known}. "
            "Nothing was changed; use a newer Pegboard.",
            url=url,
        )
        self.found = found
        self.known = known


class RevisionConflictError(StorageError):
    """Somebody else wrote ``key`` first; read it again, and decide anew."""

    code: ClassVar[str] = "revision_conflict"

    def __init__(self, key: str, *, url: str, expected: int | None, found: int | None) -> None:
        wanted = "nothing" if expected is None else f"revision {expected}"
        there = "nothing" if found is None else f"revision {found}"
        super().__init__(
            f"{key!r} was changed by somebody else: {wanted} was expected, {there} is there. "
            "Read it again and decide anew.",
            url=url,
        )
        self.key = key
        self.expected = expected
        self.found = found
