"""The native validator of a schema, for those schemas whose work has an end."""

from collections.abc import Mapping
from typing import Any

import jsonschema_rs
import msgspec

from pegboard.model.schema_effort import looks_at_one_value

__all__ = ["compile_schema"]

MOST_LOOKS = 4_000
"""So many subschemas may judge one value; the richest schemas of real servers need a few dozen."""
MOST_PATTERNS = 200
"""So many regular expressions may be in one schema; each takes memory."""
_MARKS = ('"pattern', 'ef":', '"unevaluated')
"""What lets a schema make more work than its size says."""
_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=10_000, size_limit=200_000)
_encode = msgspec.json.Encoder().encode


def compile_schema(schema: Mapping[str, Any]) -> jsonschema_rs.Validator:
    """Return what checks values; once it works, it cannot be interrupted.

    Raises:
        ValueError: when it is no schema, or one whose work would have no end.
        TypeError: when it is not JSON.
        RecursionError: when it is nested too deeply.
        jsonschema_rs.ReferencingError: when it refers to something that is not in it.
    """
    # As text: the validator knows plain dicts and lists only, and ours are frozen.
    text = _encode(schema).decode()
    if any(mark in text for mark in _MARKS):
        _refuse_endless_work(schema, text)
    return jsonschema_rs.validator_for(text, offline=True, pattern_options=_PATTERNS)


def _refuse_endless_work(schema: Mapping[str, Any], text: str) -> None:
    if text.count('"pattern') > MOST_PATTERNS:
        raise ValueError(f"it has more than {MOST_PATTERNS} patterns")
    if looks_at_one_value(schema) > MOST_LOOKS:
        raise ValueError(
            f"its parts multiply, so that more than {MOST_LOOKS:,} of them judge one value"
        )
