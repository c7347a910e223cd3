"""Metrics: counters, histograms and gauges of the gateway, in the format of Prometheus."""

import importlib
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

import anyio.to_thread

from pegboard.model import CallRecord
from pegboard.policies.access import METHODS
from pegboard.policies.fair_share import LimitUse
from pegboard.reports.latency import Latency, latency_of

__all__ = ["Gauge", "Metrics"]

BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""The upper bounds of the histogram buckets, in seconds."""

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"

Labels = tuple[str, ...]
Gauge = Callable[[], Mapping[Labels, float]]
"""Read at every scrape: values by their labels."""

_METHODS = frozenset(
    {
        *("initialize", "logging/setLevel", "ping", "server/discover"),
        *(it for it in METHODS if "/" in it),
    }
)


class Metrics:
    """Counts by server and outcome, never by tool: there are thousands of tools.

    It counts in plain numbers; the Prometheus library is imported at the first scrape.
    """

    def __init__(self) -> None:
        self._requests: defaultdict[Labels, int] = defaultdict(int)
        self._request_times: defaultdict[Labels, _Histogram] = defaultdict(_Histogram)
        self._calls: defaultdict[Labels, int] = defaultdict(int)
        self._call_times: defaultdict[Labels, _Histogram] = defaultdict(_Histogram)
        self._refused: defaultdict[Labels, int] = defaultdict(int)
        self.stalls: dict[str, int] = {}
        """How often the event loop was busy for too long, by place."""
        self._gauges: list[tuple[str, str, Labels, Gauge]] = []
        self._limits: list[Callable[[], Iterable[LimitUse]]] = []
        used = "How much of a limit is used up"
        self.watch("limit_used", f"{used}.", ("limit",), self._by_limit("used"))
        self.watch("limit_most", "How much of it there is.", ("limit",), self._by_limit("limit"))
        largest = self._by_limit("largest_used")
        self.watch("limit_largest_used", f"{used} by the largest holder.", ("limit",), largest)

    def watch_limits(self, read: Callable[[], Iterable[LimitUse]]) -> None:
        """Add limits, which are read at every scrape and for `pegboard status`."""
        self._limits.append(read)

    def limits(self) -> list[LimitUse]:
        """Return how much is used up of each limit."""
        return [it for read in self._limits for it in read()]

    def _by_limit(self, field: str) -> Gauge:
        return lambda: {(it.name,): float(getattr(it, field)) for it in self.limits()}

    def watch(self, name: str, words: str, labels: Labels, gauge: Gauge) -> None:
        """Add a gauge, which is read at every scrape."""
        self._gauges.append((name, words, labels, gauge))

    def note_request(self, method: str, outcome: str, seconds: float) -> None:
        """Count a request of a client."""
        method = method if method in _METHODS else "other"
        self._requests[method, outcome] += 1
        self._request_times[method,].add(seconds)

    def note_call(self, record: CallRecord) -> None:
        """Count a call; its server must exist, as each is a label."""
        server = record.server or ""
        self._calls[server, record.outcome] += 1
        self._call_times[server,].add(record.duration)

    def calls(self) -> dict[str, dict[str, int]]:
        """Return how many calls ended in which way, by server; ``""`` for tools without one."""
        found: dict[str, dict[str, int]] = {}
        for (server, outcome), number in self._calls.items():
            found.setdefault(server, {})[outcome] = number
        return found

    def latencies(self) -> dict[str, Latency]:
        """Return how long calls took, by server; ``""`` for tools without one."""
        return {
            server: latency_of(BOUNDS, it.counts, it.total)
            for (server,), it in self._call_times.items()
        }

    def note_refusal(self, reason: str) -> None:
        """Count a request whose sender was not authenticated."""
        self._refused[reason,] += 1

    def note_stall(self, place: str) -> None:
        """Count a stretch of the event loop that took too much CPU time."""
        self.stalls[place] = self.stalls.get(place, 0) + 1

    async def page(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return await anyio.to_thread.run_sync(_write, self._families())

    def _families(self) -> list["_Family"]:
        """Return all values as they are now, for a thread to format."""
        refused = "Requests whose sender was not let in."
        # A copy, made at once: the thread of the watchdog adds to it.
        counted = self.stalls.copy()
        stalls = "Stretches of work on the event loop that took too much CPU time."
        return [
            _Family("requests", "Requests of clients.", ("method", "outcome"), {**self._requests}),
            _Family("calls", "Calls of tools.", ("server", "outcome"), {**self._calls}),
            _Family("authentication_refusals", refused, ("reason",), {**self._refused}),
            _Family(
                "loop_stalls",
                stalls,
                ("place",),
                {(it,): count for it, count in counted.items()},
            ),
            _timed("request_seconds", "Time to answer a request.", "method", self._request_times),
            _timed("call_seconds", "Time of a call of a tool.", "server", self._call_times),
            *(
                _Family(name, words, labels, gauge(), kind="gauge")
                for name, words, labels, gauge in self._gauges
            ),
        ]


class _Family(NamedTuple):
    name: str
    words: str
    labels: Labels
    values: Mapping[Labels, Any]
    kind: Literal["counter", "gauge", "histogram"] = "counter"


def _timed(name: str, words: str, label: str, values: "Mapping[Labels, _Histogram]") -> _Family:
    parts = {key: (it.buckets(), it.total) for key, it in values.items()}
    return _Family(name, words, (label,), parts, kind="histogram")


def _write(families: list[_Family]) -> bytes:
    # It takes a third of a second to import, and only a scrape needs it.
    library: Any = importlib.import_module("prometheus_client")
    registry = library.CollectorRegistry(auto_describe=False)
    registry.register(_Collector(families))
    library.ProcessCollector(registry=registry)
    library.GCCollector(registry=registry)
    return library.generate_latest(registry)


class _Collector:
    def __init__(self, families: list[_Family]) -> None:
        self._families = families

    def collect(self) -> Iterator[Any]:
        core: Any = importlib.import_module("prometheus_client.core")
        kinds = {
            "counter": core.CounterMetricFamily,
            "gauge": core.GaugeMetricFamily,
            "histogram": core.HistogramMetricFamily,
        }
        for it in self._families:
            family = kinds[it.kind](f"pegboard_{it.name}", it.words, labels=it.labels)
            for labels, value in it.values.items():
                family.add_metric(labels, *(value if it.kind == "histogram" else (value,)))
            yield family


class _Histogram:
    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def buckets(self) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        count = 0
        for bound, more in zip((*map(str, BOUNDS), "+Inf"), self.counts, strict=True):
            count += more
            found.append((bound, count))
        return found
