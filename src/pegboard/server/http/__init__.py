"""The HTTP side of the gateway: routes, eras, limits, authentication."""
