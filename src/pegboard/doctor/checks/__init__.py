"""Checks of what needs no running server: configuration, definitions, store."""
