"""Register a batch of tools: all at once or none, with name conflicts settled."""

from collections.abc import Callable, Container, Iterable
from typing import Literal, get_args

import msgspec

from pegboard.errors import InvalidToolError, PegboardError, ToolConflictError
from pegboard.model import Tool
from pegboard.model.tool_names import OnConflict
from pegboard.policies import PolicyOptions
from pegboard.registry.candidate import Candidate, candidate_of
from pegboard.registry.catalog import Entry

__all__ = [
    "Batch",
    "NumberedCandidate",
    "OnError",
    "Registration",
    "Rejection",
    "candidates_of",
]


class Rejection(msgspec.Struct, frozen=True):
    """One item of a batch that was not registered."""

    index: int
    """Its index in the batch, from 0."""
    item: object
    error: PegboardError


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of registering a batch."""

    registered: tuple[Tool, ...] = ()
    skipped: tuple[Tool, ...] = ()
    """Left out because of ``on_conflict="skip"``."""
    rejected: tuple[Rejection, ...] = ()


OnError = Literal["raise", "report"]
NumberedCandidate = tuple[int, object, Candidate]
"""The index of an item in the batch, the item, and the candidate made of it."""


def candidates_of(
    items: Iterable[object], on_error: OnError, check: Callable[[Candidate], None]
) -> tuple[list[NumberedCandidate], list[Rejection]]:
    """Return the candidates of a batch, and the items that cannot be registered.

    Args:
        items: the batch.
        on_error: whether the first such item is raised.
        check: raises `InvalidToolError` for a candidate that cannot be stored.

    Raises:
        InvalidToolError: with ``on_error="raise"``.
    """
    candidates: list[NumberedCandidate] = []
    rejected: list[Rejection] = []
    for index, item in enumerate(items):
        try:
            candidate = candidate_of(item)
            # Otherwise the store refuses all of them at once.
            if on_error == "report":
                check(candidate)
            candidates.append((index, item, candidate))
        except InvalidToolError as error:
            if on_error == "raise":
                raise
            rejected.append(Rejection(index, item, error))
    return candidates, rejected


class Batch:
    """Collects entries beside the catalogue, so that all of them appear at once or none."""

    def __init__(
        self, on_conflict: OnConflict, policies: PolicyOptions, groups: tuple[str, ...]
    ) -> None:
        if on_conflict not in get_args(OnConflict):
            raise ValueError(
                f"`on_conflict` is one of {get_args(OnConflict)}, not {on_conflict!r}."
            )
        self.entries: dict[str, Entry] = {}
        self.skipped: list[Tool] = []
        self._on_conflict: OnConflict = on_conflict
        self._policies = policies
        self._groups = groups
        self._numbers: dict[str, int] = {}

    def add_all(
        self,
        candidates: Iterable[NumberedCandidate],
        taken: Container[str],
        *,
        on_error: OnError,
    ) -> list[Rejection]:
        """Add candidates one by one, and return the refused ones.

        Raises:
            ToolConflictError: when a name is taken and both errors and conflicts are to be raised.
        """
        refused: list[Rejection] = []
        for index, item, candidate in candidates:
            try:
                self.add(candidate, taken)
            except PegboardError as error:
                if on_error == "raise":
                    raise
                refused.append(Rejection(index, item, error))
        return refused

    def add(self, candidate: Candidate, taken: Container[str]) -> None:
        """Add a candidate, or settle its conflict with a tool of the same name.

        Raises:
            ToolConflictError: when its name is taken and conflicts are to be raised.
        """
        tool = candidate.tool
        if tool.name in self.entries or tool.name in taken:
            match self._on_conflict:
                case "raise":
                    raise ToolConflictError(tool.name)
                case "skip":
                    self.skipped.append(tool)
                    return
                case "rename":
                    tool = msgspec.structs.replace(tool, name=self._free_name(tool.name, taken))
                case "override":
                    pass
        self.entries[tool.name] = Entry(tool, candidate, self._policies, self._groups)

    def _free_name(self, name: str, taken: Container[str]) -> str:
        number = self._numbers.get(name, 2)
        while (free := f"{name}_{number}") in taken or free in self.entries:
            number += 1
        self._numbers[name] = number + 1
        return free
