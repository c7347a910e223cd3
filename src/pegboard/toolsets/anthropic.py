"""Definitions for Anthropic.

Rules: https://platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use; its API
also refuses alternatives at the root, references, and odd property names.
"""

from typing import Any

from pegboard.toolsets.combining import Schema

__all__ = ["anthropic_definition"]


def anthropic_definition(name: str, description: str, *, parameters: Schema) -> dict[str, Any]:
    """Return a tool as Anthropic's API takes it."""
    return {"name": name, "description": description, "input_schema": parameters}
