"""Errors of stores: unavailable, damaged, of a newer version, or changed meanwhile."""

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
    """A store could not be read or written; ``url`` says which one."""

    code: ClassVar[str] = "storage"

    def __init__(self, message: str, *, url: str) -> None:
        super().__init__(message)
        self.url = url


class StoreUnavailableError(StorageError, OSError):
    """The store cannot be read or written at the moment. The attempt changed nothing."""

    code: ClassVar[str] = "store_unavailable"


class StoreDamagedError(StorageError, ValueError):
    """The store is damaged: it does not hold what was written to it. Pegboard leaves it as it is.

    ``line`` and ``column`` say where the file becomes invalid, and ``remedy`` what to run.
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
    """A newer Pegboard wrote the store. This one leaves it as it is."""

    code: ClassVar[str] = "store_version"

    def __init__(self, *, url: str, found: int, known: int) -> None:
        super().__init__(
            f"{url} has format version {found}, and this Pegboard reads versions up to {known}. "
            "Nothing was changed. Use a newer Pegboard.",
            url=url,
        )
        self.found = found
        self.known = known


class RevisionConflictError(StorageError):
    """Another process or thread wrote ``key`` first; read it again and decide anew."""

    code: ClassVar[str] = "revision_conflict"

    def __init__(self, key: str, *, url: str, expected: int | None, found: int | None) -> None:
        wanted = "nothing" if expected is None else f"revision {expected}"
        there = "nothing" if found is None else f"revision {found}"
        super().__init__(
            f"{key!r} was changed meanwhile: {wanted} was expected, but {there} was found. "
            "Read it again and decide anew.",
            url=url,
        )
        self.key = key
        self.expected = expected
        self.found = found
