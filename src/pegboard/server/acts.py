"""Acts: what the audit keeps of requests, besides the calls of tools that a registry tells of."""

import time
from collections.abc import Mapping
from typing import Any

from pegboard.errors import AccessDeniedError, PegboardError
from pegboard.gateway.exchange import Exchange, RpcError
from pegboard.gateway.own_resources import OWN_RESOURCES
from pegboard.gateway.own_tool import OWN_NAMES
from pegboard.model.objects import object_in
from pegboard.model.principal import Scope
from pegboard.observe import Audit, AuditRecord
from pegboard.policies.access import METHODS, holds, may_use_server

__all__ = ["Acts", "code_of", "missing_scope"]

_REGISTERING = frozenset({"register_tool", "unregister_tool"})
_KEPT = _REGISTERING | {
    "resources/read",
    "resources/subscribe",
    "prompts/get",
    "completion/complete",
}


class Acts:
    """Notes who used or registered what, and all that was refused; not who listed or searched."""

    def __init__(self, audit: Audit | None) -> None:
        self._audit = audit

    def refused(self, exchange: Exchange, reason: str = AccessDeniedError.code) -> None:
        """Note a request that was refused."""
        if self._audit is not None:
            action, target = _act(exchange)
            principal = exchange.client.principal
            self._audit.note(action, "refused", principal=principal, reason=reason, target=target)

    def answered(
        self, exchange: Exchange, result: Mapping[str, Any], *, failure: str = "", seconds: float
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
        if failure and not _is_permitted(exchange):
            self.refused(exchange)
            return
        if exchange.method == "tools/call" and _named(exchange) not in _REGISTERING:
            # The registry has told of it, and there may be thousands a second.
            return
        action, target = _act(exchange)
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


def missing_scope(exchange: Exchange) -> Scope | None:
    """Return what to ask an authorization server for, so that the gateway would not refuse."""
    principal, method, name = exchange.client.principal, exchange.method, _named(exchange)
    is_own = method == "tools/call" and name in OWN_NAMES
    scope = METHODS.get(name if is_own else method)
    if method == "resources/read" and exchange.params.get("uri") in OWN_RESOURCES:
        scope = "read"
    if scope is None or holds(principal, scope):
        return None
    # Whoever may only register is shown the tools to do so with.
    return None if method == "tools/list" and holds(principal, "register") else scope


def code_of(error: RpcError) -> str:
    """Return the code of the error that a client is told of: ours if there is one, or its own."""
    cause = error.__cause__
    return cause.code if isinstance(cause, PegboardError) else str(error.code)


def _is_permitted(exchange: Exchange) -> bool:
    if missing_scope(exchange) is not None:
        return False
    action, target = _act(exchange)
    if action != "register_tool":
        return True
    server = _text(_arguments(exchange).get("mcp_server")) or None
    return may_use_server(exchange.client.principal, "register", server, name=target)


def _act(exchange: Exchange) -> tuple[str, str]:
    """Return what was asked for, and of what: the tool, the prompt, the resource."""
    method, params = exchange.method, exchange.params
    if method != "tools/call":
        named = object_in(params.get("ref")) if method == "completion/complete" else params
        return method, _text(named.get("uri")) or _text(named.get("name"))
    name = _named(exchange)
    if name not in OWN_NAMES or exchange.client.face.surface != "search":
        return method, name
    key = "name" if name in ("call_tool", "register_tool") else "tool_name"
    target = _text(_arguments(exchange).get(key))
    return (method if name == "call_tool" else name), target


def _arguments(exchange: Exchange) -> Mapping[str, Any]:
    """Return the arguments of a call; of one that registers a tool, the definition."""
    given = object_in(exchange.params.get("arguments"))
    return {**given, **object_in(given.get("tool_def"))}


def _named(exchange: Exchange) -> str:
    return _text(exchange.params.get("name"))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
