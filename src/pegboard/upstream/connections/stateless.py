"""StatelessConnection: each call has a session of its own, unless the server keeps none."""

from typing import Any

import anyio

from pegboard.errors import ConnectionLostError, PegboardError, ServerTimeoutError
from pegboard.upstream.call_context import CallContext
from pegboard.upstream.connection import (
    Request,
    ResumableLossError,
    ResumePoint,
    Session,
)
from pegboard.upstream.connections.session_attempt import as_unavailable, session_opener
from pegboard.upstream.connections.stateful import StatefulConnection

__all__ = ["StatelessConnection"]


class StatelessConnection(StatefulConnection):
    """Gives every request a session of its own, unless the server keeps none anyway.

    A server of the modern era has no sessions, and some legacy servers create none: for these,
    each request is one exchange over shared HTTP connections, and costs no more than a stateful
    call. If the server requires a session, each request opens and ends one, except for the tasks
    of a server, which all use one session.
    """

    async def exchange(
        self,
        session: Session,
        request: Request,
        context: CallContext | None,
        resume: ResumePoint | None,
    ) -> dict[str, Any]:
        """Send a request once, in a session of its own if the server keeps sessions.

        Raises:
            UpstreamError: when it failed; its ``sent`` says whether the server may have acted.
        """
        if self.shares(session, request):
            return await super().exchange(session, request, context, resume)
        limit = self.config.timeouts.connect
        opener = await session_opener()
        answer: dict[str, Any] | None = None
        failure: PegboardError | None = None
        opened = False
        with anyio.CancelScope(deadline=anyio.current_time() + limit) as scope:
            try:
                async with opener(
                    self.config,
                    pool=self._deps.pool(),
                    greeting="legacy" if session.negotiated.era == "legacy" else "trust",
                    questions=self._deps.questions,
                    on_lost=_ignore,
                    on_changed=_ignore,
                    log=self._deps.log,
                ) as own:
                    opened = True
                    scope.deadline = float("inf")
                    try:
                        answer = await own.request(
                            request.method, request.params, tool=request.tool, context=context
                        )
                    except ResumableLossError as error:
                        # The session that could resume the stream ends with the request.
                        failure = ConnectionLostError(
                            str(error), server=error.server, tool=error.tool
                        )
                        failure.__cause__ = error
                    except PegboardError as error:
                        failure = error
                    finally:
                        scope.deadline = anyio.current_time() + limit
            except PegboardError as error:
                if not opened:
                    # Only the handshake was sent, if anything.
                    raise as_unavailable(error, self.config) from error
                raise
        # The outcome counts, even if the server is so slow to close that the scope is cancelled.
        if failure is not None:
            raise failure
        if answer is not None:
            return answer
        # Only here if the scope was cancelled before the request was sent.
        raise ServerTimeoutError(
            f"Server {self.config.name!r} did not answer within {limit:g} s.",
            server=self.config.name,
            tool=request.tool,
        )

    def shares(self, session: Session, request: Request) -> bool:
        """Tell whether a request uses this session, and not one of its own.

        Tasks of the handshake era belong to the session in which they were made.
        """
        is_of_task = request.method.startswith("tasks/") or "task" in (request.params or ())
        return is_of_task or not session.keeps_session


def _ignore(*_: object) -> None:
    pass
