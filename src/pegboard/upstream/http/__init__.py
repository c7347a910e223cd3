"""Servers behind HTTP: one connection pool, and failures that end only one request."""
