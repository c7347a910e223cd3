"""StatefulConnection: one long session, opened, watched and closed by one task."""

import copy
import logging
import math
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from time import monotonic
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import msgspec

from pegboard.config import ServerConfig
from pegboard.errors import (
    CircuitOpenError,
    ConfigError,
    ConnectionLostError,
    NotConnectedError,
    PegboardError,
    ServerAuthenticationError,
    ServerTimeoutError,
    ServerUnavailableError,
)
from pegboard.upstream.backoff import Backoff
from pegboard.upstream.call_context import CallContext
from pegboard.upstream.connection import (
    ConnectionCallbacks,
    Greeting,
    Negotiated,
    ServerBusyError,
    ServerState,
    Session,
    SessionLostError,
)
from pegboard.upstream.connections.session_attempt import SessionAttempt, Slot, as_unavailable
from pegboard.upstream.events import ServerEvent
from pegboard.upstream.http.headers import checked_headers
from pegboard.upstream.owner_loop import OwnerLoop
from pegboard.upstream.server_requests import Questions

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

__all__ = ["ConnectionDeps", "StatefulConnection", "session_opener"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

CLOSE_LIMIT = 10.0
"""The longest a goodbye may take: more than the ladder from a closed stdin to SIGKILL needs."""
SLOW_START = 2.0
"""A server that takes longer no longer counts as starting, so that it does not delay the others."""


class ConnectionDeps(msgspec.Struct, frozen=True, kw_only=True):
    """What connections share: where their tasks live, and how many may start at once."""

    nursery: OwnerLoop
    starts: anyio.CapacityLimiter
    pool: Callable[[], Any]
    """Gives the shared `HttpPool`; a function, because making one imports the SDK."""
    questions: Questions = Questions()
    greeting: Greeting = "ask"
    announce: Callable[[ServerEvent], None] = lambda _: None
    """Tells whoever wants to know what happens to servers."""


class StatefulConnection:
    """Connects when first needed, notices when the server is lost, and connects again.

    Callers only call: a task of its own opens each session, publishes it, waits, and closes it.
    """

    def __init__(
        self,
        config: ServerConfig,
        surroundings: ConnectionDeps,
        reports: ConnectionCallbacks | None = None,
    ) -> None:
        self.config: ServerConfig = config
        self._state = ServerState.COLD
        self.negotiated: Negotiated | None = None
        self.last_error: str | None = None
        self.failure: PegboardError | None = None
        self.startup_seconds: float | None = None
        self.starts: int = 0
        self._around = surroundings
        self._legacy = False
        self._reports = reports or ConnectionCallbacks(tries_by_itself=lambda: not config.lazy)
        self._configured = config
        self._backoff = Backoff()
        self._session: Session | None = None
        self._life: SessionAttempt | None = None
        self.in_flight: int = 0
        """How many requests are under way."""
        self._last_used = 0.0

    @property
    def state(self) -> ServerState:
        """Where the server is in its life."""
        return self._state

    def _turn_to(self, state: ServerState) -> None:
        if state != self._state:
            self._state = state
            self._reports.on_state(state)

    async def open(self, *, tool: str = "") -> None:
        """Connect now, or wait for whoever is connecting.

        Raises:
            ServerUnavailableError: when that failed, saying why.
        """
        await self.session(tool=tool)

    async def close(self) -> None:
        """Disconnect and stay so until the next `open` or request; any number of times."""
        life = self._life
        self._session = None
        self._turn_to(ServerState.CLOSED)
        if life is None or life.ended.is_set() or not self._around.nursery.is_open:
            return
        life.over.set()
        if not life.settled.is_set():
            # Before it ends, which may take a while, so that nobody takes it for a failure.
            self._settle(life, self._closed_error())
            life.scope.cancel()
        with anyio.move_on_after(CLOSE_LIMIT, shield=True):
            await life.ended.wait()

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        tool: str = "",
        context: CallContext | None = None,
    ) -> dict[str, Any]:
        """Connect if need be, send one request and return its raw result.

        What certainly did not reach the server is sent once more over a new session.

        Raises:
            UpstreamError: whatever went wrong; its ``sent`` says whether the server may have acted.
        """
        session = self._session or await self.session(tool=tool)
        self.in_flight += 1
        try:
            try:
                raw = await session.request(method, params, tool=tool, context=context)
            except ServerUnavailableError as error:
                if not self._lose_unreached(session, error):
                    raise
                session = await self.session(tool=tool)
                raw = await session.request(method, params, tool=tool, context=context)
        except ConnectionLostError as error:
            self._lose_broken(session, error)
            raise
        finally:
            self.in_flight -= 1
            self._last_used = monotonic()
        if self._backoff.failures:
            self._backoff.succeeded()
        return raw

    async def list_all(self, method: str) -> list[dict[str, Any]]:
        """Connect if need be, and return the items of all pages of a list.

        What certainly did not reach the server is asked once more over a new session.

        Raises:
            UpstreamError: whatever went wrong.
        """
        session = self._session or await self.session()
        with self._busy():
            try:
                try:
                    return await session.list_all(method)
                except ServerUnavailableError as error:
                    # One that is slow has its session still.
                    is_slow = isinstance(error, ServerTimeoutError)
                    if is_slow or not self._lose_unreached(session, error):
                        raise
                    session = await self.session()
                    return await session.list_all(method)
            except ConnectionLostError as error:
                self._lose_broken(session, error)
                raise

    @contextmanager
    def _busy(self) -> Generator[None]:
        """Keep the server from being idle meanwhile."""
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            self._last_used = monotonic()

    async def notify(self, method: str) -> None:
        """Send a notification, if there is a session that could want to know."""
        if self._session is not None:
            await self._session.notify(method)

    def set_headers(self, headers: Mapping[str, str]) -> None:
        """Send these besides the configured headers from now on, without connecting again.

        Raises:
            ConfigError: when one is not legal, or reserved, or the server is not behind HTTP.
        """
        if self.config.transport not in ("sse", "streamable_http"):
            raise ConfigError(f"Server {self.config.name!r} is not behind HTTP; it has no headers.")
        checked_headers(headers)
        if self._session is not None and self._session.set_headers is not None:
            self._session.set_headers(headers)
        # Part of the configuration from now on, so that they are sent and hidden like the others.
        merged = {**self._configured.headers, **headers}
        self.config = msgspec.structs.replace(self._configured, headers=merged)

    def read_cached_tools(self, negotiated: Negotiated) -> None:
        """Start from what an earlier run found out, so that a legacy server is not probed again."""
        self.negotiated = negotiated
        self._legacy = negotiated.era == "legacy"

    def blame(self, reason: str | None) -> None:
        """Note what is wrong with a server that is connected all the same, or that it is mended."""
        self.last_error = reason

    async def session(self, *, tool: str = "") -> Session:
        """Return the open session; open one, together with everybody else who needs it.

        Raises:
            ServerUnavailableError: when the server could not be reached.
            CircuitOpenError: when it failed so often that it is not even tried.
            NotConnectedError: when the hub it belongs to is closed.
        """
        while (session := self._session) is None:
            life = self._life
            if life is None or life.over.is_set():
                self._refuse_while_tripped(tool)
                life = self._begin(tool)
            await life.settled.wait()
            if life.error is not None:
                # A copy for each caller: they may all add to its traceback.
                error = copy.copy(life.error)
                error.tool = tool
                raise error
        return session

    def _refuse_while_tripped(self, tool: str) -> None:
        if not self._backoff.is_open:
            return
        pause = self._backoff.pause
        if isinstance(self.failure, ServerAuthenticationError):
            raise ServerAuthenticationError(
                f"{self.failure} It was tried {self._backoff.failures} times, and is tried again "
                f"by a call in {pause:.0f} s.",
                server=self.config.name,
                tool=tool,
            )
        raise CircuitOpenError(
            f"Server {self.config.name!r} failed {self._backoff.failures} times in a row and is "
            f"left alone for another {pause:.0f} s. The last reason: {self.last_error}",
            server=self.config.name,
            tool=tool,
            retry_in=pause,
        )

    def _begin(self, tool: str = "") -> SessionAttempt:
        if not self._around.nursery.is_open:
            raise NotConnectedError(
                f"Server {self.config.name!r} is closed; open its hub again.",
                server=self.config.name,
                tool=tool,
            )
        life = self._life = SessionAttempt(self._life)
        self._turn_to(ServerState.STARTING)
        self._around.nursery.start_soon(self._live, life)
        return life

    async def _live(self, life: SessionAttempt) -> None:
        try:
            previous, life.previous = life.previous, None
            if previous is not None:
                # Two processes of one server might fight for a port or a lock file.
                await previous.ended.wait()
            failure = await self._hold_open(life, await session_opener())
            if failure is not None:
                self._fail(life, failure)
        except Exception as error:
            name = self.config.name
            logger.exception("connection_failed: server %r", name, extra={"server": name})
            self._fail(life, as_unavailable(error, self.config, life.lost_because))
        finally:
            self._settle(life, self._closed_error())
            if life is self._life and self._session is not None:
                # Cancelled from outside, without anybody having closed it.
                self._session = None
                self._turn_to(ServerState.CLOSED)
            life.over.set()
            life.ended.set()
        if life is self._life and self._may_try_again(life):
            await self._try_again(life)

    async def _hold_open(
        self, life: SessionAttempt, opener: "Callable[..., AbstractAsyncContextManager[Session]]"
    ) -> PegboardError | None:
        """Open a session, publish it, wait until it is over and close it; return what failed."""
        starting = Slot(self._around.starts)
        try:
            with life.scope:
                await starting.take()
                self._around.nursery.start_soon(self._watch_start, life, starting)
                began = monotonic()
                async with opener(
                    self.config,
                    pool=self._around.pool(),
                    greeting="legacy" if self._legacy else self._around.greeting,
                    questions=self._around.questions,
                    on_lost=partial(self._lost, life),
                    on_changed=self._reports.on_changed,
                ) as session:
                    starting.give_back()
                    self.startup_seconds = monotonic() - began
                    self._publish(life, session)
                    await self._until_over(life, session)
                    life.scope.deadline = anyio.current_time() + CLOSE_LIMIT
                if not life.over.is_set():
                    # Nobody has closed it: its transport failed, and the session with it.
                    self._lose(session, "The connection broke.")
        except PegboardError as error:
            return (
                None
                if life.settled.is_set()
                else as_unavailable(error, self.config, life.lost_because)
            )
        finally:
            starting.give_back()
        return None

    async def _watch_start(self, life: SessionAttempt, starting: Slot) -> None:
        """End a start that takes too long; whoever waits is told before the process is stopped."""
        limit = self.config.timeouts.connect
        if self.config.oauth is not None:
            # A person may have to log in first.
            limit += self.config.oauth.login_timeout
        with anyio.move_on_after(min(limit, SLOW_START)):
            await life.settled.wait()
        starting.give_back()
        with anyio.move_on_after(limit - SLOW_START):
            await life.settled.wait()
        if not life.settled.is_set():
            error = ServerTimeoutError(
                f"Server {self.config.name!r} was not ready within {limit:g} s. Raise its "
                "`timeouts.connect` if it needs longer.",
                server=self.config.name,
            )
            self._fail(life, error)
            life.scope.cancel()

    async def _until_over(self, life: SessionAttempt, session: Session) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(self._greet, session)
            while not life.over.is_set():
                with anyio.move_on_after(self._idle_left()):
                    await life.over.wait()
                if not life.over.is_set() and self._idle_left() <= 0:
                    self._session = None
                    self._turn_to(ServerState.COLD)
                    life.over.set()
            group.cancel_scope.cancel()

    async def _greet(self, session: Session) -> None:
        try:
            if self._reports.on_ready is not None:
                with self._busy():
                    await self._reports.on_ready(session)
            await session.watch(self._reports.watched)
        except Exception:
            name = self.config.name
            logger.exception("greeting_failed: server %r", name, extra={"server": name})

    def _idle_left(self) -> float:
        idle = self.config.timeouts.idle
        if idle is None:
            return math.inf
        if self.in_flight or self._reports.watched.uris:
            return idle
        return self._last_used + idle - monotonic()

    def _may_try_again(self, life: SessionAttempt) -> bool:
        if (
            self.state in (ServerState.COLD, ServerState.CLOSED)
            or not self._reports.tries_by_itself()
        ):
            return False
        # Nobody but a person can help, and a login window every minute helps nobody.
        return not isinstance(life.error, ServerAuthenticationError)

    async def _try_again(self, life: SessionAttempt) -> None:
        await anyio.sleep(self._backoff.pause)
        if self._life is life and self._may_try_again(life):
            self._begin()

    def _publish(self, life: SessionAttempt, session: Session) -> None:
        self.negotiated = session.negotiated
        self._legacy = session.negotiated.era == "legacy"
        self.failure = None
        self.starts += 1
        self._last_used = monotonic()
        if not life.over.is_set():
            self._session = session
            self._turn_to(ServerState.READY)
        self._settle(life, None)

    def _settle(self, life: SessionAttempt, error: PegboardError | None) -> None:
        if not life.settled.is_set():
            life.error = error
            life.settled.set()

    def _lose_unreached(self, session: Session, error: ServerUnavailableError) -> bool:
        """Give up a session that a request did not get through; tell whether a new one may help."""
        if isinstance(error, ServerBusyError) or not error.transient:
            return False
        if self.state == ServerState.CLOSED:
            # By us: it is not opened again for this.
            return False
        self._lose(session, str(error), failed=not isinstance(error, SessionLostError))
        return True

    def _lose_broken(self, session: Session, error: ConnectionLostError) -> None:
        # Over HTTP one broken exchange says nothing about a session that the server keeps.
        if not (self.config.transport == "streamable_http" and session.keeps_session):
            self._lose(session, self.last_error or str(error))

    def _lost(self, life: SessionAttempt, reason: str) -> None:
        life.lost_because = self.config.redact(reason)
        if life is self._life and self._session is not None:
            self._lose(self._session, reason)

    def _lose(self, session: Session, reason: str, *, failed: bool = True) -> None:
        """Withdraw a session before anybody else gets it, then let its task close it."""
        if session is not self._session or self._life is None:
            return
        self._session = None
        shown = self.config.redact(reason)
        if failed:
            self.last_error = shown
            self._backoff.failed()
        self._turn_to(ServerState.TRIPPED if self._backoff.is_open else ServerState.DOWN)
        self._life.over.set()
        context = {"server": self.config.name, "reason": shown}
        logger.warning("server_lost: %r: %s", self.config.name, shown, extra=context)

    def _fail(self, life: SessionAttempt, error: PegboardError) -> None:
        # Once is enough, however often the background tries.
        level = logging.DEBUG if self.last_error == str(error) else logging.ERROR
        context = {"server": self.config.name, "reason": str(error)}
        logger.log(level, "connect_failed: %s", error, extra=context)
        self.last_error = str(error)
        self.failure = error
        # What was remembered of the server may be what kept us out.
        self._legacy = False
        self._backoff.failed()
        if life is self._life and self.state != ServerState.CLOSED:
            self._turn_to(ServerState.TRIPPED if self._backoff.is_open else ServerState.DOWN)
        life.over.set()
        self._settle(life, error)

    def _closed_error(self) -> NotConnectedError:
        return NotConnectedError(
            f"Server {self.config.name!r} was closed.", server=self.config.name
        )


async def session_opener() -> "Callable[..., AbstractAsyncContextManager[Session]]":
    """Return what opens a session, importing the SDK in a thread if nobody has yet."""
    # The SDK takes a second to import, and a hub with a warm catalogue may never need it.
    module = await anyio.to_thread.run_sync(import_module, "pegboard.upstream.session.session")
    return module.open_session
