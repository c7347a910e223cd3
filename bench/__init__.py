"""Measurements against real peers: `make bench`."""
