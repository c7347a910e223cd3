"""Gateway: what is answered to MCP clients, whatever wire they come by."""

from pegboard.gateway.exchange import Channel, Client, Exchange, Face, RpcError, Surface
from pegboard.gateway.gateway import Gateway
from pegboard.gateway.options import GatewayOptions, Profile
from pegboard.gateway.tenants import OpenTenant

__all__ = [
    "Channel",
    "Client",
    "Exchange",
    "Face",
    "Gateway",
    "GatewayOptions",
    "OpenTenant",
    "Profile",
    "RpcError",
    "Surface",
]
