import sys

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from pegboard import Registry
from pegboard.observe import CallSpans


@pytest.fixture
def provider() -> TracerProvider:
    return TracerProvider()


@pytest.fixture
def exporter(provider: TracerProvider) -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return exporter


async def test_each_call_is_a_span_and_spans_of_the_tool_nest_inside(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    tracer = provider.get_tracer("test")

    def work(n: int) -> int:
        with tracer.start_as_current_span("inside"):
            return 10 // n

    registry = Registry(observers=[CallSpans(provider)])
    registry.register(work)
    with tracer.start_as_current_span("caller") as caller:
        assert await registry.acall("work", {"n": 5}) == 2
        assert registry.call("work", {"n": 5}) == 2
        with pytest.raises(ZeroDivisionError):
            await registry.acall("work", {"n": 0})
    spans = exporter.get_finished_spans()
    calls = [span for span in spans if span.name == "execute_tool work"]
    inside = [span for span in spans if span.name == "inside"]
    assert len(calls) == len(inside) == 3
    for call, inner in zip(calls, inside, strict=True):
        assert call.parent is not None
        assert inner.parent is not None
        assert call.context is not None
        assert call.parent.span_id == caller.get_span_context().span_id
        assert inner.parent.span_id == call.context.span_id
    attributes = dict(calls[0].attributes or {})
    assert attributes["gen_ai.tool.name"] == "work"
    assert attributes["pegboard.outcome"] == "ok"
    assert attributes["pegboard.arguments_size"] == 7
    assert calls[0].status.status_code is StatusCode.UNSET
    assert calls[2].status.status_code is StatusCode.ERROR
    assert dict(calls[2].attributes or {})["error.type"] == "ZeroDivisionError"
    assert trace.get_current_span().get_span_context().is_valid is False


async def test_two_observers_and_one_that_comes_late_write_only_onto_their_own_spans(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    tracer = provider.get_tracer("test")
    registry = Registry(observers=[CallSpans(provider), CallSpans(provider)])

    def late() -> None:
        registry.observe(CallSpans(provider))

    registry.register(late)
    with tracer.start_as_current_span("caller"):
        await registry.acall("late")
    spans = [(span.name, dict(span.attributes or {})) for span in exporter.get_finished_spans()]
    assert [(name, it.get("pegboard.outcome")) for name, it in spans] == [
        ("execute_tool late", "ok"),
        ("execute_tool late", "ok"),
        ("caller", None),
    ]


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ImportError, match=r"\[otel\]"):
        CallSpans()
