"""Probe one server: start it or connect to it, list its tools, and stop it again."""

from collections.abc import Callable, Mapping
from importlib import import_module
from time import monotonic
from typing import Any, Literal

import anyio
import anyio.to_thread
import msgspec

from pegboard.config import ServerConfig
from pegboard.doctor.probes.stderr import CapturedStderr
from pegboard.errors import PegboardError
from pegboard.upstream import Negotiated, Questions
from pegboard.upstream.connections.session_attempt import session_opener

__all__ = ["OnLogin", "OnPhase", "Phase", "Probe", "ProbeLimits", "Prober"]

Phase = Literal["starting", "listing", "done"]
"""How far a probe came."""

OnPhase = Callable[[Phase], None]
"""Receives each phase that a probe reaches."""

OnLogin = Callable[[str, str], object]
"""Receives the name of a server and the address of its login page."""

_GRACE = 0.3
_LONGEST_LINE = 500
_SHORT = 5.0


class ProbeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How long a server may take, in seconds."""

    each: float | None = None
    """For starting, and again for listing; ``None`` uses the `timeouts` of the server's entry."""
    slow: float = 10.0
    """A start that takes longer is reported."""
    at_once: int = 8
    """How many servers are probed at the same time."""


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """What a server did when it was started."""

    config: ServerConfig
    phase: Phase
    error: PegboardError | None = None
    limit: float | None = None
    """The time limit that the server exceeded, if it did."""
    lost_because: str | None = None
    """How its process or stream ended, if it ended by itself."""
    wants_login: bool = False
    negotiated: Negotiated | None = None
    startup_seconds: float | None = None
    listed: tuple[Mapping[str, Any], ...] = ()
    printed: tuple[str, ...] = ()
    """What it wrote to standard output that is not a message."""
    said: tuple[str, ...] = ()
    """What it wrote to standard error."""

    @property
    def words(self) -> str:
        """What the server printed, the last line at the end; long lines are cut."""
        # Patterns on hostile text take the square of its length.
        return "\n".join(line[:_LONGEST_LINE] for line in (*self.printed, *self.said))


class Prober:
    """Probes servers, which share one pool of HTTP connections.

    Args:
        captured: collects what servers print.
        limits: how long servers may take.
        on_login: shows the user the login page of a server. Without it, the probe only records
            that the server requires a login.
    """

    def __init__(
        self, captured: CapturedStderr, limits: ProbeLimits, *, on_login: OnLogin | None = None
    ) -> None:
        self._captured = captured
        self._limits = limits
        self._on_login = on_login
        self._scopes: dict[str, anyio.CancelScope] = {}
        self._wants_login: set[str] = set()
        self._pool: Any = None

    async def open(self) -> None:
        """Import what is needed to talk to servers."""
        await session_opener()
        module = await anyio.to_thread.run_sync(
            import_module, "pegboard.upstream.http.pool", abandon_on_cancel=True
        )
        self._pool = module.HttpPool(on_login=self._on_login or self._refuse_login)

    async def close(self) -> None:
        """Close the remaining connections."""
        if self._pool is not None:
            await self._pool.close()

    async def probe(self, config: ServerConfig, on_phase: OnPhase) -> Probe:
        """Start a server, list its tools, and stop it; the result records what went wrong."""
        seen = _Seen(self._start_limit(config))
        with anyio.move_on_after(seen.limit) as scope:
            self._scopes[config.name] = scope
            try:
                await self._look(config, seen, scope, on_phase)
            except PegboardError as error:
                seen.error = error
        wants_login = config.name in self._wants_login
        is_late = scope.cancelled_caught and seen.phase != "done" and not wants_login
        return Probe(
            config=config,
            phase=seen.phase,
            error=seen.error,
            limit=seen.limit if is_late else None,
            lost_because=config.redact(seen.lost[0]) if seen.lost else None,
            wants_login=wants_login,
            negotiated=seen.negotiated,
            startup_seconds=seen.startup_seconds,
            listed=seen.listed,
            printed=tuple(self._captured.printed(config.name)),
            said=tuple(self._captured.said(config.name)),
        )

    async def would_start(self, config: ServerConfig) -> bool:
        """Tell whether a server with this configuration starts within a few seconds."""
        other = Prober(self._captured, ProbeLimits(each=_SHORT))
        await other.open()
        try:
            seen = await other.probe(config, _ignore)
        finally:
            await other.close()
        return seen.phase != "starting"

    async def _look(
        self, config: ServerConfig, seen: "_Seen", scope: anyio.CancelScope, on_phase: OnPhase
    ) -> None:
        open_session = await session_opener()
        on_phase("starting")
        began = monotonic()
        async with open_session(
            config,
            pool=self._pool,
            questions=Questions(),
            on_lost=seen.lost.append,
            on_changed=_ignore,
            grace=_GRACE,
        ) as session:
            seen.startup_seconds = monotonic() - began
            seen.negotiated = said = session.negotiated
            seen.phase = "listing"
            on_phase("listing")
            seen.limit = self._limits.each or config.timeouts.list
            scope.deadline = anyio.current_time() + seen.limit
            if said.era == "modern" or "tools" in said.capabilities:
                seen.listed = tuple(await session.list_all("tools/list"))
            seen.phase = "done"

    def _start_limit(self, config: ServerConfig) -> float:
        limit = self._limits.each or config.timeouts.connect
        if config.oauth is not None and self._on_login is not None:
            # The user needs time to log in.
            limit += config.oauth.login_timeout
        return limit

    def _refuse_login(self, server: str, url: str) -> None:
        # The caller did not allow a browser: it is enough to know that the server wants one.
        self._wants_login.add(server)
        self._scopes[server].cancel()


def _ignore(*_: object) -> None:
    pass


class _Seen:
    """What was seen so far, also of a probe that ran out of time."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.phase: Phase = "starting"
        self.error: PegboardError | None = None
        self.lost: list[str] = []
        self.negotiated: Negotiated | None = None
        self.startup_seconds: float | None = None
        self.listed: tuple[Mapping[str, Any], ...] = ()
