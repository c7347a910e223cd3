"""The trace of a caller goes on in ours."""

from typing import Any

import httpx2
import pytest
from opentelemetry import trace

from pegboard.gateway import ClientRequest
from pegboard.server import App, RequestPipeline
from tests.server.fake_gateway import FakeGateway
from tests.server.serving import modern_headers, modern_request, served
from tests.server.test_legacy_session import call, open_session

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
CALL = modern_request("tools/call", {"name": "echo"})


class Tracing(FakeGateway):
    """Notes in which trace it was asked."""

    async def respond(self, request: ClientRequest) -> dict[str, Any]:
        context = trace.get_current_span().get_span_context()
        self.trace = format(context.trace_id, "032x")
        return await super().respond(request)


async def traced(body: dict[str, Any], **headers: str) -> Tracing:
    gateway = Tracing()
    async with served(App(RequestPipeline(gateway))) as url, httpx2.AsyncClient() as client:
        response = await client.post(
            f"{url}/mcp", json=body, headers={**modern_headers(body), **headers}
        )
        assert response.status_code == 200
    return gateway


async def test_a_trace_in_the_request_is_continued() -> None:
    body = modern_request("tools/call", {"name": "echo"}, traceparent=PARENT)
    assert (await traced(body)).trace == TRACE


async def test_a_trace_in_the_headers_is_continued_and_passed_on() -> None:
    gateway = await traced(CALL, traceparent=PARENT, tracestate="a=b")
    assert gateway.trace == TRACE
    meta = gateway.heard[0].params["_meta"]
    assert (meta["traceparent"], meta["tracestate"]) == (PARENT, "a=b")


async def test_without_a_trace_there_is_none() -> None:
    assert (await traced(CALL)).trace == "0" * 32


async def test_a_trace_that_is_none_does_no_harm() -> None:
    for nonsense in ("x", 7, None, ["a"]):
        body = modern_request("tools/call", {"name": "echo"}, traceparent=nonsense)
        assert (await traced(body)).trace == "0" * 32


async def test_a_trace_that_is_too_long_is_dropped_and_not_written_to_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    long = {"traceparent": "0" * 513, "tracestate": "a=b," * 2049, "baggage": "k=v," * 2049}
    for field, value in long.items():
        attached = {"traceparent": PARENT, field: value}
        body = modern_request("tools/call", {"name": "echo"}, **attached)
        expected = "0" * 32 if field == "traceparent" else TRACE
        assert (await traced(body)).trace == expected
    assert caplog.records == []


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {}}])
async def test_a_trace_in_the_headers_is_continued_in_a_session_too(
    capabilities: dict[str, Any],
) -> None:
    gateway = Tracing()
    app = App(RequestPipeline(gateway))
    async with served(app) as url, httpx2.AsyncClient() as client:
        headers = await open_session(client, f"{url}/mcp", capabilities)
        sent = {**headers, "traceparent": PARENT}
        await client.post(f"{url}/mcp", json=call("echo"), headers=sent)
    assert gateway.trace == TRACE
    assert gateway.heard[-1].params["_meta"] == {"traceparent": PARENT}
