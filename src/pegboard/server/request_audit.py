"""RequestAudit: what the audit keeps of requests besides the tool calls of a registry."""

import time
from collections.abc import Mapping
from typing import Any

import anyio

from pegboard.errors import AccessDeniedError, PegboardError
from pegboard.gateway.request import ClientRequest, RpcError
from pegboard.model.json_values import object_in
from pegboard.observe import Audit, AuditRecord
from pegboard.policies.access import may_use_server
from pegboard.server.gateway_port import GatewayPort

__all__ = ["RequestAudit", "code_of"]

_REGISTERING = frozenset({"register_tool", "unregister_tool"})
_KEPT = _REGISTERING | {
    "resources/read",
    "resources/subscribe",
    "prompts/get",
    "completion/complete",
}


class RequestAudit:
    """Notes who used or registered what, and all that was refused; not who listed or searched."""

    def __init__(self, audit: Audit | None, gateway: GatewayPort) -> None:
        self._audit = audit
        self._gateway = gateway

    def refused(self, exchange: ClientRequest, reason: str = AccessDeniedError.code) -> None:
        """Note a request that was refused."""
        if self._audit is not None:
            action, target = self._act(exchange)
            principal = exchange.client.principal
            self._audit.note(action, "refused", principal=principal, reason=reason, target=target)

    def answered(
        self,
        exchange: ClientRequest,
        result: Mapping[str, Any],
        *,
        failure: str = "",
        seconds: float,
    ) -> None:
        """Note a request that was answered, if nobody else does.

        Args:
            exchange: what was asked for.
            result: what was answered; empty when something went wrong.
            failure: the code of what went wrong.
            seconds: how long it took.
        """
        if self._audit is None:
            return
        if result.get("isError"):
            failure = "tool_error"
        if failure and not self._is_permitted(exchange):
            self.refused(exchange)
            return
        is_call = exchange.method == "tools/call"
        if is_call and self._gateway.own_tool(exchange) not in _REGISTERING:
            # The registry has told of it, and there may be thousands a second.
            return
        action, target = self._act(exchange)
        # A question to the client is no end: what it answers is a request of its own.
        if action in _KEPT and result.get("resultType") != "input_required":
            principal = exchange.client.principal
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

    def _is_permitted(self, exchange: ClientRequest) -> bool:
        if self._gateway.missing_scope(exchange) is not None:
            return False
        action, target = self._act(exchange)
        if action != "register_tool":
            return True
        server = _text(_arguments(exchange).get("mcp_server")) or None
        return may_use_server(exchange.client.principal, "register", server, name=target)

    def _act(self, exchange: ClientRequest) -> tuple[str, str]:
        """Return what was asked for, and of what: the tool, the prompt, the resource."""
        method, params = exchange.method, exchange.params
        own = self._gateway.own_tool(exchange)
        if own:
            key = "name" if own in ("call_tool", "register_tool") else "tool_name"
            target = _text(_arguments(exchange).get(key))
            return (method if own == "call_tool" else own), target
        if method == "completion/complete":
            named = object_in(params.get("ref"))
            return method, _text(named.get("uri")) or _text(named.get("name"))
        return method, _text(params.get("uri" if method.startswith("resources/") else "name"))


def code_of(error: BaseException) -> str:
    """Return the code of what went wrong: ours if there is one, or that of JSON-RPC."""
    cause = error.__cause__ if isinstance(error, RpcError) else error
    if isinstance(cause, PegboardError):
        return cause.code
    if isinstance(error, RpcError):
        return str(error.code)
    return "cancelled" if isinstance(error, anyio.get_cancelled_exc_class()) else "error"


def _arguments(exchange: ClientRequest) -> Mapping[str, Any]:
    """Return the arguments of a call; of one that registers a tool, the definition."""
    given = object_in(exchange.params.get("arguments"))
    return {**given, **object_in(given.get("tool_def"))}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
