"""JSON Schema: compiled once, checked, and filled in."""
