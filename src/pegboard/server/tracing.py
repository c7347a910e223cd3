"""Tracing: OpenTelemetry trace context of a client, continued here and sent to servers."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast

from opentelemetry import context, propagate, trace

from pegboard.gateway.request import TRACE_LIMITS, object_in

__all__ = ["continued", "trace_in", "with_current_trace", "with_trace"]

_FIELDS = tuple(TRACE_LIMITS)


def trace_in(params: Mapping[str, Any]) -> Mapping[str, str] | None:
    """Return the trace context that a request carries, if it carries one."""
    meta = params.get("_meta")
    if not isinstance(meta, dict) or "traceparent" not in meta:
        return None
    said = cast("dict[str, Any]", meta)
    # What is too long is dropped: OpenTelemetry would write it to the log as it is.
    found = {key: said.get(key) for key in _FIELDS}
    return {
        key: it for key, it in found.items() if isinstance(it, str) and len(it) <= TRACE_LIMITS[key]
    }


def with_trace(params: Mapping[str, Any], headers: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the params with the trace context from the headers of their request."""
    if "traceparent" not in headers or trace_in(params) is not None:
        return params
    said = {key: headers[key] for key in _FIELDS if key in headers}
    return {**params, "_meta": {**object_in(params.get("_meta")), **said}}


def with_current_trace(params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the params of a request to a client with the trace context of the running request."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return {**params, "_meta": {**object_in(params.get("_meta")), **carrier}} if carrier else params


@contextmanager
def continued(carrier: Mapping[str, str], method: str) -> Generator[None]:
    """Run the block as a span of the caller's trace."""
    mark = context.attach(propagate.extract(carrier))
    try:
        tracer = trace.get_tracer("pegboard")
        with tracer.start_as_current_span(method, kind=trace.SpanKind.SERVER):
            yield
    finally:
        context.detach(mark)
