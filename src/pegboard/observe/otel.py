"""OpenTelemetry tracing: an observer that opens one span per call (extra ``pegboard[otel]``)."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from pegboard.errors.extras import install_extra
from pegboard.model import CallRecord, ToolCall

__all__ = ["CallSpans"]


class CallSpans:
    """An observer that surrounds each call with a span, so that the tool's own spans nest inside.

    Attribute names follow OpenTelemetry's conventions for generative AI where these exist.
    Pegboard needs only the API package; the application decides what is exported, and where.
    """

    def __init__(self, tracer_provider: Any = None) -> None:
        try:
            from opentelemetry import trace  # noqa: PLC0415
        except ImportError as error:
            raise ImportError(
                f"Spans need OpenTelemetry: install it with `{install_extra('otel')}`."
            ) from error
        self._trace = trace
        self._tracer = trace.get_tracer("pegboard", tracer_provider=tracer_provider)
        self._span: ContextVar[Any] = ContextVar("pegboard_span", default=None)

    @contextmanager
    def around(self, call: ToolCall, /) -> Generator[None]:
        """Open a span for the duration of the call."""
        with self._tracer.start_as_current_span(
            f"execute_tool {call.tool.name}",
            attributes={
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": call.tool.name,
            },
            # Messages of exceptions may quote arguments.
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            mark = self._span.set(span)
            try:
                yield
            finally:
                self._span.reset(mark)

    def __call__(self, record: CallRecord, /) -> None:
        """Set the outcome of the call on its span."""
        span = self._span.get()
        if span is None:  # the call began before this observer was added
            return
        span.set_attribute("pegboard.outcome", record.outcome)
        span.set_attribute("pegboard.attempts", record.attempts)
        optional = {
            "error.type": record.error_code,
            "pegboard.server": record.server,
            "pegboard.arguments_size": record.arguments_size,
            "pegboard.result_size": record.result_size,
            "pegboard.cost": record.cost,
        }
        for name, value in optional.items():
            if value is not None:
                span.set_attribute(name, value)
        if record.outcome != "ok":
            span.set_status(self._trace.StatusCode.ERROR, record.error_code)
