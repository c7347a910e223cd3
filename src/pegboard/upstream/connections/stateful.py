"""StatefulConnection: one long session, opened, watched and closed by one task."""

import copy
import logging
import math
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from pegboard.config import ServerConfig
from pegboard.errors import (
    ConfigError,
    NotConnectedError,
    PegboardError,
    ServerAuthenticationError,
    ServerTimeoutError,
    UpstreamError,
)
from pegboard.policies.retry import Outcome
from pegboard.upstream.call_context import CallContext
from pegboard.upstream.circuit_breaker import CircuitBreaker
from pegboard.upstream.connection import (
    ConnectionCallbacks,
    ConnectionDeps,
    Negotiated,
    Request,
    ResumePoint,
    ServerState,
    Session,
    SessionLostError,
)
from pegboard.upstream.connections.session_attempt import (
    SessionAttempt,
    Slot,
    as_unavailable,
    session_opener,
)
from pegboard.upstream.events import ServerNote
from pegboard.upstream.http.headers import checked_headers

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

__all__ = ["StatefulConnection"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

CLOSE_LIMIT = 10.0
"""The longest that closing may take: more than the steps from a closed stdin to SIGKILL need."""
SLOW_START = 2.0
"""Seconds after which a starting server gives its slot to the next one."""


class StatefulConnection:
    """Connects when first needed, notices when the server is lost, and connects again.

    A task of its own opens each session, publishes it, waits, and closes it; callers only call.
    """

    def __init__(
        self,
        config: ServerConfig,
        deps: ConnectionDeps,
        callbacks: ConnectionCallbacks | None = None,
    ) -> None:
        self.config: ServerConfig = config
        self._state = ServerState.COLD
        self.negotiated: Negotiated | None = None
        self.last_error: str | None = None
        self.failure: PegboardError | None = None
        self.startup_seconds: float | None = None
        self.starts: int = 0
        self._deps = deps
        self._legacy = False
        self._callbacks = callbacks or ConnectionCallbacks(tries_by_itself=lambda: not config.lazy)
        self._configured = config
        self._breaker = CircuitBreaker()
        self._session: Session | None = None
        self._attempt: SessionAttempt | None = None
        self.in_flight: int = 0
        """How many requests are running."""
        self.last_used: float = 0.0

    @property
    def state(self) -> ServerState:
        """The state of the server."""
        return self._state

    def note(self, event: ServerNote, text: str = "") -> None:
        """Write to the log of the server."""
        if self._deps.log is not None:
            self._deps.log.note(self.config.name, event, text)

    def _turn_to(self, state: ServerState) -> None:
        if state != self._state:
            self._state = state
            self._callbacks.on_state(state)

    async def open(self, *, tool: str = "") -> None:
        """Connect now, or wait for the attempt that is under way.

        Raises:
            ServerUnavailableError: when connecting failed; the message says why.
        """
        await self.session(tool=tool)

    async def close(self) -> None:
        """Disconnect and stay so until the next `open` or request; any number of times."""
        attempt = self._attempt
        self._session = None
        if self._state not in (ServerState.COLD, ServerState.CLOSED):
            self.note("stopped")
        self._turn_to(ServerState.CLOSED)
        if attempt is None or attempt.ended.is_set() or not self._deps.owner_loop.is_open:
            return
        attempt.over.set()
        if not attempt.settled.is_set():
            # Before it ends, which may take a while, so that no caller takes it for a failure.
            self._settle(attempt, self._closed_error())
            attempt.scope.cancel()
        with anyio.move_on_after(CLOSE_LIMIT, shield=True):
            await attempt.ended.wait()

    @property
    def at_hand(self) -> Session | None:
        """The open session; ``None`` if there is none."""
        return self._session

    async def exchange(
        self,
        session: Session,
        request: Request,
        context: CallContext | None,
        resume: ResumePoint | None,
    ) -> dict[str, Any]:
        """Send a request over a session once; `deliver` decides whether to send it again.

        Raises:
            UpstreamError: when it failed.
        """
        return await session.request(
            request.method, request.params, tool=request.tool, context=context, resume=resume
        )

    def shares(self, session: Session) -> bool:
        """Tell whether requests use this session, and not one of their own."""
        return True

    def succeeded(self) -> None:
        """Note that the server has answered."""
        if self._breaker.failures:
            self._breaker.succeeded()

    def withdraw(self, session: Session, error: UpstreamError, outcome: Outcome) -> None:
        """Give a session to no further caller if a failed request shows that it is lost."""
        if self.state == ServerState.CLOSED:
            return
        # Over HTTP, one broken exchange does not end a session that the server keeps.
        is_kept = self.config.transport == "streamable_http" and session.keeps_session
        if outcome is Outcome.NOT_SENT:
            self._lose(session, str(error), failed=not isinstance(error, SessionLostError))
        elif outcome is Outcome.LOST and not is_kept:
            if self.config.transport == "streamable_http" and self.in_flight > 1:
                # Closing the session would end the other exchanges, which have connections of
                # their own.
                self.last_error = self.config.redact(str(error))
                self._breaker.failed()
            else:
                self._lose(session, self.last_error or str(error))

    @contextmanager
    def busy(self) -> Generator[None]:
        """Count the block as a running request, so that the server is not idle."""
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            self.last_used = monotonic()

    async def notify(self, method: str) -> None:
        """Send a notification, if there is a session."""
        if self._session is not None:
            await self._session.notify(method)

    def set_headers(self, headers: Mapping[str, str]) -> None:
        """Send these besides the configured headers from now on, without reconnecting.

        Raises:
            ConfigError: when a header is invalid or reserved, or the server does not use HTTP.
        """
        if self.config.transport not in ("sse", "streamable_http"):
            raise ConfigError(f"Server {self.config.name!r} does not use HTTP; it has no headers.")
        checked_headers(headers)
        if self._session is not None and self._session.set_headers is not None:
            self._session.set_headers(headers)
        # Part of the configuration now, so that they are sent and redacted like the others.
        merged = {**self._configured.headers, **headers}
        self.config = msgspec.structs.replace(self._configured, headers=merged)

    def use_cached(self, negotiated: Negotiated) -> None:
        """Use what an earlier run negotiated, so that a legacy server is not probed again."""
        self.negotiated = negotiated
        self._legacy = negotiated.era == "legacy"

    def blame(self, reason: str | None) -> None:
        """Set the last error of a server that is connected all the same; ``None`` clears it."""
        self.last_error = reason

    async def session(self, *, tool: str = "") -> Session:
        """Return the open session; all callers that need one share the attempt to open it.

        Raises:
            ServerUnavailableError: when the server could not be reached.
            CircuitOpenError: when the circuit breaker is open.
            NotConnectedError: when the hub it belongs to is closed.
        """
        while (session := self._session) is None:
            attempt = self._attempt
            if attempt is None or attempt.over.is_set():
                self._breaker.check(
                    self.config.name, tool=tool, failure=self.failure, last_error=self.last_error
                )
                attempt = self._begin(tool)
            await attempt.settled.wait()
            if attempt.error is not None:
                # A copy for each caller: each may add to its traceback.
                error = copy.copy(attempt.error)
                error.tool = tool
                raise error
        return session

    def _begin(self, tool: str = "") -> SessionAttempt:
        if not self._deps.owner_loop.is_open:
            raise NotConnectedError(
                f"Server {self.config.name!r} is closed; open its hub again.",
                server=self.config.name,
                tool=tool,
            )
        attempt = self._attempt = SessionAttempt(self._attempt)
        self._turn_to(ServerState.STARTING)
        self._deps.owner_loop.start_soon(self._run_attempt, attempt)
        return attempt

    async def _run_attempt(self, attempt: SessionAttempt) -> None:
        try:
            previous, attempt.previous = attempt.previous, None
            if previous is not None:
                # Two processes of one server might compete for a port or a lock file.
                await previous.ended.wait()
            failure = await self._hold_open(attempt, await session_opener())
            if failure is not None:
                self._fail(attempt, failure)
        except Exception as error:
            name = self.config.name
            logger.exception("connection_failed: server %r", name, extra={"server": name})
            self._fail(attempt, as_unavailable(error, self.config, attempt.lost_because))
        finally:
            self._settle(attempt, self._closed_error())
            if attempt is self._attempt and self._session is not None:
                # The task was cancelled from outside, without `close`.
                self._session = None
                self._turn_to(ServerState.CLOSED)
            attempt.over.set()
            attempt.ended.set()
        if attempt is self._attempt and self._may_try_again(attempt):
            await self._try_again(attempt)

    async def _hold_open(
        self, attempt: SessionAttempt, opener: "Callable[..., AbstractAsyncContextManager[Session]]"
    ) -> PegboardError | None:
        """Open a session, publish it, wait until it is over and close it; return the failure."""
        starting = Slot(self._deps.starts)
        try:
            with attempt.scope:
                await starting.take()
                self._deps.owner_loop.start_soon(self._watch_start, attempt, starting)
                began = monotonic()
                async with opener(
                    self.config,
                    pool=self._deps.pool(),
                    greeting="legacy" if self._legacy else self._deps.greeting,
                    questions=self._deps.questions,
                    on_lost=partial(self._lost, attempt),
                    on_changed=self._callbacks.on_changed,
                    log=self._deps.log,
                ) as session:
                    starting.give_back()
                    self.startup_seconds = monotonic() - began
                    self._publish(attempt, session)
                    await self._until_over(attempt, session)
                    attempt.scope.deadline = anyio.current_time() + CLOSE_LIMIT
                if not attempt.over.is_set():
                    # It was not closed: its transport failed, and the session with it.
                    self._lose(session, "The connection broke.")
        except PegboardError as error:
            return (
                None
                if attempt.settled.is_set()
                else as_unavailable(error, self.config, attempt.lost_because)
            )
        finally:
            starting.give_back()
        return None

    async def _watch_start(self, attempt: SessionAttempt, starting: Slot) -> None:
        """End a start that takes too long; its callers fail before the process is stopped."""
        limit = self.config.timeouts.connect
        if self.config.oauth is not None:
            # A person may have to log in first.
            limit += self.config.oauth.login_timeout
        with anyio.move_on_after(min(limit, SLOW_START)):
            await attempt.settled.wait()
        starting.give_back()
        with anyio.move_on_after(limit - SLOW_START):
            await attempt.settled.wait()
        if not attempt.settled.is_set():
            error = ServerTimeoutError(
                f"Server {self.config.name!r} was not ready within {limit:g} s. Raise its "
                "`timeouts.connect` if it needs longer.",
                server=self.config.name,
            )
            self._fail(attempt, error)
            attempt.scope.cancel()

    async def _until_over(self, attempt: SessionAttempt, session: Session) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._greet, session)
            while not attempt.over.is_set():
                with anyio.move_on_after(self._idle_left()):
                    await attempt.over.wait()
                if not attempt.over.is_set() and self._idle_left() <= 0:
                    self._session = None
                    self._turn_to(ServerState.COLD)
                    self.note("idle", "stopped until the next call")
                    attempt.over.set()
            group.cancel_scope.cancel()

    async def _greet(self, session: Session) -> None:
        try:
            if self._callbacks.on_ready is not None:
                with self.busy():
                    await self._callbacks.on_ready(session)
            await session.watch(self._callbacks.watched)
        except Exception:
            name = self.config.name
            logger.exception("greeting_failed: server %r", name, extra={"server": name})

    def _idle_left(self) -> float:
        idle = self.config.timeouts.idle
        if idle is None:
            return math.inf
        if self.in_flight or self._callbacks.watched.uris:
            return idle
        return self.last_used + idle - monotonic()

    def _may_try_again(self, attempt: SessionAttempt) -> bool:
        if (
            self.state in (ServerState.COLD, ServerState.CLOSED)
            or not self._callbacks.tries_by_itself()
        ):
            return False
        # Only a person can log in, and a login window every minute does not help.
        return not isinstance(attempt.error, ServerAuthenticationError)

    async def _try_again(self, attempt: SessionAttempt) -> None:
        pause = self._breaker.pause
        self.note("retry", f"in {pause:.1f} s")
        await anyio.sleep(pause)
        if self._attempt is attempt and self._may_try_again(attempt):
            self._begin()

    def _publish(self, attempt: SessionAttempt, session: Session) -> None:
        self.negotiated = session.negotiated
        self._legacy = session.negotiated.era == "legacy"
        self.failure = None
        self.starts += 1
        self.last_used = monotonic()
        if not attempt.over.is_set():
            self._session = session
            self._turn_to(ServerState.READY)
            self.note("ready", f"after {self.startup_seconds or 0:.2f} s")
        self._settle(attempt, None)

    def _settle(self, attempt: SessionAttempt, error: PegboardError | None) -> None:
        if not attempt.settled.is_set():
            attempt.error = error
            attempt.settled.set()

    def _lost(self, attempt: SessionAttempt, reason: str) -> None:
        attempt.lost_because = self.config.redact(reason)
        if attempt is self._attempt and self._session is not None:
            self._lose(self._session, reason)

    def _lose(self, session: Session, reason: str, *, failed: bool = True) -> None:
        """Withdraw a session before another caller gets it, then let its task close it."""
        if session is not self._session or self._attempt is None:
            return
        self._session = None
        shown = self.config.redact(reason)
        if failed:
            self.last_error = shown
            self._breaker.failed()
        self._turn_to(ServerState.TRIPPED if self._breaker.is_open else ServerState.DOWN)
        self._attempt.over.set()
        context = {"server": self.config.name, "reason": shown}
        logger.warning("server_lost: %r: %s", self.config.name, shown, extra=context)
        self.note("lost", self._with_state(shown))

    def _fail(self, attempt: SessionAttempt, error: PegboardError) -> None:
        # The same error is logged once, however often the background tries.
        level = logging.DEBUG if self.last_error == str(error) else logging.ERROR
        context = {"server": self.config.name, "reason": str(error)}
        logger.log(level, "connect_failed: %s", error, extra=context)
        self.last_error = str(error)
        self.failure = error
        # The cached era of the server may be why connecting failed.
        self._legacy = False
        self._breaker.failed()
        if attempt is self._attempt and self.state != ServerState.CLOSED:
            self._turn_to(ServerState.TRIPPED if self._breaker.is_open else ServerState.DOWN)
        self.note("failed", self._with_state(str(error)))
        attempt.over.set()
        self._settle(attempt, error)

    def _with_state(self, reason: str) -> str:
        # The log has the last words of the server already, line by line.
        reason = reason.partition("; its last words:")[0]
        tripped = self._state == ServerState.TRIPPED
        return (
            f"{reason} (calls are refused for {self._breaker.pause:.0f} s)" if tripped else reason
        )

    def _closed_error(self) -> NotConnectedError:
        return NotConnectedError(
            f"Server {self.config.name!r} was closed.", server=self.config.name
        )
