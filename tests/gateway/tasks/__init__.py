"""Tasks of the gateway."""
