"""Toolsets: a chosen view of the tools, in the form an agent or a model provider wants."""

from pegboard.toolsets.openai import OpenAIApi
from pegboard.toolsets.selection import Selection
from pegboard.toolsets.toolset import Toolset

__all__ = ["OpenAIApi", "Selection", "Toolset"]
