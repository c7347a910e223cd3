"""Servers behind HTTP: one pool of connections, and failures that stay with one request."""
