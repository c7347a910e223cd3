"""Where things are."""

from pathlib import Path

__all__ = ["ROOT"]

ROOT = Path(__file__).parents[1]
"""The checkout."""
