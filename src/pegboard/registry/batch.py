"""A batch of candidates on its way into the catalogue: conflicts are settled here."""

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

import msgspec

from pegboard.errors import ToolConflictError
from pegboard.model import Tool
from pegboard.policies import PolicyOptions, Target, needs_loop, wrap_step
from pegboard.registry.candidate import Candidate
from pegboard.registry.catalog import Entry, TroddenPath

__all__ = ["Batch", "OnConflict"]

OnConflict: TypeAlias = Literal["raise", "skip", "override", "rename"]
"""What to do when a name is taken: refuse, keep the old tool, replace it, or add a number."""


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
        self._waits = needs_loop(policies)

    def add(self, candidate: Candidate, taken: Mapping[str, Entry]) -> None:
        """Add a candidate, or settle its conflict with what is there.

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
        self.entries[tool.name] = self._entry(candidate, tool)

    def _entry(self, candidate: Candidate, tool: Tool) -> Entry:
        implementation = candidate.implementation
        access = self._policies.get("access")
        return Entry(
            tool,
            wrap_step(implementation.step, Target(tool, candidate.schema), self._policies),
            not implementation.asynchronous and not self._waits,
            access is None or access.permits(tool),
            self._groups,
            self._waits,
            self._trodden(candidate, tool),
        )

    def _trodden(self, candidate: Candidate, tool: Tool) -> TroddenPath | None:
        function = candidate.implementation.coroutine_function
        present = {name for name, policy in self._policies.items() if policy is not None}
        if function is None or self._groups or not candidate.schema.flat:
            return None
        if present != {"telemetry", "validation"}:
            return None
        return candidate.schema.fits, function, tool

    def _free_name(self, name: str, taken: Mapping[str, Entry]) -> str:
        number = 2
        while (free := f"{name}_{number}") in taken or free in self.entries:
            number += 1
        return free
