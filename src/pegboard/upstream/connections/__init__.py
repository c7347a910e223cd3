"""Connections to one server: stateful, stateless, or one for each client."""
