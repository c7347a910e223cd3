"""The modern era on every transport: each request says who its client is, without a session."""

from collections.abc import Mapping
from typing import Any

from mcp.shared.inbound import InboundLadderRejection, InboundModernRoute
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    INVALID_PARAMS,
)

from pegboard.gateway.request import Client, Face, RpcError, object_in
from pegboard.gateway.resource_watches import watched_in
from pegboard.gateway.sessions import WANTED
from pegboard.gateway.tasks.task_methods import tasks_in
from pegboard.model.principal import Principal
from pegboard.server.jsonrpc import check_client_info
from pegboard.server.tracing import trace_in
from pegboard.upstream.messages.extensions import carried_capabilities, declares
from pegboard.upstream.messages.protocol import TASKS

__all__ = ["client_of", "listening_params", "refusal_of"]


def client_of(route: InboundModernRoute, *, principal: Principal, face: Face) -> Client:
    """Return the client of a request, from what the request says about it.

    Raises:
        RpcError: when this is not in the form of the protocol, or too long.
    """
    capabilities, info = route.client_capabilities, route.client_info
    for key, value in (
        (CLIENT_CAPABILITIES_META_KEY, capabilities),
        (CLIENT_INFO_META_KEY, info),
    ):
        if not isinstance(value, dict) and (
            value is not None or key == CLIENT_CAPABILITIES_META_KEY
        ):
            raise RpcError(INVALID_PARAMS, f"params._meta: {key!r} must be an object")
    check_client_info(capabilities, info or {})
    return Client(
        principal=principal,
        era="modern",
        version=route.protocol_version,
        face=face,
        capabilities=carried_capabilities(capabilities) if capabilities else {},
        info=info or {},
        tasks="extensions" in capabilities and declares(capabilities, TASKS),
    )


def listening_params(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return only the used parts of a request to listen, which stays in memory for hours.

    Raises:
        RpcError: when it subscribes to too many resources or tasks.
    """
    asked: object = params.get("notifications")
    if not isinstance(asked, Mapping):
        return params  # refused soon, with a better message
    wanted = object_in(asked)  # pyright: ignore[reportUnknownArgumentType]
    notifications = {key: True for key in WANTED if wanted.get(key) is True}
    tasks, trace = tasks_in(params), trace_in(params) or {}
    return {
        "notifications": {
            **notifications,
            "resourceSubscriptions": watched_in(params),
            **({"taskIds": tasks} if tasks else {}),
        },
        "_meta": dict(trace),
    }


def refusal_of(rejection: InboundLadderRejection) -> RpcError:
    """Return the SDK's rejection of a request as one of our errors."""
    return RpcError(rejection.code, rejection.message, rejection.data)
