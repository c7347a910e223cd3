"""Python functions as tools: signature, types and docstring."""
