"""What is counted, for Prometheus."""

import anyio
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pegboard import CallRecord
from pegboard.errors import ServerNotFoundError
from pegboard.observe.call_reporter import CallReporter
from pegboard.server import Metrics


async def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    page = (await metrics.page()).decode()
    return {
        (it.name, tuple(sorted(it.labels.items()))): it.value
        for family in text_string_to_metric_families(page)
        for it in family.samples
    }


async def test_requests_are_counted_by_method_and_outcome() -> None:
    metrics = Metrics()
    for outcome in ("ok", "ok", "error"):
        metrics.note_request("tools/call", outcome, 0.02)
    found = await samples(metrics)
    labels = (("method", "tools/call"), ("outcome", "ok"))
    assert found["pegboard_requests_total", labels] == 2
    method = ("method", "tools/call")
    assert found["pegboard_request_seconds_count", (method,)] == 3
    assert found["pegboard_request_seconds_bucket", (("le", "0.025"), method)] == 3
    assert found["pegboard_request_seconds_bucket", (("le", "0.01"), method)] == 0
    assert found["pegboard_request_seconds_sum", (method,)] == pytest.approx(0.06)


@pytest.mark.parametrize(
    "method", ["initialize", "tasks/get", "skills/list", "resources/directory/read"]
)
async def test_each_method_of_the_gateway_has_its_own_label(method: str) -> None:
    metrics = Metrics()
    metrics.note_request(method, "ok", 0.0)
    found = await samples(metrics)
    assert found["pegboard_requests_total", (("method", method), ("outcome", "ok"))] == 1


async def test_methods_that_nobody_knows_share_a_label() -> None:
    metrics = Metrics()
    for number in range(1000):
        metrics.note_request(f"nonsense/{number}", "error", 0.0)
    found = await samples(metrics)
    labels = (("method", "other"), ("outcome", "error"))
    assert found["pegboard_requests_total", labels] == 1000


async def test_calls_are_counted_by_server_and_never_by_tool() -> None:
    metrics = Metrics()
    for tool in ("a", "b"):
        metrics.note_call(CallRecord(tool, 0.0, 70.0, "timeout", server="files"))
    found = await samples(metrics)
    assert found["pegboard_calls_total", (("outcome", "timeout"), ("server", "files"))] == 2
    assert found["pegboard_call_seconds_bucket", (("le", "60.0"), ("server", "files"))] == 0
    assert found["pegboard_call_seconds_bucket", (("le", "+Inf"), ("server", "files"))] == 2


async def test_a_call_of_a_server_that_does_not_exist_makes_no_label() -> None:
    metrics = Metrics()

    def find(server: str) -> None:
        raise ServerNotFoundError(server, known=[])

    observe = CallReporter(metrics.note_call).observer(find)
    observe(CallRecord("a", 0.0, 1.0, "refused", server="made up"))
    found = await samples(metrics)
    assert found["pegboard_calls_total", (("outcome", "refused"), ("server", ""))] == 1
    assert "made up" not in str(found)


async def test_gauges_are_looked_at_when_somebody_asks() -> None:
    metrics = Metrics()
    now = {("a",): 1.0}
    metrics.watch("things", "Things.", ("kind",), lambda: now)
    now["b",] = 2.0
    found = await samples(metrics)
    assert found["pegboard_things", (("kind", "b"),)] == 2


async def test_pages_can_be_written_while_everything_goes_on() -> None:
    metrics = Metrics()
    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(metrics.page)
            metrics.note_refusal(str(number))
            await anyio.lowlevel.checkpoint()
