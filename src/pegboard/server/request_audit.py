"""RequestAudit: audit records of requests that are not tool calls, and of every refusal."""

import time
from collections.abc import Mapping
from typing import Any

import anyio

from pegboard.errors import AccessDeniedError, PegboardError
from pegboard.gateway.calls.run_call import caller_in
from pegboard.gateway.request import ClientRequest, RpcError
from pegboard.model.json_values import object_in
from pegboard.observe import Audit, AuditRecord
from pegboard.observe.call_reporter import CallReporter
from pegboard.policies.access import may_use_server
from pegboard.server.gateway_port import GatewayPort

__all__ = ["REGISTERING", "RequestAudit", "code_of"]

REGISTERING = frozenset({"register_tool", "unregister_tool"})
"""The gateway's own tools whose calls are recorded here, since they change what there is."""
_KEPT = REGISTERING | {
    "resources/read",
    "resources/subscribe",
    "prompts/get",
    "completion/complete",
}


class RequestAudit:
    """Records who used or registered what, and every refusal; not who listed or searched."""

    def __init__(
        self, audit: Audit | None, gateway: GatewayPort, reporter: CallReporter | None = None
    ) -> None:
        self._audit = audit
        self._gateway = gateway
        self._reporter = reporter

    def refused(self, request: ClientRequest, reason: str = AccessDeniedError.code) -> None:
        """Record a request that was refused; a call is reported like any other call."""
        action, target = self._action(request)
        if action == "tools/call" and self._reporter is not None:
            self._reporter.refused(target, caller_in(request.client), reason)
        elif self._audit is not None:
            principal = request.client.principal
            self._audit.note(action, "refused", principal=principal, reason=reason, target=target)

    def answered(
        self,
        request: ClientRequest,
        result: Mapping[str, Any],
        *,
        failure: str = "",
        seconds: float,
    ) -> None:
        """Record a request that has its response, unless the registry records it.

        Args:
            request: the request.
            result: its result; empty when it failed.
            failure: the code of the failure.
            seconds: how long it took.
        """
        if self._audit is None and self._reporter is None:
            return
        if result.get("isError"):
            failure = "tool_error"
        if failure and not self._is_permitted(request):
            self.refused(request)
            return
        if request.method == "tools/call" and _text(request.params.get("name")) not in REGISTERING:
            # The registry has recorded it.
            return
        action, target = self._action(request)
        # An elicitation is no end: the client continues with a request of its own.
        if self._audit is None:
            return
        if action in _KEPT and result.get("resultType") != "input_required":
            principal = request.client.principal
            record = AuditRecord(
                at=time.time() - seconds,
                action=action,
                outcome="failed" if failure else "done",
                reason=failure,
                tenant=principal.tenant,
                subject=principal.subject,
                target=target,
                duration=seconds,
            )
            self._audit.add(record)

    def _is_permitted(self, request: ClientRequest) -> bool:
        if self._gateway.missing_scope(request) is not None:
            return False
        action, target = self._action(request)
        if action != "register_tool":
            return True
        server = _text(_arguments(request).get("mcp_server")) or None
        return may_use_server(request.client.principal, "register", server, name=target)

    def _action(self, request: ClientRequest) -> tuple[str, str]:
        """Return the action of a request, and its target: the tool, the prompt, the resource."""
        method, params = request.method, request.params
        own = self._gateway.own_tool(request)
        if own:
            key = "name" if own in ("call_tool", "register_tool") else "tool_name"
            target = _text(_arguments(request).get(key))
            return (method if own == "call_tool" else own), target
        if method == "completion/complete":
            named = object_in(params.get("ref"))
            return method, _text(named.get("uri")) or _text(named.get("name"))
        return method, _text(params.get("uri" if method.startswith("resources/") else "name"))


def code_of(error: BaseException) -> str:
    """Return the code of an error: Pegboard's own if it has one, else that of JSON-RPC."""
    cause = error.__cause__ if isinstance(error, RpcError) else error
    if isinstance(cause, PegboardError):
        return cause.code
    if isinstance(error, RpcError):
        return str(error.code)
    return "cancelled" if isinstance(error, anyio.get_cancelled_exc_class()) else "error"


def _arguments(request: ClientRequest) -> Mapping[str, Any]:
    """Return the arguments of a call; for one that registers a tool, the definition."""
    given = object_in(request.params.get("arguments"))
    return {**given, **object_in(given.get("tool_def"))}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
