"""JSON objects, out of whatever somebody sent."""

from collections.abc import Mapping
from typing import Any, cast

__all__ = ["object_in"]

_EMPTY: Mapping[str, Any] = {}


def object_in(value: object) -> Mapping[str, Any]:
    """Return a JSON object as it is, and an empty one for anything else."""
    # In this order: nearly always it is a dict, and asking for a Mapping is slow.
    if isinstance(value, (dict, Mapping)):
        return cast("Mapping[str, Any]", value)
    return _EMPTY
