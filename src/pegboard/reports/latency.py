"""Latency: quantiles of the durations of calls, from the buckets of a histogram."""

from collections.abc import Sequence

import msgspec

__all__ = ["Latency", "latency_of"]


class Latency(msgspec.Struct, frozen=True, kw_only=True):
    """How long calls took, in seconds; ``None`` if there was none, or if it is past all buckets."""

    calls: int
    mean: float | None
    p50: float | None
    p95: float | None


def latency_of(bounds: Sequence[float], counts: Sequence[int], total: float) -> Latency:
    """Return the latency of a histogram.

    Args:
        bounds: the upper bounds of the buckets, in seconds.
        counts: how many calls fell in each; one more than bounds, for calls past the last.
        total: the seconds of all calls together.
    """
    calls = sum(counts)
    return Latency(
        calls=calls,
        mean=total / calls if calls else None,
        p50=_quantile(bounds, counts, calls * 0.5),
        p95=_quantile(bounds, counts, calls * 0.95),
    )


def _quantile(bounds: Sequence[float], counts: Sequence[int], rank: float) -> float | None:
    """Return where a rank lies, as if the calls of a bucket were spread evenly over it."""
    lower, seen = 0.0, 0
    for upper, count in zip(bounds, counts, strict=False):
        if count and seen + count >= rank:
            return lower + (upper - lower) * (rank - seen) / count
        lower, seen = upper, seen + count
    return None
