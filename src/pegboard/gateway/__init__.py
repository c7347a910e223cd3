"""Gateway: one MCP endpoint in front of many servers, independent of the transport.

The package imports a name when it is first used. Some modules need no MCP SDK, and commands that
use only those start faster.
"""

from typing import TYPE_CHECKING

from pegboard.lazy_names import Listing, Lookup, lazy_names

if TYPE_CHECKING:
    from pegboard.gateway.gateway import Gateway
    from pegboard.gateway.options import GatewayOptions, Profile
    from pegboard.gateway.request import Channel, Client, ClientRequest, Face, RpcError, Surface
    from pegboard.gateway.tenants import OpenTenant

__all__ = [
    "Channel",
    "Client",
    "ClientRequest",
    "Face",
    "Gateway",
    "GatewayOptions",
    "OpenTenant",
    "Profile",
    "RpcError",
    "Surface",
]

_HOMES = {
    "Channel": "request",
    "Client": "request",
    "ClientRequest": "request",
    "Face": "request",
    "Gateway": "gateway",
    "GatewayOptions": "options",
    "OpenTenant": "tenants",
    "Profile": "options",
    "RpcError": "request",
    "Surface": "request",
}

__getattr__: Lookup
__dir__: Listing
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
