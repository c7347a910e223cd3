"""However calls end: the metrics, the audit, the kept calls and the usage have the same numbers."""

import json
from collections import Counter
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from anyio.to_thread import run_sync

from pegboard import Retry, Tool
from pegboard.gateway import Client, ClientRequest, Face, RpcError
from pegboard.model import Principal
from pegboard.model.principal import ALL_SCOPES
from pegboard.observe.call_entry import CallEntry, CallFilter
from pegboard.observe.call_files import all_calls
from pegboard.observe.call_totals import CallTotals
from pegboard.observe.usage_totals import usage_report
from pegboard.server import ServeOptions, Serving, open_serving
from pegboard.storage import open_store
from pegboard.storage.open_store import calls_place
from tests.upstream.late_servers import light

ANN = Principal(subject="ann", scopes=ALL_SCOPES)
HASTY = Principal(subject="hasty", scopes=ALL_SCOPES, calls_per_minute=1)
READER = Principal(subject="reader", scopes=frozenset({"read"}))
BLUE = Principal(tenant="blue", subject="bob", scopes=ALL_SCOPES)
CONFIG: dict[str, Any] = {"mcpServers": {"light": light()}}


class Deaf:
    """A client that hears nothing."""

    can_ask = False

    async def notify(self, method: str, params: Any) -> None:
        pass

    async def ask(self, method: str, params: Any) -> dict[str, Any]:
        raise RpcError(-32601, "No client responds.")


async def call(
    serving: Serving,
    tool: str,
    principal: Principal = ANN,
    *,
    surface: Literal["search", "full"] = "full",
    **arguments: Any,
) -> dict[str, Any] | None:
    """Call a tool; an error of the protocol is no result."""
    face = Face(surface=surface)
    info = {"name": "tester"}
    client = Client(principal=principal, era="modern", version="2026-07-28", face=face, info=info)
    params = {"name": tool, "arguments": arguments}
    request = ClientRequest(method="tools/call", params=params, client=client, channel=Deaf())
    try:
        return await serving.pipeline.respond(request)
    except RpcError:
        return None


async def make_calls(serving: Serving) -> Counter[str]:
    """Make calls that end in every way, and return how many ended in which."""
    attempts = Counter[str]()
    hanging = anyio.Event()

    def answer(number: int) -> int:
        return number

    def broken() -> None:
        raise ValueError("It is broken.")

    def flaky() -> str:
        attempts["flaky"] += 1
        if attempts["flaky"] == 1:
            raise ValueError("Not yet.")
        return "now"

    async def hang() -> None:
        hanging.set()
        await anyio.sleep_forever()

    board = serving.hub.registry
    board.register_many([answer, broken, hang])
    board.register(flaky, retry=Retry(2, idempotent=["flaky"], initial=0))
    await run_sync(board.register, Tool(name="later", description="It has no code yet."))
    for number in range(3):
        await call(serving, "answer", number=number)
    await call(serving, "mcp_light_echo", text="hi")
    await call(serving, "flaky")
    await call(serving, "broken")
    await call(serving, "answer", number="none")
    await call(serving, "later")
    await call(serving, "no_such_tool")
    await call(serving, "answer", HASTY, number=1)
    await call(serving, "answer", HASTY, number=2)
    await call(serving, "answer", READER, number=1)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call, serving, "hang")
        await hanging.wait()
        tasks.cancel_scope.cancel()
    for sent in (
        {"name": "answer", "arguments": "{bad json"},
        {"name": "answer", "arguments": {}, "more": 1},
        {"name": "no_such_tool", "more": 1},
        {"arguments": {}},
    ):
        await call(serving, "call_tool", ANN, surface="search", **sent)
    return Counter(ok=6, raised=1, refused=9, cancelled=1)


def in_metrics(page: str) -> Counter[str]:
    found = Counter[str]()
    for line in page.splitlines():
        if line.startswith("pegboard_calls_total{"):
            found[line.partition('outcome="')[2].partition('"')[0]] += int(float(line.split()[-1]))
    return found


@pytest.fixture
def url(tmp_path: Path) -> str:
    return str(tmp_path / "it.db")


def used(url: str) -> Counter[str]:
    place = calls_place(url)
    assert place is not None

    def since(first: date) -> Any:
        return CallTotals(place).of("default", first, partial(all_calls, place))

    with open_store(url) as store:
        report = usage_report(store, days=2, calls=since)
    assert all(it.calls_ever >= it.calls for it in report)
    found = Counter[str]()
    for it in report:
        found["failed"] += it.failed
        found["ok"] += it.calls - it.failed
    return found


async def test_every_source_of_numbers_has_the_same(url: str) -> None:
    async with open_serving(ServeOptions(config=CONFIG, storage=url)) as serving:
        with anyio.fail_after(30):
            await serving.startup.run()
            wanted = await make_calls(serving)
        metrics = serving.pipeline.metrics
        assert in_metrics((await metrics.page()).decode()) == wanted
        assert sum((Counter(it) for it in metrics.calls().values()), Counter()) == wanted
        assert serving.calls is not None
        kept = await run_sync(serving.calls.find, CallFilter(limit=1000))
        assert Counter(it.outcome for it in kept) == wanted
        records = await run_sync(serving.audit.records)
        audited = Counter[str]()
        for it in records:
            if it.action == "tools/call":
                audited[it.outcome] += it.count
        others = wanted.total() - wanted["ok"] - wanted["refused"]
        assert audited == Counter(done=wanted["ok"], refused=wanted["refused"], failed=others)
    found = await run_sync(used, url)
    assert found == Counter(ok=wanted["ok"], failed=wanted.total() - wanted["ok"])


async def found_for(serving: Serving, **wanted: Any) -> CallEntry:
    assert serving.calls is not None
    [found] = await run_sync(serving.calls.find, CallFilter(**wanted))
    return found


async def test_a_call_says_who_called_and_where_its_time_went(url: str) -> None:
    config = {**CONFIG, "gateway": {"max_result_chars": 50, "result_cache_on_full": True}}
    async with open_serving(ServeOptions(config=config, storage=url)) as serving:
        with anyio.fail_after(30):
            await serving.startup.run()
            serving.hub.registry.register(long)
            await call(serving, "mcp_light_echo", text="hi")
            await call(serving, "long")
            await call(serving, "absent")
        sent = await found_for(serving, server="light")
        assert (sent.tool, sent.caller, sent.client) == ("mcp_light_echo", "ann", "tester")
        assert (sent.outcome, sent.attempts, bytes(sent.arguments)) == ("ok", 1, b"")
        assert sent.phases is not None
        assert 0 < sent.phases.at_server <= sent.seconds
        cut = await found_for(serving, tool="long")
        assert cut.phases is not None
        assert 0 < cut.phases.caching <= cut.seconds
        absent = await found_for(serving, failed=True)
        assert (absent.tool, absent.error_code, absent.attempts) == ("absent", "not_found", 0)


async def test_arguments_and_results_are_kept_only_where_recording_is_switched_on(
    url: str,
) -> None:
    recording = {"record_arguments": True, "record_results": True}
    config = {**CONFIG, "gateway": recording}
    async with open_serving(ServeOptions(config=config, storage=url)) as serving:
        with anyio.fail_after(30):
            await serving.startup.run()
            await call(serving, "mcp_light_echo", text="hi")
        found = await found_for(serving)
        assert json.loads(bytes(found.arguments)) == {"text": "hi"}
        assert json.loads(bytes(found.result))["content"][0]["text"] == "hi"


async def test_a_call_that_cannot_be_read_is_kept_under_the_name_of_the_tool_it_was_for(
    url: str,
) -> None:
    async with open_serving(ServeOptions(config=CONFIG, storage=url)) as serving:
        with anyio.fail_after(30):
            await serving.startup.run()
            sent = {"name": "mcp_light_echo", "arguments": "{bad json"}
            await call(serving, "call_tool", ANN, surface="search", **sent)
        kept = await found_for(serving)
        assert (kept.tool, kept.outcome, kept.error_code) == (
            "mcp_light_echo",
            "refused",
            "invalid_arguments",
        )


async def test_a_tenant_has_its_own_calls(url: str) -> None:
    async with open_serving(ServeOptions(config={"mcpServers": {}}, storage=url)) as serving:
        await serving.startup.run()
        await call(serving, "mine")
        await call(serving, "theirs", BLUE)
        assert (await found_for(serving, tenant="blue")).tool == "theirs"
        assert (await found_for(serving, tenant="default")).tool == "mine"


def long() -> str:
    """Return more than is shown."""
    return "word " * 100
