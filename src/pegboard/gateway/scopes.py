"""Scopes: the permission (read, call, register, …) that a request needs and its caller lacks."""

from mcp_types import INVALID_REQUEST

from pegboard.errors import AccessDeniedError
from pegboard.gateway.builtin_tool import OWN_NAMES, OWN_RESOURCES
from pegboard.gateway.options import GatewayOptions
from pegboard.gateway.request import ClientRequest, Face, RpcError
from pegboard.model.principal import Principal, Scope
from pegboard.policies.access import METHODS, holds

__all__ = ["MissingScopeError", "missing_scope", "own_names", "own_tool_in"]

_NONE: frozenset[str] = frozenset()
_ON_FULL = frozenset({"read_result"})
_WITHHELD = (
    "Clients without a credential may not register tools over HTTP. Start the gateway with "
    "`--allow-register` (or set `allow_register` in `gateway.auth`), or switch on API keys and use "
    "a key with the scope 'register'."
)


class MissingScopeError(RpcError):
    """The caller lacks the scope for this kind of request.

    The error is the same whether the named tool exists or not.
    """

    def __init__(self, scope: Scope, principal: Principal) -> None:
        words = f"This needs the scope {scope!r}, which you do not have."
        if scope == "register" and scope in principal.withheld:
            words = _WITHHELD
        super().__init__(INVALID_REQUEST, words, {"code": AccessDeniedError.code, "scope": scope})
        self.scope: Scope = scope


def own_names(face: Face, options: GatewayOptions) -> frozenset[str]:
    """Return the names of the gateway's own tools on a face, the same for every caller.

    A name never means two things, even if a caller may not use the gateway's tool. A server's tool
    with the same name can be run with ``call_tool``, or on the full surface.
    """
    if face.surface == "search":
        return OWN_NAMES
    return _ON_FULL if options.result_cache_on_full else _NONE


def own_tool_in(request: ClientRequest, options: GatewayOptions) -> str:
    """Return the name of the gateway's own tool that a request calls, or ``""``."""
    if request.method != "tools/call":
        return ""
    name: object = request.params.get("name")
    if isinstance(name, str) and name in own_names(request.client.face, options):
        return name
    return ""


def missing_scope(request: ClientRequest, options: GatewayOptions) -> Scope | None:
    """Return the scope that a request needs and its caller lacks, or ``None``.

    The check looks at the method, and at the name only of the gateway's own tools and resources.
    """
    principal, method = request.client.principal, request.method
    scope = METHODS.get(own_tool_in(request, options) or method)
    if method.startswith("resources/") and request.params.get("uri") in OWN_RESOURCES:
        scope = "read"
    if scope is None or holds(principal, scope):
        return None
    # A caller that may only register needs to see the tools for it.
    return None if method == "tools/list" and holds(principal, "register") else scope
