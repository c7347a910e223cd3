"""What the audit keeps of requests: each act once, by whom, and what became of it."""

import json
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import pytest
from anyio.to_thread import run_sync

from pegboard.gateway import Face, Gateway, RpcError
from pegboard.model.principal import LOCAL, Principal, Scope
from pegboard.observe import Audit
from pegboard.server import App, HttpAuthenticator, RequestPipeline
from pegboard.server.request_pipeline import RATE_LIMITED
from pegboard.testing import Memory
from pegboard.upstream import Era
from tests.gateway.clients import FULL, Caller
from tests.gateway.servers import Stall, hub
from tests.server.asgi import ask
from tests.server.fake_gateway import FakeGateway
from tests.server.serving import modern_headers, modern_request
from tests.upstream.board_servers import Bench, memory

ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])
READER = Principal(tenant="default", subject="ann", scopes=frozenset({"read"}))
PROMPT, URI = "mcp_shop_greet", "shop+note://one"
COMPLETE: dict[str, Any] = {
    "ref": {"type": "ref/prompt", "name": PROMPT},
    "argument": {"name": "who", "value": "y"},
}
NEW = {"name": "sow_seeds", "description": "Sow seeds in a garden."}


def answer() -> int:
    """Tell the answer."""
    return 42


class Audited:
    """A gateway with its pipeline and an audit."""

    def __init__(self, gateway: Gateway, audit: Audit) -> None:
        self.gateway = gateway
        self.audit = audit
        self.pipeline = RequestPipeline(gateway, audit=audit)

    async def send(self, caller: Caller, method: str, /, **params: Any) -> None:
        """Ask for something; whatever is answered is fine."""
        with suppress(RpcError):
            await self.pipeline.respond(caller.exchange(method, **params))

    async def call(self, caller: Caller, tool: str, /, **arguments: Any) -> None:
        await self.send(caller, "tools/call", name=tool, arguments=arguments)

    async def acts(self) -> Counter[tuple[str, str, str, str]]:
        """Return how often which action had which outcome, why, on what."""
        found: Counter[tuple[str, str, str, str]] = Counter()
        for it in await run_sync(self.audit.records):
            found[it.action, it.outcome, it.reason, it.target] += it.count
        return found


@asynccontextmanager
async def audited() -> AsyncGenerator[Audited]:
    """Serve a shop with a prompt and resources, and a tool of this process."""
    async with hub(Stall().config("shop")) as board, Gateway(board) as gateway:
        with Memory().open() as store:
            audit = Audit(store)
            board.registry.register(answer)
            board.registry.observe(audit)
            yield Audited(gateway, audit)
            await run_sync(audit.close)


@ERAS
async def test_what_is_refused_for_lack_of_a_scope_is_in_the_audit(era: Era) -> None:
    async with audited() as here:
        reader = Caller(here.gateway, era, principal=READER)
        await here.call(reader, "answer")
        await here.call(reader, "call_tool", name="answer")
        await here.call(Caller(here.gateway, era, principal=READER, face=FULL), "answer")
        await here.call(reader, "register_tool", **NEW)
        await here.call(reader, "register_tool", tool_def=NEW)
        await here.call(reader, "unregister_tool", tool_name="sow_seeds")
        await here.send(reader, "resources/read", uri=URI)
        await here.send(reader, "prompts/get", name=PROMPT)
        await here.send(reader, "completion/complete", **COMPLETE)
        refused = ("refused", "access_denied")
        assert await here.acts() == {
            ("tools/call", *refused, "answer"): 3,
            ("register_tool", *refused, "sow_seeds"): 2,
            ("unregister_tool", *refused, "sow_seeds"): 1,
            ("resources/read", *refused, URI): 1,
            ("prompts/get", *refused, PROMPT): 1,
            ("completion/complete", *refused, PROMPT): 1,
        }
        whose = {(it.tenant, it.subject) for it in await run_sync(here.audit.records)}
        assert whose == {("default", "ann")}


@ERAS
async def test_what_is_used_and_registered_is_in_the_audit_once(era: Era) -> None:
    async with audited() as here:
        caller = Caller(here.gateway, era)
        await here.call(caller, "answer")
        await here.call(caller, "call_tool", name="answer")
        await here.call(caller, "register_tool", **NEW)
        await here.call(caller, "unregister_tool", tool_name="sow_seeds")
        await here.send(caller, "resources/read", uri=URI)
        await here.send(caller, "prompts/get", name=PROMPT, arguments={"who": "you"})
        await here.send(caller, "completion/complete", **COMPLETE)
        assert await here.acts() == {
            ("tools/call", "done", "", "answer"): 2,
            ("register_tool", "done", "", "sow_seeds"): 1,
            ("unregister_tool", "done", "", "sow_seeds"): 1,
            ("resources/read", "done", "", URI): 1,
            ("prompts/get", "done", "", PROMPT): 1,
            ("completion/complete", "done", "", PROMPT): 1,
        }
        records = await run_sync(here.audit.records)
        assert {it.subject for it in records} == {LOCAL.subject}
        assert all(it.duration is not None for it in records)


async def watch(here: Audited, caller: Caller, *uris: str) -> str:
    """Watch resources, as a client of its era does; return the code of what went wrong."""
    failure = ""
    if caller.client.era == "legacy":
        for uri in uris:
            try:
                await here.pipeline.respond(caller.exchange("resources/subscribe", uri=uri))
            except RpcError as error:
                failure = str(error.code)
        return failure
    wanted = {"resourceSubscriptions": list(uris)}
    exchange = caller.exchange("subscriptions/listen", notifications=wanted)

    async def listen(scope: anyio.CancelScope) -> None:
        nonlocal failure
        try:
            await here.pipeline.respond(exchange)
        except RpcError as error:
            failure = str(error.code)
            scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(listen, group.cancel_scope)
        await caller.wire.next("notifications/subscriptions/acknowledged")
        group.cancel_scope.cancel()
    return failure


@ERAS
async def test_each_resource_that_is_watched_is_in_the_audit(era: Era) -> None:
    missing = "shop+note://absent"
    stranger = Principal(subject="n", scopes=frozenset({"call"}), servers=("other",))
    async with audited() as here:
        await watch(here, Caller(here.gateway, era), URI, "shop+note://two", "registry://stats")
        await watch(here, Caller(here.gateway, era, principal=READER), URI, missing)
        await watch(here, Caller(here.gateway, era, principal=stranger), URI)
        not_found = "-32602" if era == "modern" else "-32002"
        assert await here.acts() == {
            ("resources/subscribe", "done", "", URI): 1,
            ("resources/subscribe", "done", "", "shop+note://two"): 1,
            ("resources/subscribe", "done", "", "registry://stats"): 1,
            ("resources/subscribe", "refused", "access_denied", URI): 1,
            ("resources/subscribe", "refused", "access_denied", missing): 1,
            ("resources/subscribe", "failed", not_found, URI): 1,
        }


@ERAS
async def test_each_resource_that_is_watched_counts_as_a_call(era: Era) -> None:
    hasty = Principal(subject="ann", scopes=frozenset({"call"}), calls_per_minute=2)
    two = "shop+note://two"
    async with audited() as here:
        caller = Caller(here.gateway, era, principal=hasty)
        assert await watch(here, caller, URI, two) == ""
        assert await watch(here, caller, URI) == "-32011"
        await here.call(caller, "answer")
        assert await here.acts() == {
            ("resources/subscribe", "done", "", URI): 1,
            ("resources/subscribe", "done", "", two): 1,
            ("resources/subscribe", "refused", "rate_limited", URI): 1,
            ("tools/call", "refused", "rate_limited", "answer"): 1,
        }


async def test_whoever_listens_for_lists_only_or_goes_on_listening_uses_no_call() -> None:
    busy = Principal(
        subject="ann", scopes=frozenset({"call"}), calls_per_minute=1, concurrent_calls=1
    )
    async with audited() as here:
        caller = Caller(here.gateway, principal=busy)
        for _ in range(3):
            assert await watch(here, caller) == ""
        wanted = {"resourceSubscriptions": [URI]}
        exchange = caller.exchange("subscriptions/listen", notifications=wanted)
        async with anyio.create_task_group() as group:
            group.start_soon(here.pipeline.respond, exchange)
            await caller.wire.next("notifications/subscriptions/acknowledged")
            other = Principal(subject="ann", scopes=busy.scopes, concurrent_calls=1)
            await here.call(Caller(here.gateway, principal=other), "answer")
            group.cancel_scope.cancel()
        assert await here.acts() == {
            ("resources/subscribe", "done", "", URI): 1,
            ("tools/call", "done", "", "answer"): 1,
        }


@ERAS
async def test_a_refusal_for_lack_of_a_scope_uses_a_call(era: Era) -> None:
    hasty = Principal(subject="ann", scopes=frozenset({"read"}), calls_per_minute=3)
    async with audited() as here:
        caller = Caller(here.gateway, era, principal=hasty)
        await here.call(caller, "answer")
        await watch(here, caller, URI, "shop+note://two")
        search = caller.exchange("tools/call", name="search_tools", arguments={"query": "answer"})
        with pytest.raises(RpcError) as caught:
            await here.pipeline.respond(search)
        assert caught.value.code == RATE_LIMITED


@ERAS
async def test_the_tool_of_a_server_is_no_act_of_the_gateway_whatever_it_is_called(
    era: Era,
) -> None:
    caller_only = Principal(subject="ann", scopes=frozenset({"call"}))
    bare = Bench(register_tool=lambda _: "of a server")
    with Memory().open() as store:
        audit = Audit(store)
        async with hub(memory("bare", bare, prefix="")) as board, Gateway(board) as gateway:
            board.registry.observe(audit)
            here = Audited(gateway, audit)
            for face in (FULL, Face()):
                caller = Caller(gateway, era, principal=caller_only, face=face)
                await here.call(caller, "register_tool", **NEW)
            await here.call(caller, "call_tool", name="register_tool", arguments=NEW)
            assert await here.acts() == {
                ("tools/call", "done", "", "register_tool"): 2,
                ("register_tool", "refused", "access_denied", "sow_seeds"): 1,
            }
        await run_sync(audit.close)
    assert bare.calls == ["register_tool"] * 2


@ERAS
async def test_what_does_not_work_is_in_the_audit_with_a_reason(era: Era) -> None:
    async with audited() as here:
        caller = Caller(here.gateway, era)
        await here.send(caller, "resources/read", uri="shop+note://nothing")
        await here.send(caller, "prompts/get", name=5, uri=URI)
        await here.call(caller, "unregister_tool", tool_name="nothing")
        assert await here.acts() == {
            ("resources/read", "failed", "protocol", "shop+note://nothing"): 1,
            ("prompts/get", "failed", "-32602", ""): 1,
            ("unregister_tool", "failed", "tool_error", "nothing"): 1,
        }


@ERAS
async def test_a_registration_outside_of_the_patterns_of_a_key_is_a_refusal(era: Era) -> None:
    scopes: frozenset[Scope] = frozenset({"read", "register"})
    limited = Principal(subject="ann", scopes=scopes, servers=("garden",))
    async with audited() as here:
        caller = Caller(here.gateway, era, principal=limited)
        await here.call(caller, "register_tool", **NEW)
        await here.call(caller, "register_tool", **NEW, mcp_server="shop")
        await here.call(caller, "register_tool", **NEW, mcp_server="garden")
        assert await here.acts() == {
            ("register_tool", "refused", "access_denied", "sow_seeds"): 2,
            ("register_tool", "done", "", "sow_seeds"): 1,
        }


@ERAS
async def test_lists_and_searches_are_not_in_the_audit(era: Era) -> None:
    async with audited() as here:
        caller = Caller(here.gateway, era)
        for method in ("tools/list", "resources/list", "prompts/list"):
            await here.send(caller, method)
        await here.call(caller, "search_tools", query="answer")
        await here.call(caller, "get_tool_definition", tool_name="answer")
        await here.send(caller, "tools/call", name=["odd"])
        assert await here.acts() == {}


async def test_calls_over_the_limit_are_told_with_the_tool_they_were_for() -> None:
    hasty = Principal(subject="ann", scopes=frozenset({"call"}), calls_per_minute=1)
    async with audited() as here:
        caller = Caller(here.gateway, principal=hasty)
        await here.call(caller, "answer")
        await here.call(caller, "answer")
        await here.call(caller, "call_tool", name="answer")
        await here.call(caller, "search_tools", query="answer")
        await here.send(caller, "tools/call", name=5)
        assert await here.acts() == {
            ("tools/call", "done", "", "answer"): 1,
            ("tools/call", "refused", "rate_limited", "answer"): 2,
            ("search_tools", "refused", "rate_limited", ""): 1,
            ("tools/call", "refused", "rate_limited", ""): 1,
        }


class AnyReader:
    """Authenticates all callers as one reader."""

    async def authenticate(self, credential: str | None) -> Principal:
        return READER


@pytest.mark.parametrize(
    ("method", "params", "action", "target"),
    [
        ("tools/call", {"name": "echo"}, "tools/call", "echo"),
        ("tools/call", {"name": "register_tool", "arguments": NEW}, "register_tool", "sow_seeds"),
        ("resources/read", {"uri": "note://one"}, "resources/read", "note://one"),
    ],
)
async def test_a_request_that_http_forbids_is_in_the_audit(
    method: str, params: dict[str, Any], action: str, target: str
) -> None:
    with Memory().open() as store:
        audit = Audit(store)
        app = App(
            RequestPipeline(FakeGateway(), audit=audit),
            authenticator=HttpAuthenticator(AnyReader()),
        )
        body = modern_request(method, params)
        headers = {"host": "127.0.0.1", **modern_headers(body)}.items()
        async with app.open():
            answered = await ask(app, json.dumps(body).encode(), headers=headers)
        assert answered.status == 403
        [record] = await run_sync(audit.records)
        await run_sync(audit.close)
    assert (record.action, record.target, record.subject) == (action, target, "ann")
    assert (record.outcome, record.reason) == ("refused", "access_denied")
