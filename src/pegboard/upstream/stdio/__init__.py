"""Stdio servers: processes that are launched, used over their pipes, and never orphaned."""
