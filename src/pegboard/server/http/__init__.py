"""The HTTP side of the gateway: routes, both eras, limits, authentication, CORS."""
