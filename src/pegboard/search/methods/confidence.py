"""Confidence: how sure a match is, and below which floor a query finds nothing.

Random letters share a few of them with some tool in any large catalogue. A query whose best hit
stays below the floor therefore gets no hits instead of bad ones.
"""

import math
from collections.abc import Mapping

import msgspec

__all__ = ["BY_BOTH", "BY_MEANING", "BY_WORDS", "SENSE", "Confidence"]


class Confidence(msgspec.Struct, frozen=True):
    """A logistic curve over the parts of a score; fitted by `training/` on sets of questions."""

    base: float
    slopes: Mapping[str, float]
    """How much each part counts."""
    floor: float
    """When nothing reaches it, nothing fits."""

    def of(self, parts: Mapping[str, float]) -> float:
        """Return the confidence, 0 to 1."""
        height = self.base + sum(slope * parts[name] for name, slope in self.slopes.items())
        return 1 / (1 + math.exp(-max(-30.0, min(30.0, height))))


BY_BOTH = Confidence(
    -4.106, {"meaning": 2.899, "words": 2.458, "coverage": 4.774, "unknown_share": -4.0}, 0.03
)

BY_MEANING = Confidence(-4.982, {"meaning": 6.552, "unknown_share": -4.0}, 0.03)

BY_WORDS = Confidence(-3.931, {"words": 0.055, "coverage": 8.466}, 0.045)

SENSE = Confidence(
    -8.197,
    {"meaning": 12.036, "words": 1.976, "coverage": 17.457, "length": 2.808, "size": -0.824},
    0.0212,
)
"""How likely a query means anything, by its best hit: among many tools, one always has a word."""
