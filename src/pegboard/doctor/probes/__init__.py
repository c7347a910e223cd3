"""Probes: start a server, reach its address, and explain why that failed."""
