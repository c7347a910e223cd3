"""Vectors: what tools and queries mean."""
