"""Checks that start no server: configuration, tool definitions, names, duplicates, store."""
