"""CORS: which web pages may call the gateway, and the headers that their browser needs."""

from collections.abc import Iterable

from mcp_types import INVALID_REQUEST
from starlette.types import Message

from pegboard.gateway.request import RpcError
from pegboard.server.http.host_check import HostCheck
from pegboard.server.http.request import Header, HttpRequest

__all__ = ["admit_host", "admit_page", "respond_to_preflight"]

_PREFLIGHT = [
    (b"access-control-allow-methods", b"GET, POST, DELETE, OPTIONS"),
    (b"access-control-max-age", b"600"),
]
_EXPOSED = b"mcp-session-id, mcp-protocol-version, www-authenticate, retry-after"


async def admit_host(request: HttpRequest, hosts: HostCheck) -> bool:
    """Check the ``Host`` of a request; if it is not ours, refuse it and return false."""
    if not await _comes_once(request, "Host"):
        return False
    if hosts.permits_host(request.headers.get("host", "")):
        return True
    words = "Invalid Host header: this name is not known here; see `--allow-host`."
    await request.refuse(421, RpcError(INVALID_REQUEST, words))
    return False


async def admit_page(request: HttpRequest, hosts: HostCheck) -> bool:
    """Check the ``Origin`` of a request; if it is not allowed, refuse it and return false."""
    if not await _comes_once(request, "Origin"):
        return False
    origin = request.headers.get("origin")
    if origin is None:
        return True
    if not hosts.permits_origin(origin):
        words = "Invalid Origin header: pages from there are not admitted; see `--allow-origin`."
        await request.refuse(403, RpcError(INVALID_REQUEST, words))
        return False
    _add_cors_headers(request, origin.encode("latin-1"))
    if request.method == "OPTIONS":
        await respond_to_preflight(request)
        return False
    return True


async def respond_to_preflight(request: HttpRequest, *, headers: Iterable[Header] = ()) -> None:
    """Respond to a CORS preflight that the request is allowed."""
    wanted = request.headers.get("access-control-request-headers", "*").encode("latin-1")
    allowed = (b"access-control-allow-headers", wanted)
    await request.respond(204, headers=[*_PREFLIGHT, allowed, *headers])


async def _comes_once(request: HttpRequest, name: str) -> bool:
    if not request.has_twice(name.lower()):
        return True
    # A proxy before us may have checked another one than we would.
    words = f"Invalid {name} header: it is sent once."
    await request.refuse(400, RpcError(INVALID_REQUEST, words))
    return False


def _add_cors_headers(request: HttpRequest, origin: bytes) -> None:
    send = request.send
    added = [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", _EXPOSED),
        (b"vary", b"origin"),
    ]

    async def send_to_page(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    request.send = send_to_page
