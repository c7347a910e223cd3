"""Delivery: send a request to a server, and again if the table of repetitions allows it."""

import logging
import math
from time import monotonic
from typing import Any

import anyio
import msgspec

from pegboard.errors import (
    ConnectionLostError,
    ServerAuthenticationError,
    ServerTimeoutError,
    ServerUnavailableError,
    ToolTimeoutError,
    UpstreamError,
)
from pegboard.policies.retry import Outcome, may_repeat
from pegboard.upstream.call_context import CallContext
from pegboard.upstream.connection import (
    HeaderMismatchError,
    Request,
    ResumableLossError,
    ResumePoint,
    ServerBusyError,
    ServerState,
    Session,
)
from pegboard.upstream.connections.stateful import StatefulConnection
from pegboard.upstream.server_requests import Clock, Questions

__all__ = ["deliver", "deliver_list"]

logger: logging.Logger = logging.getLogger("pegboard.upstream")

_OUTCOMES: tuple[tuple[type[UpstreamError], Outcome], ...] = (
    (ResumableLossError, Outcome.RESUMABLE),
    (ConnectionLostError, Outcome.LOST),
    (HeaderMismatchError, Outcome.REFUSED),
    # Reached, but it wants other credentials, or more time: sending it again at once does not help.
    (ServerAuthenticationError, Outcome.SETTLED),
    (ServerBusyError, Outcome.SETTLED),
    (ServerTimeoutError, Outcome.SETTLED),
    (ServerUnavailableError, Outcome.NOT_SENT),
)
"""What became of a request, by its error; the first that fits counts."""


async def deliver(connection: StatefulConnection, request: Request) -> dict[str, Any]:
    """Connect if need be, send a request, and return its raw result.

    Raises:
        UpstreamError: when it failed; its ``sent`` says whether the server may have acted.
        ToolTimeoutError: when the response did not come in time.
    """
    attempts: _Attempts | None = None
    resume: ResumePoint | None = None
    deadline = math.inf
    while True:
        session = connection.at_hand or await _connected(connection, request)
        if resume is None:
            deadline = anyio.current_time() + request.limit
        connection.in_flight += 1
        scope = anyio.CancelScope(deadline=deadline)
        clock: Clock | None = None
        began = monotonic()
        try:
            with scope:
                context = request.context
                if request.questions is not None:
                    clock = Clock(scope)
                    context = _off_the_clock(context, request.questions, clock)
                raw = await connection.exchange(session, request, context, resume)
                connection.succeeded()
                return raw
            raise ToolTimeoutError(request.tool, seconds=request.limit, remedy=request.remedy)
        except UpstreamError as error:
            attempts = attempts or _Attempts(connection, request)
            shared = session if connection.shares(session, request) else None
            # The time of a person does not count.
            deadline = deadline if clock is None else clock.deadline
            resume = await attempts.after(error, session, shared, deadline=deadline)
        finally:
            connection.in_flight -= 1
            connection.last_used = ended = monotonic()
            if request.phases is not None:
                waited = 0.0 if clock is None else clock.stopped
                request.phases.waiting += waited
                request.phases.at_server += ended - began - waited


async def deliver_list(connection: StatefulConnection, method: str) -> list[dict[str, Any]]:
    """Connect if need be, and return the items of all pages of a list.

    Raises:
        UpstreamError: when it failed.
    """
    attempts = _Attempts(connection, Request(method=method))
    while True:
        session = connection.at_hand or await connection.session()
        connection.in_flight += 1
        try:
            return await session.list_all(method)
        except UpstreamError as error:
            await attempts.after(error, session, session)
        finally:
            connection.in_flight -= 1
            connection.last_used = monotonic()


async def _connected(connection: StatefulConnection, request: Request) -> Session:
    began = monotonic()
    try:
        return await connection.session(tool=request.tool)
    finally:
        if request.phases is not None:
            request.phases.connecting += monotonic() - began


class _Attempts:
    """The attempts to deliver one request."""

    def __init__(self, connection: StatefulConnection, request: Request) -> None:
        self._connection = connection
        self._request = request
        self._repeated: dict[Outcome, int] = {}
        self._last_event = ""

    async def after(
        self,
        error: UpstreamError,
        session: Session,
        shared: Session | None,
        *,
        deadline: float = math.inf,
    ) -> ResumePoint | None:
        """Prepare the next attempt, and return where it resumes the response, if it does.

        ``shared`` is the session, unless the request had one of its own.

        Raises:
            UpstreamError: the same error, when there is no further attempt.
        """
        outcome = next((it for kind, it in _OUTCOMES if isinstance(error, kind)), Outcome.SETTLED)
        if isinstance(error, ResumableLossError):
            if error.resume.last_event != self._last_event:
                # As long as events arrive, the attempts do not count.
                self._repeated[outcome] = 0
                self._last_event = error.resume.last_event
            if self._may_repeat(outcome):
                with anyio.CancelScope(deadline=deadline):
                    await anyio.sleep(error.resume.pause)
                # Only the session that has sent the request can ask for the rest.
                if self._connection.at_hand is session:
                    return error.resume
            outcome = Outcome.LOST
        if shared is not None:
            self._connection.withdraw(shared, error, outcome)
        # A server that we closed ourselves is not opened again for this.
        if self._connection.state == ServerState.CLOSED or not self._may_repeat(outcome):
            try:
                raise error
            finally:
                # Its traceback holds this frame. With the error in it, both would wait for the
                # garbage collector, and so would the response that was refused.
                del error
        name, tool = self._connection.config.name, self._request.tool
        logged = {"server": name, "tool": tool, "outcome": outcome.value}
        logger.info("call_repeated: %r of server %r: %s", tool, name, outcome, extra=logged)
        self._connection.note("resent", f"{tool or self._request.method}: {outcome.value}")
        if outcome is Outcome.REFUSED:
            # The schemas of the tools say which arguments go to headers.
            try:
                await session.list_all("tools/list")
            except UpstreamError as failure:
                raise error from failure
        return None

    def _may_repeat(self, outcome: Outcome) -> bool:
        before = self._repeated.get(outcome, 0)
        self._repeated[outcome] = before + 1
        return may_repeat(outcome, idempotent=self._request.idempotent, before=before)


def _off_the_clock(context: CallContext | None, questions: Questions, clock: Clock) -> CallContext:
    """Return the context of a call with handlers that stop its clock while a person answers."""
    return msgspec.structs.replace(context or CallContext(), questions=questions.stopping(clock))
