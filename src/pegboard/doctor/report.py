"""Report: what a diagnosis came to."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from pegboard.doctor.finding import Finding
from pegboard.model.json_values import FrozenDict
from pegboard.upstream.catalog.cache import Remembered

__all__ = ["Checkup", "Report", "Stage"]

Stage = Literal["waiting", "starting", "listing", "well", "ill", "disabled", "unusable"]
"""How far the look at a server has come; of one whose entry is unusable there is none."""


class Checkup(msgspec.Struct, frozen=True, kw_only=True):
    """What was seen of one server; nothing in it is secret."""

    server: str
    stage: Stage
    transport: str
    target: str
    era: str | None = None
    protocol_version: str | None = None
    server_version: str | None = None
    tools: int | None = None
    tokens: int | None = None
    """What the definitions of its tools take in a model's context, about."""
    startup_seconds: float | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Every server that was looked at, and everything that was found."""

    config: str | None = None
    """The file that was read."""
    servers: tuple[Checkup, ...] = ()
    findings: tuple[Finding, ...] = ()
    learned: Mapping[str, Remembered] = msgspec.field(default_factory=FrozenDict)
    """What the servers offered that are well, by the keys under which a store remembers them."""

    @property
    def is_well(self) -> bool:
        """True when there is nothing but advice."""
        return all(it.severity == "advice" for it in self.findings)
