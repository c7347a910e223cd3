"""Circuit breaker: after five failures in a row, calls to a server are refused for a while."""

from pegboard.errors import CircuitOpenError, PegboardError, ServerAuthenticationError
from pegboard.upstream.backoff import Backoff

__all__ = ["FAILURES_TO_OPEN", "CircuitBreaker"]

FAILURES_TO_OPEN = 5
"""How many failures in a row open the circuit: then not even a call may try before the pause."""


class CircuitBreaker(Backoff):
    """A backoff that also refuses calls, once a server has failed too often."""

    @property
    def is_open(self) -> bool:
        """True while calls are refused instead of trying the server again."""
        return self.failures >= FAILURES_TO_OPEN and self.pause > 0

    def check(
        self, server: str, *, tool: str, failure: PegboardError | None, last_error: str | None
    ) -> None:
        """Refuse a call while the circuit is open.

        Args:
            server: the name of the server.
            tool: the tool that is called.
            failure: the error with which connecting last failed.
            last_error: why the server was last unreachable or lost.

        Raises:
            CircuitOpenError: when the server failed too often.
            ServerAuthenticationError: when it failed for want of a login.
        """
        if not self.is_open:
            return
        pause = self.pause
        if isinstance(failure, ServerAuthenticationError):
            raise ServerAuthenticationError(
                f"{failure} It was tried {self.failures} times; a call can try it again in "
                f"{pause:.0f} s.",
                server=server,
                tool=tool,
            )
        raise CircuitOpenError(
            f"Server {server!r} is configured but not running: it failed {self.failures} times in "
            f"a row and is left alone for another {pause:.0f} s. The last reason: {last_error}",
            server=server,
            tool=tool,
            retry_in=pause,
        )
