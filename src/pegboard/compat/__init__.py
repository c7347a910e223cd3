"""Adapters for the APIs of five design documents, each a thin layer over the core."""
