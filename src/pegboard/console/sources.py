"""Sources: where the pages read what they show; the command line and ``/metrics`` read the same."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec

from pegboard.auth import ApiKeys
from pegboard.config.files.servers_file import file_to_edit
from pegboard.errors import UnauthenticatedError
from pegboard.gateway import Gateway
from pegboard.gateway.request import ClientRequest
from pegboard.model.principal import DEFAULT_TENANT
from pegboard.observe import Audit
from pegboard.observe.call_entry import CallEntry, CallFilter
from pegboard.observe.call_reporter import GatewayCall
from pegboard.policies.fair_share import LimitUse
from pegboard.reports.latency import Latency
from pegboard.reports.live_status import CallNumbers

__all__ = ["KeptCalls", "Sources"]


class KeptCalls(Protocol):
    """The calls that the gateway keeps."""

    def find(self, wanted: CallFilter) -> list[CallEntry]:
        """Return the calls that a filter chooses, the newest first."""
        ...


class Sources(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a serving process that the console shows."""

    gateway: Gateway
    respond: Callable[[ClientRequest], Awaitable[dict[str, Any]]]
    """Answers a request as that of any client: with its limits, its records and its audit."""
    numbers: Callable[[], CallNumbers]
    latencies: Callable[[], dict[str, Latency]]
    """How long calls took since the start, by server."""
    limits: Callable[[], Sequence[LimitUse]]
    running: Callable[[], Sequence[GatewayCall]] = tuple
    """The calls whose requests run now."""
    stalls: Callable[[], Mapping[str, int]] = dict
    """How often the event loop was busy for too long, by place."""
    started: float = 0.0
    """When the gateway was started, in seconds since the epoch."""
    refused: Callable[[UnauthenticatedError, str], object] = lambda _error, _source: None
    """Is told of each login that was refused, and where it came from."""
    calls: KeptCalls | None = None
    """``None`` if no calls are kept."""
    log_folder: Path | None = None
    address: str = ""
    """Where clients reach the gateway."""
    keys: ApiKeys | None = None
    """The API keys; ``None`` if none are stored."""
    asks_for_keys: bool = False
    """Whether these keys are accepted as credentials."""
    audit: Audit | None = None
    """Where changes are recorded."""
    config: str | Mapping[str, Any] | None = None
    """The file with the servers of the first tenant, or its content; ``None`` where it is found."""
    tenants: Mapping[str, str] = msgspec.field(default_factory=dict[str, str])
    """The configuration files of the further tenants."""
    storage: str = ""
    """Where the gateway keeps things, without a password; empty for nowhere."""

    def file_of(self, tenant: str) -> Path | None:
        """Return the file in which the servers of a tenant are edited, which may not exist yet.

        Raises:
            ConfigError: when it is a folder, or cannot be read.
        """
        source = self.config if tenant == DEFAULT_TENANT else self.tenants.get(tenant)
        is_file = isinstance(source, str) or (source is None and tenant == DEFAULT_TENANT)
        return file_to_edit(cast("str | None", source)) if is_file else None

    def log_of(self, tenant: str) -> Path | None:
        """Return the folder of the log that the people of a tenant may read."""
        return self.log_folder if tenant == DEFAULT_TENANT else None
