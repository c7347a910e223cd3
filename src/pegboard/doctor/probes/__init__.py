"""Probes: start a server or connect to its address, and explain why that failed."""
