"""Scopes: which one a request needs that its caller does not have, whatever wire it came by."""

from mcp_types import INVALID_REQUEST

from pegboard.errors import AccessDeniedError
from pegboard.gateway.builtin_tool import OWN_NAMES, OWN_RESOURCES
from pegboard.gateway.options import GatewayOptions
from pegboard.gateway.request import ClientRequest, Face, RpcError
from pegboard.model.principal import Scope
from pegboard.policies.access import METHODS, holds

__all__ = ["MissingScopeError", "missing_scope", "own_names", "own_tool_in"]

_NONE: frozenset[str] = frozenset()
_ON_FULL = frozenset({"read_result"})


class MissingScopeError(RpcError):
    """What is answered to a caller who may not do this to anything at all.

    The same for what exists and for what does not.
    """

    def __init__(self, scope: Scope) -> None:
        words = f"This needs the scope {scope!r}, which you do not have."
        super().__init__(INVALID_REQUEST, words, {"code": AccessDeniedError.code, "scope": scope})
        self.scope: Scope = scope


def own_names(face: Face, options: GatewayOptions) -> frozenset[str]:
    """Return the names that mean tools of the gateway itself on a face, for everybody.

    Whether somebody may use them makes no difference: a name never means two things. A tool of a
    server that is called the same is run by ``call_tool``, or on the full surface.
    """
    if face.surface == "search":
        return OWN_NAMES
    return _ON_FULL if options.result_cache_on_full else _NONE


def own_tool_in(request: ClientRequest, options: GatewayOptions) -> str:
    """Return the name of the tool of the gateway itself that a request calls, if it calls one."""
    if request.method != "tools/call":
        return ""
    name: object = request.params.get("name")
    if isinstance(name, str) and name in own_names(request.client.face, options):
        return name
    return ""


def missing_scope(request: ClientRequest, options: GatewayOptions) -> Scope | None:
    """Return the scope that a request needs and its caller does not have.

    What is asked for is not looked at, but for what the gateway itself has.
    """
    principal, method = request.client.principal, request.method
    scope = METHODS.get(own_tool_in(request, options) or method)
    if method.startswith("resources/") and request.params.get("uri") in OWN_RESOURCES:
        scope = "read"
    if scope is None or holds(principal, scope):
        return None
    # Whoever may only register is shown the tools to do so with.
    return None if method == "tools/list" and holds(principal, "register") else scope
