"""RequestPipeline: rate limits, metrics, audit and tracing around every request."""

import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import anyio
from mcp_types import INVALID_PARAMS
from msgspec.structs import replace

from pegboard.auth import CallLimits
from pegboard.errors import RateLimitedError
from pegboard.gateway.errors import LIMIT_REACHED
from pegboard.gateway.request import Client, ClientRequest, RpcError, object_in
from pegboard.gateway.resource_watches import watched_in
from pegboard.model.principal import Principal
from pegboard.observe import Audit
from pegboard.observe.call_reporter import CallReporter
from pegboard.server.gateway_port import GatewayPort
from pegboard.server.jsonrpc import internal_error
from pegboard.server.metrics import Metrics
from pegboard.server.request_audit import REGISTERING, RequestAudit, code_of
from pegboard.server.startup import Startup
from pegboard.server.tracing import continued, trace_in

__all__ = ["RATE_LIMITED", "RequestPipeline"]

logger: logging.Logger = logging.getLogger("pegboard.server")

RATE_LIMITED = LIMIT_REACHED
"""The JSON-RPC error code of a request that exceeds a rate limit."""

_AT_ONCE = frozenset({"ping", "server/discover", "logging/setLevel"})
"""Methods that need no server, so that they do not wait for the startup."""
_LISTEN, _WATCH = "subscriptions/listen", "resources/subscribe"
_LIMITED = frozenset({"tools/call", "resources/read", _WATCH, "prompts/get", "completion/complete"})
_FREE = nullcontext()


class RequestPipeline:
    """Passes requests within the caller's limits to the gateway, and records each of them."""

    def __init__(
        self,
        gateway: GatewayPort,
        *,
        limits: CallLimits | None = None,
        metrics: Metrics | None = None,
        startup: Startup | None = None,
        audit: Audit | None = None,
        reporter: CallReporter | None = None,
    ) -> None:
        self.gateway = gateway
        """What responds to the requests."""
        self._limits = CallLimits() if limits is None else limits
        self.metrics: Metrics = Metrics() if metrics is None else metrics
        self._startup = startup
        self.request_audit: RequestAudit = RequestAudit(audit, gateway, reporter)
        """Records the requests that are not tool calls."""
        self.on_client: Callable[[Client], object] | None = None
        """Is told of each client that introduces itself."""
        self.running: int = 0
        """How many requests are running."""

    @property
    def is_ready(self) -> bool:
        """Whether the gateway accepts calls, and the servers were started."""
        has_started = self._startup is None or self._startup.is_done
        return has_started and self.gateway.is_ready

    def introduce(self, client: Client) -> None:
        """Report a client that has said who it is."""
        if self.on_client is not None:
            self.on_client(client)

    def check_limits(self, principal: Principal) -> None:
        """Check the limits of a caller before a large request is read; count nothing.

        Raises:
            RateLimitedError: when the caller has to wait.
        """
        self._limits.check(principal)

    def count_refused(self, principal: Principal) -> None:
        """Count a request that was refused before it came here against the limits of its caller."""
        self._limits.charge(principal)

    async def admit(self, client: Client) -> None:
        """Check, before a client gets a session, that its address has something for it.

        Raises:
            RpcError: the refusal that the client gets.
        """
        if self._startup is not None:
            await self._startup.wait()
        await self.gateway.admit(client)

    async def respond(self, request: ClientRequest) -> dict[str, Any]:
        """Return the raw result of a request.

        Raises:
            RpcError: the error that the client gets instead; no other error leaves this function.
        """
        outcome = failure = "error"
        startup = self._startup
        if request.method == _LISTEN:
            request = self._noting_watches(request)
        elif request.method == "server/discover":
            self.introduce(request.client)
        result: dict[str, Any] = {}
        started = time.perf_counter()
        self.running += 1
        try:
            if startup is not None and not startup.is_open and request.method not in _AT_ONCE:
                await startup.wait()
            with self._admit(request), _traced(request):
                result = await self.gateway.respond(request)
        except anyio.get_cancelled_exc_class():
            outcome = failure = "cancelled"
            raise
        except RpcError as error:
            outcome = "limited" if error.code == RATE_LIMITED else "error"
            failure = code_of(error)
            raise
        except Exception as error:
            logger.exception("A request failed: %s.", request.method)
            raise internal_error() from error
        else:
            outcome, failure = "ok", ""
            return result
        finally:
            self.running -= 1
            seconds = time.perf_counter() - started
            self.metrics.note_request(request.method, outcome, seconds)
            if failure != RateLimitedError.code and (failure or not _is_recorded(request, result)):
                self.request_audit.answered(request, result, failure=failure, seconds=seconds)

    def _admit(self, request: ClientRequest) -> AbstractContextManager[object]:
        """Return the context in which a request counts against the limits of its caller."""
        principal = request.client.principal
        is_limited = (
            self._limits.limits_everyone or principal.calls_per_minute or principal.concurrent_calls
        )
        uses = self._uses(request) if is_limited else ()
        if not uses:
            return _FREE
        try:
            suspended = self.gateway.parked(request)
            admission = self._limits.admit(principal, suspended=suspended, uses=len(uses))
        except RateLimitedError as error:
            for use in uses:
                self.request_audit.refused(use, error.code)
            if math.isinf(error.retry_after):
                raise RpcError(INVALID_PARAMS, str(error), {"code": error.code}) from error
            data = {"retryAfter": error.retry_after}
            raise RpcError(RATE_LIMITED, str(error), data) from error
        if request.method != _LISTEN:
            return admission
        # A client listens for hours; that is no running call, so it does not stay counted.
        with admission:
            return _FREE

    def _uses(self, request: ClientRequest) -> Sequence[ClientRequest]:
        """Return the parts of a request that count against the limits, whether refused or not."""
        if request.method == _LISTEN:
            return [_watching(request, uri) for uri in watched_in(request.params)]
        return [request] if request.method in _LIMITED else []

    def _noting_watches(self, request: ClientRequest) -> ClientRequest:
        """Return a request to listen that also records the resources it subscribes to."""
        started = time.perf_counter()

        def note(uri: str, error: BaseException | None) -> None:
            failure = "" if error is None else code_of(error)
            seconds = time.perf_counter() - started
            self.request_audit.answered(
                _watching(request, uri), {}, failure=failure, seconds=seconds
            )

        return replace(request, on_watched=note)


def _is_recorded(request: ClientRequest, result: Mapping[str, Any]) -> bool:
    """Tell whether a request is a call that the registry has recorded."""
    return (
        request.method == "tools/call"
        and not result.get("isError")
        and request.params.get("name") not in REGISTERING
    )


def _traced(request: ClientRequest) -> AbstractContextManager[object]:
    """Return the context in which a request is a span of the trace that its client carries on."""
    # Most requests carry none.
    has_trace = "traceparent" in object_in(request.params.get("_meta"))
    carrier = trace_in(request.params) if has_trace else None
    return _FREE if carrier is None else continued(carrier, request.method)


def _watching(request: ClientRequest, uri: str) -> ClientRequest:
    """Return one subscription of a request to listen as the handshake era would send it."""
    return replace(request, method=_WATCH, params={"uri": uri})
