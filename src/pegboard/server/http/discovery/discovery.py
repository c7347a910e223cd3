"""Discovery: which requests are for the registry or the server card, and who may send them."""

from collections.abc import Awaitable, Callable
from typing import Self

from pegboard.auth import AuthSettings
from pegboard.gateway import GatewayOptions
from pegboard.model.principal import Principal
from pegboard.policies.access import holds
from pegboard.server.http.discovery.mcp_registry import McpRegistry
from pegboard.server.http.discovery.public_address import PublicAddress
from pegboard.server.http.discovery.registry_api import PREFIX, Approved, RegistryApi
from pegboard.server.http.discovery.server_card import CARD_PATHS, ServerCard
from pegboard.server.http.request import HttpRequest

__all__ = ["Discovery"]

Serve = Callable[[HttpRequest], Awaitable[None]]


class Discovery:
    """What the gateway publishes about itself; without any of it, there is no such object.

    Args:
        registry: serves the registry, if that is switched on.
        card: serves the server card, if that is switched on.
    """

    def __init__(self, registry: RegistryApi | None, card: ServerCard | None) -> None:
        self._registry = registry
        self._card = card

    @classmethod
    def of(
        cls, options: GatewayOptions, settings: AuthSettings, *, approved: Approved
    ) -> Self | None:
        """Return what the settings switch on; ``None`` if that is nothing."""
        name, namespace = options.name, options.registry_namespace
        address = PublicAddress(settings, name=name, namespace=namespace)
        registry = card = None
        if options.registry != "off":
            registry = RegistryApi(
                McpRegistry(address, name),
                address,
                approved,
                is_public=options.registry == "public",
                per_minute=options.registry_requests,
            )
        if options.server_card:
            card = ServerCard(address, name)
        return None if registry is None and card is None else cls(registry, card)

    def takes(self, request: HttpRequest) -> bool:
        """Tell whether a request is for something that is published here."""
        path = request.scope["path"]
        if path.startswith(PREFIX):
            return self._registry is not None
        return path in CARD_PATHS and self._card is not None and self._card.takes(request)

    def find_public(self, request: HttpRequest) -> Serve | None:
        """Return what serves a request of any client and any web page; ``None`` if nothing does."""
        if not request.scope["path"].startswith(PREFIX):
            return None if self._card is None else self._card.serve
        registry = self._registry
        return registry.serve if registry is not None and registry.admits(request) else None

    def find(self, principal: Principal) -> Serve | None:
        """Return what serves an authenticated caller; ``None`` if it lacks the scope ``read``."""
        registry = self._registry
        return registry.serve if registry is not None and holds(principal, "read") else None
