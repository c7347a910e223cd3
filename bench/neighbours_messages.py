"""A message for every field and every hostile value, in groups that `bench.neighbours` runs."""

import json
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import anyio

from bench.neighbours_attacks import (
    REQUEST_SIZE,
    REQUEST_VALUES,
    Attack,
    Case,
    Phase,
    harmless,
    text_of,
)
from bench.neighbours_fields import (
    ENVELOPE,
    SAMPLES,
    VALUES,
    Field,
    Fields,
    answer_fields,
    in_call,
    made,
    reply_fields,
    request_fields,
    sent_fields,
    tool_fields,
)
from bench.neighbours_gateway import Arena
from bench.workers.neighbour_victim import Requests

ANSWER_SIZE, ANSWER_VALUES = 4_000_000, 1_000_000
PER_SECOND = 15
"""How many messages are sent a second, at most."""
FEWEST_FIELDS = 40
"""Methods with fewer fields share a case."""
QUESTIONS: dict[str, dict[str, Any]] = {
    "elicitation/create": {"message": "x", "requestedSchema": {"type": "object", "properties": {}}},
    "sampling/createMessage": {"messages": [], "maxTokens": 1},
}
_ELSEWHERE = {
    ("modern", "server/discover"),
    ("modern", "subscriptions/listen"),
    ("handshake", "initialize"),
}
"""Answers at the start of a server have cases of their own; a listening has no answer."""

Shoot = Callable[[Phase, str, str, Field, str], Awaitable[None]]
"""Sends one message: the phase, its era and method, the field, and the name of the value."""


def field_cases(builtin: Iterable[Mapping[str, Any]]) -> Iterator[Case]:
    """The cases of all fields of the protocol, and of the arguments of the gateway's own tools."""
    fields = Fields()
    tools = {("modern", it["name"]): tool_fields(it, fields) for it in builtin}
    answers = {it: found for it, found in answer_fields(fields).items() if it not in _ELSEWHERE}
    replies = {("handshake", it): found for it, found in reply_fields(fields).items()}
    yield from _grouped("field of requests", request_fields(fields), _request, _large_request)
    yield from _grouped("argument", tools, _argument, _large_request)
    yield from _grouped("field of answers", answers, _answer, _large_answer)
    yield from _grouped("field sent by a server", sent_fields(fields), _sent_before, _large_answer)
    yield from _grouped("field of replies", replies, _reply, _large_request)


def _grouped(
    kind: str,
    found: Mapping[tuple[str, str], list[Field]],
    shoot: Shoot,
    plain: Callable[[Arena], bytes],
) -> Iterator[Case]:
    """Join methods with few fields, so that the whole takes minutes."""
    for era in dict.fromkeys(it for it, _ in found):
        methods = [it for of_era, it in found if of_era == era]
        groups: list[list[str]] = [[]]
        count = 0
        for method in methods:
            if count >= FEWEST_FIELDS:
                groups.append([])
                count = 0
            groups[-1].append(method)
            count += len(found[era, method])
        for group in groups:
            shots = [
                (
                    f"{method} {it.path}: {value}",
                    partial(shoot, era=era, method=method, field=it, value=value),
                )
                for method in group
                for it in found[era, method]
                for value in it.hostile(VALUES)
            ]
            if not shots:
                continue
            words = " ".join(group) if len(group) < 4 else f"{group[0]} … {group[-1]}"
            yield Case(
                name=f"{kind}, {era}: {words}",
                run=_fire(shots, plain),
                about=f"{len({id(it) for method in group for it in found[era, method]})} fields, "
                f"{len(shots)} messages",
                lasts=75,
                # A list without tools would leave the next case without its server.
                leaves=kind == "field of answers",
            )


def _fire(shots: list[tuple[str, Any]], plain: Callable[[Arena], bytes]) -> Attack:
    """Send every message once, and again until the time is over."""

    async def run(phase: Phase) -> None:
        gives_up = phase.ends + 70
        # What is hostile is sent once in any case, so the phase takes longer if there is much.
        if phase.hostile:
            phase.ends = max(phase.ends, time.monotonic() + len(shots) / PER_SECOND)
        request, connection = plain(phase.arena), phase.arena.connection()
        async for turn in phase.pace(PER_SECOND):
            if time.monotonic() > gives_up:
                break
            label, shoot = shots[turn % len(shots)]
            with suppress(OSError):
                if phase.hostile:
                    await shoot(phase, label)
                else:
                    await phase.send(label, connection, request)

    return run


def _large_request(place: Arena) -> bytes:
    return place.modern(harmless(REQUEST_SIZE), method="tools/list")


def _large_answer(place: Arena) -> bytes:
    name = "mcp_bad_hostile"
    return place.modern(in_call(name, json.dumps(text_of(ANSWER_SIZE))).encode(), name=name)


def _connection(phase: Phase) -> Requests:
    """The one connection that the messages of a phase share."""
    if phase.connection is None or phase.connection not in phase.arena.opened:
        phase.connection = phase.arena.connection()
    return phase.connection


async def _within(phase: Phase, label: str, request: bytes, seconds: float) -> int:
    """Send a request; leave the connection when the answer does not come in time."""
    with anyio.move_on_after(seconds):
        status, _ = await phase.send(label, _connection(phase), request)
        return status
    phase.arena.close(_connection(phase))
    return 0


async def _request(
    phase: Phase, label: str, *, era: str, method: str, field: Field, value: str
) -> None:
    body = field.filled(made(value, REQUEST_SIZE, REQUEST_VALUES))
    if era == "modern":
        sample = SAMPLES.get(method, {})
        name = sample.get("uri" if method == "resources/read" else "name")
        request = phase.arena.modern(body, method=method, name=name)
        seconds = 0.3 if method == "subscriptions/listen" else 60
        await _within(phase, label, request, seconds)
    elif method == "initialize":
        await _within(phase, label, phase.arena.without_session(body), 60)
        connection = _connection(phase)
        if connection.session:
            session, connection.session = connection.session, ""
            await phase.arena.end_session(connection, session, key="attacker")
    elif await _within(phase, label, await phase.arena.handshake(body), 60) == 404:
        phase.arena.sessions.clear()


async def _argument(
    phase: Phase, label: str, *, era: str, method: str, field: Field, value: str
) -> None:
    body = field.filled(made(value, REQUEST_SIZE, REQUEST_VALUES))
    request = phase.arena.modern(body, name=method, key="registrar", path="/mcp")
    await _within(phase, label, request, 60)


async def _answer(
    phase: Phase, label: str, *, era: str, method: str, field: Field, value: str
) -> None:
    """Let the server of the attacker answer a request with something hostile."""
    order = {"answer": field.message, "value": value, "size": ANSWER_SIZE, "values": ANSWER_VALUES}
    server = "bad" if era == "modern" else "pipe"
    if method == "tools/call":
        name = f"mcp_{server}_hostile"
        body = in_call(name, json.dumps(order)).encode()
        await _within(phase, label, phase.arena.modern(body, name=name), 60)
        return
    await phase.arena.order(era, **order, **{"for": method, "once": True, "changed": True})
    params = json.loads(json.dumps(SAMPLES.get(method, {})).replace("mcp_bad", f"mcp_{server}"))
    message = {"jsonrpc": "2.0", "id": 1, "method": method}
    if era == "handshake":
        body = json.dumps({**message, "params": params}).encode()
        await _within(phase, label, await phase.arena.handshake(body), 60)
        return
    body = json.dumps({**message, "params": {**params, "_meta": ENVELOPE}}).encode()
    name = params.get("uri" if method == "resources/read" else "name")
    await _within(phase, label, phase.arena.modern(body, method=method, name=name), 60)


async def _sent_before(
    phase: Phase, label: str, *, era: str, method: str, field: Field, value: str
) -> None:
    """Let the server of the attacker send something hostile before it answers."""
    name = "mcp_bad_hostile" if era == "modern" else "mcp_pipe_hostile"
    order: dict[str, Any] = {"before": [field.message], "value": value, "size": ANSWER_SIZE}
    order |= {"values": ANSWER_VALUES} | ({"how": "events"} if era == "modern" else {})
    body = in_call(name, json.dumps(order)).encode()
    await _within(phase, label, phase.arena.modern(body, name=name), 2)


async def _reply(
    phase: Phase, label: str, *, era: str, method: str, field: Field, value: str
) -> None:
    """Let the server ask, and reply with something hostile."""
    asked = {"jsonrpc": "2.0", "id": 5, "method": method, "params": QUESTIONS.get(method, {})}
    call = {"name": "mcp_pipe_hostile", "arguments": {"before": [json.dumps(asked)], "waits": True}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    asking = phase.arena.connection()
    request = await phase.arena.handshake(json.dumps(message).encode())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(phase.arena.send, asking, request)
        number = await _question_in(asking, method)
        head = json.dumps({"jsonrpc": "2.0", "id": number})[:-1].encode()
        result = field.filled(made(value, REQUEST_SIZE, REQUEST_VALUES))
        body = head + b',"result":' + result + b"}"
        await _within(phase, label, await phase.arena.handshake(body), 5)
        tasks.cancel_scope.cancel()
    phase.arena.close(asking)


async def _question_in(asking: Requests, method: str) -> object:
    """The id of a question, once it has come."""
    with anyio.move_on_after(1):
        while f'"{method}"'.encode() not in asking.body:  # noqa: ASYNC110 - the parser sets no event
            await anyio.sleep(0.002)
        for line in bytes(asking.body).split(b"data: ")[1:]:
            with suppress(ValueError):
                return json.loads(line.splitlines()[0]).get("id", 5)
    return 5
