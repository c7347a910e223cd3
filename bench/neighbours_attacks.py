"""What the attacker does: each attack that was found once, as a case of `bench.neighbours`.

An attack has two halves that send as often and as much: a harmless one and the hostile one.
"""

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio

from bench.neighbours_fields import ENVELOPE, in_call, made
from bench.neighbours_gateway import START, Arena
from bench.workers.neighbour_victim import Requests

REQUEST_SIZE, REQUEST_VALUES = 3_900_000, 95_000
"""What the gateway takes of a client: 4 MiB, and 100,000 values."""


@dataclass(kw_only=True)
class Phase:
    """One half of a case: until when it lasts, and what each message cost the event loop."""

    arena: Arena
    hostile: bool
    ends: float
    costs: dict[str, float]
    said: dict[str, str]
    """The beginning of the last answer to each message."""
    sent: int = 0
    lost: int = 0
    """How many calls found no tool, because the attacker's server was gone."""
    connection: Requests | None = None

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.ends

    async def send(self, label: str, connection: Requests, request: bytes) -> tuple[int, bytes]:
        """Send a request; notes the CPU time of the loop meanwhile."""
        before = self.arena.loop_seconds()
        self.said[label] = "no answer"
        try:
            status, body = await self.arena.send(connection, request)
        finally:
            self.sent += 1
            spent = self.arena.loop_seconds() - before
            self.costs[label] = max(spent, self.costs.get(label, 0.0))
        self.said[label] = f"{status} {body[:200].decode(errors='replace')}"
        self.lost += b"No tool is named 'mcp_" in body[:300]
        return status, body

    async def pace(self, per_second: float) -> AsyncIterator[int]:
        """Count at a rate, until the phase is over."""
        due, number = time.monotonic(), 0
        while not self.is_over:
            yield number
            number += 1
            due = max(due + 1 / per_second, time.monotonic() - 1)
            await anyio.sleep(max(0.0, due - time.monotonic()))


Attack = Callable[[Phase], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One attack: its name, the finding that it repeats, and how long it may take."""

    name: str
    run: Attack
    about: str = ""
    seconds: float | None = None
    """At least so long; instead of the usual."""
    lasts: float = 0.0
    """At most so much longer, until everything has been sent once."""
    holds: frozenset[str] = frozenset()
    """What may remain afterwards, because it still has a purpose."""
    leaves: bool = False
    """Whether something remains in the store, so that a new gateway follows."""


def harmless(size: int) -> bytes:
    """The body of a harmless request with so many bytes."""
    params = {"_meta": {**ENVELOPE, "pad": ""}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params}
    text = json.dumps(body, separators=(",", ":")).encode()
    before, pad, after = text.partition(b'"pad":"')
    return before + pad + b"x" * max(0, size - len(text)) + after


def _calls(
    body: Callable[[int], tuple[str, bytes]],
    *,
    per_second: float,
    at_once: int = 1,
    key: str = "attacker",
    path: str = "/mcp-full",
) -> Attack:
    """Call a tool again and again; the harmless half sends as many bytes."""

    async def one(phase: Phase) -> None:
        connection = phase.arena.connection()
        async for number in phase.pace(per_second / at_once):
            name, content = body(number)
            if phase.hostile:
                request = phase.arena.modern(content, name=name, key=key, path=path)
            else:
                content = harmless(len(content))
                request = phase.arena.modern(content, method="tools/list", key=key)
            with suppress(OSError):
                await phase.send(name, connection, request)

    async def run(phase: Phase) -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(at_once):
                tasks.start_soon(one, phase)

    return run


def _call(name: str, arguments: bytes | dict[str, Any]) -> tuple[str, bytes]:
    text = json.dumps(arguments) if isinstance(arguments, dict) else arguments.decode()
    return name, in_call(name, text).encode()


def _items(tool: str, item: str, count: int) -> Callable[[int], tuple[str, bytes]]:
    body = b'{"items":[' + b",".join([item.encode()] * count) + b"]}"
    return lambda _: _call(tool, body)


def _register_numbers(_: int) -> tuple[str, bytes]:
    tags = made("array of numbers", REQUEST_SIZE, REQUEST_VALUES)
    return _call("register_tool", b'{"name":"x","description":"x","tags":' + tags + b"}")


def _register(number: int) -> tuple[str, bytes]:
    name = f"t{time.time_ns()}"
    # Each definition has words of its own, which a search has to know.
    known = {f"word{number}x{it}": {"type": "string", "title": f"a{it}"} for it in range(1900)}
    schema = {"type": "object", "properties": known}
    definition = {"name": name, "description": f"Do {name}.", "input_schema": schema}
    return _call("register_tool", {"tool_def": definition})


def _values(count: int) -> Callable[[int], tuple[str, bytes]]:
    item = json.dumps("x" * 110).encode()
    body = b'{"text":[' + b",".join([item] * count) + b"]}"
    return lambda _: _call("mcp_bad_echo", body)


def _answers(
    order: Mapping[str, Any], size: int, *, per_second: float, at_once: int = 1, server: str = "bad"
) -> Attack:
    """Let the attacker's server answer calls as ordered; else with a text of as many bytes."""
    name = f"mcp_{server}_hostile"
    plain = text_of(size)

    async def one(phase: Phase) -> None:
        connection = phase.arena.connection()
        body = in_call(name, json.dumps(dict(order) if phase.hostile else plain)).encode()
        async for _ in phase.pace(per_second / at_once):
            with suppress(OSError):
                await phase.send(name, connection, phase.arena.modern(body, name=name))

    async def run(phase: Phase) -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(at_once):
                tasks.start_soon(one, phase)

    return run


def text_of(size: int) -> dict[str, Any]:
    answer = {"content": [{"type": "text", "text": "@hole@"}], "resultType": "complete"}
    return {"answer": json.dumps(answer), "value": "long string", "size": size, "values": 0}


def _result(value: str, size: int, values: int) -> dict[str, Any]:
    answer = {"content": [], "structuredContent": {"x": "@hole@"}, "resultType": "complete"}
    return {"answer": json.dumps(answer), "value": value, "size": size, "values": values}


def _endless(method: str, era: str) -> Attack:
    """A list of the attacker's server that has always one more page."""

    async def run(phase: Phase) -> None:
        connection = phase.arena.connection()
        order = {"endless": True} if phase.hostile else {"answer": None}
        await phase.arena.order(era, **order, **{"for": method, "changed": True})
        params = {"_meta": ENVELOPE}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        async for _ in phase.pace(2):
            with suppress(OSError):
                await phase.send(method, connection, phase.arena.modern(body, method=method))
        await phase.arena.order(era, **{"for": method, "changed": True, "answer": None})

    return run


async def _first_search(phase: Phase) -> None:
    """Search again and again while a server lists 100,000 tools."""
    tools = 100_000 if phase.hostile else 10
    await phase.arena.order("handshake", **{"for": "tools/list", "changed": True, "tools": tools})
    body = in_call("search_tools", '{"query":"send an invoice"}').encode()
    connection = phase.arena.connection()
    async for _ in phase.pace(2):
        request = phase.arena.modern(body, name="search_tools", path="/mcp")
        with suppress(OSError):
            await phase.send("search_tools", connection, request)
    await phase.arena.order("handshake", **{"for": "tools/list", "changed": True, "answer": None})


def _flood(what: str) -> Attack:
    """The attacker's server floods its pipe."""

    async def run(phase: Phase) -> None:
        seconds = phase.ends - time.monotonic()
        order = {"how": "flood", "what": what, "seconds": seconds if phase.hostile else 0}
        connection = phase.arena.connection()
        body = in_call("mcp_pipe_hostile", json.dumps(order)).encode()
        await phase.send(what, connection, phase.arena.modern(body, name="mcp_pipe_hostile"))
        await anyio.sleep(max(0.0, phase.ends - time.monotonic()))

    return run


async def _streams(phase: Phase) -> None:
    """Thirty streams that watch a thousand resources each, opened again and again."""
    count = 1000 if phase.hostile else 1

    async def one(number: int) -> None:
        async for turn in phase.pace(0.5):
            uris = [f"bad://{number}/{turn}/{it}" for it in range(count)]
            await _listen(phase, {"resourceSubscriptions": uris}, 1.5)

    async with anyio.create_task_group() as tasks:
        for number in range(30):
            tasks.start_soon(one, number)


async def _listen(phase: Phase, wanted: dict[str, Any], seconds: float) -> None:
    params = {"notifications": wanted, "_meta": ENVELOPE}
    message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    body = json.dumps(message).encode()
    connection = phase.arena.connection()
    with suppress(OSError), anyio.move_on_after(seconds):
        request = phase.arena.modern(body, method="subscriptions/listen")
        await phase.send("subscriptions/listen", connection, request)
    if connection.transport is not None:
        connection.transport.abort()


async def _many_sessions(phase: Phase) -> None:
    """Five subjects open as many sessions as they get, and end them at last."""
    opened: list[tuple[str, str]] = []

    async def one(key: str) -> None:
        connection = phase.arena.connection()
        async for _ in phase.pace(500):
            with suppress(OSError):
                if not phase.hostile:
                    request = phase.arena.modern(harmless(400), method="tools/list", key=key)
                    await phase.send("tools/list", connection, request)
                    continue
                session = await phase.arena.open_session(connection, key=key)
                if session:
                    opened.append((key, session))

    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(one, f"subject{number}")
    phase.sent += len(opened)
    connection = phase.arena.connection()
    for key, session in opened:
        with suppress(OSError):
            await phase.arena.end_session(connection, session, key=key)


async def _many_questions(phase: Phase) -> None:
    """Sixteen subjects park as many calls as they get."""

    async def one(key: str) -> None:
        connection = phase.arena.connection()
        tool, arguments = "mcp_asks_ask", '{"seconds":4}'
        if not phase.hostile:
            tool, arguments = "mcp_bad_echo", '{"text":"xxxxxxx"}'
        body = in_call(tool, arguments).encode()
        async for _ in phase.pace(10):
            request = phase.arena.modern(body, name=tool, key=key)
            with suppress(OSError):
                await phase.send(tool, connection, request)

    async with anyio.create_task_group() as tasks:
        for number in range(16):
            tasks.start_soon(one, f"subject{number}")


def _starting(era: str) -> Attack:
    """The first request of a tenant whose servers all begin with a hostile answer."""

    async def run(phase: Phase) -> None:
        key = f"starting-{era}-{'hostile' if phase.hostile else 'harmless'}"
        connection = phase.arena.connection()
        body = harmless(400)
        async for _ in phase.pace(2):
            request = phase.arena.modern(body, method="tools/list", key=key)
            with suppress(OSError):
                await phase.send(f"{START} servers", connection, request)

    return run


async def _headers(phase: Phase) -> None:
    """Every header that the gateway reads, with as many bytes as it takes."""
    names = ("Mcp-Name", "Mcp-Method", "MCP-Protocol-Version", "Mcp-Session-Id", "Last-Event-ID",
             "traceparent", "tracestate", "baggage", "Origin", "Accept", "Content-Type",
             "X-Forwarded-For", "Cookie", "Authorization", "X-API-Key", "Mcp-Param-a")  # fmt: skip
    units = ("x", ", ", "application/json;q=0.1, ", "=?base64?", ";a=b", "\xff", "%2e", "a=b,")
    values = [unit * (60_000 // len(unit)) for unit in units]
    body = in_call("mcp_bad_echo", '{"text":"x"}').encode()
    shots = [(name, value) for name in names for value in values]
    async for number in phase.pace(25):
        name, value = shots[number % len(shots)]
        more = {name if phase.hostile else "X-Pad": value if phase.hostile else "x" * 60_000}
        head, _, rest = phase.arena.modern(body, name="mcp_bad_echo").partition(b"\r\n")
        line = "".join(f"{it}: {text}\r\n" for it, text in more.items()).encode("latin-1")
        with suppress(OSError):
            await phase.send(name, phase.arena.connection(), head + b"\r\n" + line + rest)


def named_cases() -> Iterator[Case]:
    """Each attack that was found once, in the order of issue 20."""
    item = json.dumps({"kind": "no"})
    wrong = partial(_calls, per_second=1, key="limited")
    yield Case(name="1 wrong items", run=wrong(_items("mcp_bad_strings", "1", 40_000)))
    yield Case(name="1 wrong tags", run=wrong(_register_numbers, path="/mcp"))
    yield Case(name="1 enum of 500", run=wrong(_items("mcp_bad_few", item, 30_000)), lasts=40)
    yield Case(name="1 enum of 3,000", run=wrong(_items("mcp_bad_many", item, 20_000)), lasts=40)
    for levels in (1, 2, 3):
        order = {"how": f"gzip{levels}"}
        yield Case(name=f"2 gzip of nothing × {levels}", run=_answers(order, 70_000, per_second=1))
    bomb = {"how": "bomb", "size": 1 << 28}
    yield Case(name="2 gzip of zeros", run=_answers(bomb, 300_000, per_second=1))
    large = _result("array of empty arrays", 60_000_000, 10**8)
    yield Case(name="3 60 MB of [],", run=_answers(large, 60_000_000, per_second=0.5), lasts=20)
    yield Case(
        name="3 four of them at once",
        run=_answers(large, 60_000_000, per_second=2, at_once=4),
        lasts=30,
    )
    flat = _result("array of numbers", 60_000_000, 10**8)
    yield Case(name="3 60 MB of numbers", run=_answers(flat, 60_000_000, per_second=0.5), lasts=20)
    yield Case(
        name="4 register_tool, 99 KB each",
        run=_calls(_register, per_second=60, at_once=2, key="registrar", path="/mcp"),
        seconds=10,
        leaves=True,
    )
    yield Case(name="5 sessions of five subjects", run=_many_sessions, seconds=12, lasts=20)
    yield Case(
        name="5 parked calls of sixteen",
        run=_many_questions,
        seconds=6,
        lasts=20,
        holds=frozenset({"tasks", "descriptors"}),
        leaves=True,
    )
    for method in ("tools/list", "resources/list", "prompts/list", "resources/templates/list"):
        for era in ("modern", "handshake"):
            run = _endless(method, era)
            yield Case(name=f"6 endless {method}, {era}", run=run, lasts=10, leaves=True)
    yield Case(name="7 unknown resultType", run=_answers(
        {"how": "unknown result", "size": 1_000_000}, 1_000_000, per_second=10))  # fmt: skip
    challenge = {"how": "challenge", "size": 60_000}
    yield Case(name="8 challenges", run=_answers(challenge, 60_000, per_second=5), leaves=True)
    forged = {"answer": json.dumps({
        "content": [], "resultType": "input_required", "requestState": "@hole@",
        "inputRequests": {"x": {"method": "elicitation/create", "params": {}}},
    }), "value": "long string", "size": 1_000_000, "values": 0}  # fmt: skip
    yield Case(name="9 forged questions", run=_answers(forged, 1_000_000, per_second=10,
                                                       server="pipe"))  # fmt: skip
    yield Case(
        name="12 bodies of 33,000 values", run=_calls(_values(33_000), per_second=9, at_once=3)
    )
    yield Case(name="12 streams with 1,000 watches", run=_streams, seconds=6)
    for what in ("logs", "progress", "blank lines", "not JSON", "stderr", "changes", "answers",
                 "pings"):  # fmt: skip
        yield Case(name=f"12 pipe flood: {what}", run=_flood(what))
    yield Case(
        name="12 search after 100,000 tools", run=_first_search, seconds=15, lasts=30, leaves=True
    )
    for how in ("blank lines", "empty data", "comments", "carriage returns", "ids", "events",
                "no end of line", "one byte a chunk", "many headers", "failure"):  # fmt: skip
        order = {"how": how, "size": 8_000_000}
        yield Case(name=f"SSE and HTTP: {how}", run=_answers(order, 8_000_000, per_second=2))
    yield Case(name="headers", run=_headers, seconds=6)
    for era in ("modern", "handshake"):
        holds = frozenset({"tasks", "descriptors"})
        run = _starting(era)
        yield Case(name=f"first answers, {era}", run=run, seconds=6, holds=holds, leaves=True)
