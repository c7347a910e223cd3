"""RequestPipeline: what happens around every request, whatever wire it came by."""

import math
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import anyio
from mcp_types import INVALID_PARAMS
from msgspec.structs import replace

from pegboard.auth import CallLimits
from pegboard.errors import RateLimitedError
from pegboard.gateway.notifications import watched_in
from pegboard.gateway.request import Client, ClientRequest, RpcError
from pegboard.observe import Audit
from pegboard.server.gateway_port import GatewayPort
from pegboard.server.metrics import Metrics
from pegboard.server.request_audit import RequestAudit, code_of
from pegboard.server.startup import Startup
from pegboard.server.tracing import continued, trace_in

__all__ = ["RATE_LIMITED", "RequestPipeline"]

RATE_LIMITED = -32011
"""The code of the error that says: later."""

_AT_ONCE = frozenset({"ping", "server/discover", "logging/setLevel"})
"""What can be answered while the servers are still starting."""
_LISTEN, _WATCH = "subscriptions/listen", "resources/subscribe"
_LIMITED = frozenset({"tools/call", "resources/read", _WATCH, "prompts/get", "completion/complete"})
_FREE = nullcontext()


class RequestPipeline:
    """Lets callers to the gateway who keep within their limits, and counts them."""

    def __init__(
        self,
        gateway: GatewayPort,
        *,
        limits: CallLimits | None = None,
        metrics: Metrics | None = None,
        opening: Startup | None = None,
        audit: Audit | None = None,
    ) -> None:
        self.gateway = gateway
        """What answers."""
        self._limits = CallLimits() if limits is None else limits
        self.metrics: Metrics = Metrics() if metrics is None else metrics
        self._opening = opening
        self.acts: RequestAudit = RequestAudit(audit, gateway)
        """Writes down what was asked for, besides calls of tools."""
        self.running: int = 0
        """How many requests are being answered."""

    @property
    def is_ready(self) -> bool:
        """Whether calls are taken, and the servers were started."""
        has_started = self._opening is None or self._opening.is_done
        return has_started and self.gateway.is_ready

    async def admit(self, client: Client) -> None:
        """Refuse a client before it has a session, if there is nothing for it where it came to.

        Raises:
            RpcError: what it is told instead.
        """
        if self._opening is not None:
            await self._opening.wait()
        await self.gateway.admit(client)

    async def respond(self, exchange: ClientRequest) -> dict[str, Any]:
        """Return the raw result of a request.

        Raises:
            RpcError: what is answered instead.
        """
        outcome = failure = "error"
        exchange = self._noting_watches(exchange)
        result: dict[str, Any] = {}
        started = time.perf_counter()
        self.running += 1
        try:
            result = await self._answer(exchange)
        except anyio.get_cancelled_exc_class():
            outcome = failure = "cancelled"
            raise
        except RpcError as error:
            outcome = "limited" if error.code == RATE_LIMITED else "error"
            failure = code_of(error)
            raise
        else:
            outcome, failure = "ok", ""
            return result
        finally:
            self.running -= 1
            seconds = time.perf_counter() - started
            self.metrics.note_request(exchange.method, outcome, seconds)
            if failure != RateLimitedError.code:
                self.acts.answered(exchange, result, failure=failure, seconds=seconds)

    async def _answer(self, exchange: ClientRequest) -> dict[str, Any]:
        if self._opening is not None and exchange.method not in _AT_ONCE:
            await self._opening.wait()
        with self._admit(exchange):
            if exchange.method != _LISTEN:
                return await self._traced(exchange)
        # Whoever listens does so for hours, and has no call under way meanwhile.
        return await self._traced(exchange)

    def _admit(self, exchange: ClientRequest) -> AbstractContextManager[object]:
        uses = self._uses(exchange)
        if not uses:
            return _FREE
        try:
            parked = self.gateway.parked(exchange)
            principal = exchange.client.principal
            return self._limits.admit(principal, suspended=parked, uses=len(uses))
        except RateLimitedError as error:
            for use in uses:
                self.acts.refused(use, error.code)
            if math.isinf(error.retry_after):
                raise RpcError(INVALID_PARAMS, str(error), {"code": error.code}) from error
            data = {"retryAfter": error.retry_after}
            raise RpcError(RATE_LIMITED, str(error), data) from error

    def _uses(self, exchange: ClientRequest) -> Sequence[ClientRequest]:
        """Return what counts of a request, each as a request of its own; a refusal does not."""
        if exchange.method == _LISTEN:
            uses = [_watching(exchange, uri) for uri in watched_in(exchange.params)]
        else:
            uses = [exchange] if exchange.method in _LIMITED else []
        return [use for use in uses if self.gateway.missing_scope(use) is None]

    def _noting_watches(self, exchange: ClientRequest) -> ClientRequest:
        """Return a request to listen so that what it watches is written down."""
        if exchange.method != _LISTEN:
            return exchange
        started = time.perf_counter()

        def note(uri: str, error: BaseException | None) -> None:
            failure = "" if error is None else code_of(error)
            seconds = time.perf_counter() - started
            self.acts.answered(_watching(exchange, uri), {}, failure=failure, seconds=seconds)

        return replace(exchange, on_watched=note)

    async def _traced(self, exchange: ClientRequest) -> dict[str, Any]:
        carrier = trace_in(exchange.params)
        if carrier is None:
            return await self.gateway.respond(exchange)
        with continued(carrier, exchange.method):
            return await self.gateway.respond(exchange)


def _watching(exchange: ClientRequest, uri: str) -> ClientRequest:
    """Return a part of a request to listen as the handshake era would ask for it."""
    return replace(exchange, method=_WATCH, params={"uri": uri})
