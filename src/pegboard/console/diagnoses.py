"""Diagnoses: what the doctor says about servers that failed, in the words of `pegboard doctor`."""

from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from pegboard.console.request import PageRequest
from pegboard.doctor.report import Finding, Report
from pegboard.doctor.status import unusable_entries
from pegboard.model.principal import DEFAULT_TENANT

__all__ = ["Diagnoses", "Diagnosis"]

MOST_KEPT = 200
_RANK = ("error", "warning", "advice")


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What the doctor found out about one server."""

    at: datetime
    about: str | None
    """The error that the server had then."""
    findings: tuple[Finding, ...]


class Diagnoses:
    """Asks the doctor when a person wants it, because that starts the server a second time."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], Diagnosis] = OrderedDict()
        self._one_at_a_time = anyio.Lock()

    def of(self, page: PageRequest, server: str, error: str | None) -> Diagnosis | None:
        """Return the last diagnosis of a server, if it still has that error."""
        found = self._kept.get((page.principal.tenant, server))
        return found if found is not None and found.about == error else None

    async def ask(self, page: PageRequest, server: str) -> None:
        """Ask the doctor about a server.

        Raises:
            ServerNotFoundError: when the configuration has no such server.
        """
        hub = page.tenant.hub
        status = hub.servers.get(server)
        # An entry that cannot be used is no server yet.
        about = unusable_entries(hub.loaded).get(server) if status is None else status.last_error
        # It listens to the log of the process, which tells servers apart only by their names.
        async with self._one_at_a_time:
            # In a thread, and only now: few people ask, and its code takes long to import.
            doctor = await anyio.to_thread.run_sync(import_module, "pegboard.doctor.diagnosis")
            gateway = page.sources.address or None
            report: Report = await doctor.diagnose(_source(page), names=[server], gateway=gateway)
        own = [it for it in report.findings if it.server in (None, server)]
        own.sort(key=lambda it: _RANK.index(it.severity))
        key = page.principal.tenant, server
        self._kept[key] = Diagnosis(at=datetime.now(UTC), about=about, findings=tuple(own))
        self._kept.move_to_end(key)
        while len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)


def _source(page: PageRequest) -> str | Mapping[str, Any] | None:
    path = page.tenant.hub.loaded.path
    if path is not None:
        return str(path)
    return page.sources.config if page.principal.tenant == DEFAULT_TENANT else None
