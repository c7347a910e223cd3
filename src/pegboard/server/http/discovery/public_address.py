"""PublicAddress: the address and the reverse-DNS names under which clients find this gateway."""

import hashlib
import ipaddress
import re
from typing import Any
from urllib.parse import quote, urlsplit

from mcp_types import INVALID_REQUEST

from pegboard.auth import AuthSettings
from pegboard.gateway.request import RpcError
from pegboard.server.http.request import HttpRequest
from pegboard.server.http.routes import route_of

__all__ = ["PublicAddress"]

_LONGEST_LABEL = 90
"""With the longest namespace and a digest, a name stays below the 200 characters of the schema."""
_LONGEST_NAMESPACE = 100
_HOST = re.compile(r"(?:[A-Za-z0-9._-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?")
_ILLEGAL = re.compile(r"[^A-Za-z0-9._-]+")
_LABEL = re.compile(r"[A-Za-z0-9-]+")


class PublicAddress:
    """Where this gateway and each of its servers are reached, and what they are called there.

    Args:
        settings: its ``resource`` is the address; without it, each client is told the address that
            it used itself.
        name: the name of the gateway.
        namespace: what all names begin with; by default it is made of the address or the name.
    """

    def __init__(self, settings: AuthSettings, *, name: str, namespace: str = "") -> None:
        self._base = None if settings.resource is None else _above_endpoint(settings.resource)
        self._namespace = namespace or _namespace_of(settings.resource, name)
        self.name: str = f"{self._namespace}/{_legal(name, 'gateway')}"
        """The name of the gateway itself."""
        self._headers = _headers_of(settings)

    @property
    def is_configured(self) -> bool:
        """Whether all clients are told the same address, so that a cache may keep it for them."""
        return self._base is not None

    def base(self, request: HttpRequest) -> str:
        """Return the address above all endpoints, without a slash at its end.

        Raises:
            RpcError: when it is not configured, and the request does not name it either.
        """
        if self._base is not None:
            return self._base
        host = request.headers.get("host", "")
        if not _HOST.fullmatch(host):
            raise RpcError(INVALID_REQUEST, "Send a `Host` header with the address of this server.")
        return f"{request.scope.get('scheme', 'http')}://{host}"

    def name_of(self, server: str) -> str:
        """Return the name of a server, which stays the same whatever other servers there are."""
        name = f"{self._namespace}/{_legal(server, 'server')}"
        return name if name != self.name else f"{name}-{_digest(server)}"

    def path_of(self, server: str) -> str | None:
        """Return the path of a server's own endpoint; ``None`` if none leads to it."""
        route = route_of(f"/mcp-full/{server}", "full")
        # Clients resolve a path with dots to another path.
        has_one = route is not None and route.face.group == server and server not in (".", "..")
        return f"/mcp-full/{quote(server, safe='')}" if has_one else None

    def remote(self, url: str, **more: Any) -> dict[str, Any]:
        """Return how a client connects to an endpoint of this gateway."""
        headers = {"headers": self._headers} if self._headers else {}
        return {"type": "streamable-http", "url": url, **headers, **more}


def _above_endpoint(resource: str) -> str:
    address = resource.rstrip("/")
    above, _, last = address.rpartition("/")
    is_endpoint = bool(urlsplit(address).path) and route_of(f"/{last}", "full") is not None
    return above if is_endpoint else address


def _namespace_of(resource: str | None, name: str) -> str:
    host = urlsplit(resource or "").hostname or ""
    labels = host.rstrip(".").split(".")
    is_domain = len(labels) > 1 and all(_LABEL.fullmatch(it) for it in labels)
    if is_domain and len(host) <= _LONGEST_NAMESPACE and not _is_address(host):
        return ".".join(reversed(labels))
    return "local." + (
        _ILLEGAL.sub("-", name[:_LONGEST_LABEL]).replace("_", "-").strip("-.") or "x"
    )


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _legal(name: str, otherwise: str) -> str:
    """Return a name in the characters of the schema; a digest keeps changed names apart."""
    legal = _ILLEGAL.sub("-", name)[:_LONGEST_LABEL].strip("-.")
    return legal if legal == name else f"{legal or otherwise}-{_digest(name)}"


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _headers_of(settings: AuthSettings) -> list[dict[str, Any]]:
    """Return the headers that a person is asked for; an OAuth login needs none."""
    if not settings.keys or settings.issuers:
        return []
    key = {"description": "Your key of this gateway.", "isRequired": True, "isSecret": True}
    header = {"name": "Authorization", "value": "Bearer {key}", "isRequired": True}
    return [{**header, "isSecret": True, "variables": {"key": key}}]
