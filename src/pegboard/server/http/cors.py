"""CORS: which web pages may call the gateway, and the headers that their browser needs."""

from collections.abc import Iterable

from mcp_types import INVALID_REQUEST
from starlette.types import Message

from pegboard.gateway.request import RpcError
from pegboard.server.http.host_check import HostCheck
from pegboard.server.http.request import Header, HttpRequest

__all__ = ["admit_page", "open_to_any_page", "respond_to_preflight"]

_PREFLIGHT = [
    (b"access-control-allow-methods", b"GET, POST, DELETE, OPTIONS"),
    (b"access-control-max-age", b"600"),
]
_EXPOSED = b"mcp-session-id, mcp-protocol-version, www-authenticate, retry-after"


async def admit_page(request: HttpRequest, hosts: HostCheck) -> bool:
    """Check the ``Origin`` of a request; if it is not allowed, refuse it and return false."""
    if await request.refuse_repeated("Origin"):
        return False
    origin = request.headers["origin"]
    if not hosts.permits_origin(origin):
        words = "Invalid Origin header: pages from there are not admitted; see `--allow-origin`."
        await request.refuse(403, RpcError(INVALID_REQUEST, words))
        return False
    _add_cors_headers(request, origin.encode("latin-1"), _EXPOSED)
    if request.method == "OPTIONS":
        await respond_to_preflight(request)
        return False
    return True


def open_to_any_page(request: HttpRequest) -> None:
    """Let every web page read the response, which must not depend on who asks."""
    _add_cors_headers(request, b"*", b"etag, retry-after")


async def respond_to_preflight(request: HttpRequest, *, headers: Iterable[Header] = ()) -> None:
    """Respond to a CORS preflight that the request is allowed."""
    wanted = request.headers.get("access-control-request-headers", "*").encode("latin-1")
    allowed = (b"access-control-allow-headers", wanted)
    await request.respond(204, headers=[*_PREFLIGHT, allowed, *headers])


def _add_cors_headers(request: HttpRequest, origin: bytes, exposed: bytes) -> None:
    send = request.send
    added = [
        (b"access-control-allow-origin", origin),
        (b"access-control-expose-headers", exposed),
        (b"vary", b"origin"),
    ]

    async def send_to_page(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *added]}
        await send(message)

    request.send = send_to_page
