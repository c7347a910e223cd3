"""Arguments that a model writes in another form than the schema wants."""

from typing import Any

import anyio
import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pegboard import Registry
from pegboard.gateway import Gateway, RpcError
from pegboard.gateway.calls.corrections import CORRECTED, IGNORED, Corrector
from pegboard.model import ArgumentSchema, CallRecord
from pegboard.model.json_limits import MOST_LEVELS, MOST_VALUES
from pegboard.model.principal import LOCAL, Principal
from pegboard.policies import Telemetry
from pegboard.server import App, HttpAuthenticator, RequestPipeline
from pegboard.upstream import Era
from tests.auth.test_matrix_of_wires import wires
from tests.gateway.clients import FULL, Caller, text_of
from tests.gateway.servers import hub
from tests.server.serving import served
from tests.upstream.board_servers import Bench, memory

ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "country": {"type": "string"},
        "grams": {"type": "integer", "minimum": 1},
        "price": {"type": "number"},
        "note": {"type": ["string", "null"]},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "fast": {"type": "boolean"},
        "level": {"enum": [1, 2, 3]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "box": {
            "type": "object",
            "properties": {"wide": {"type": "integer"}},
            "additionalProperties": {"type": "integer"},
        },
    },
    "required": ["country"],
    "additionalProperties": False,
}


def post() -> Bench:
    """A server with a tool that returns its arguments."""
    made = Bench(send=lambda arguments: msgspec.json.encode(arguments).decode())
    made.schemas["send"] = SCHEMA
    return made


NAME = "mcp_post_send"
NO = {"country": "NO"}
UNDERSTOOD: list[tuple[dict[str, Any], dict[str, Any], list[tuple[str, str, str]]]] = [
    ({"arguments": '{"country": "NO"}'}, NO, [("arguments", "text", "object")]),
    ({"country": "NO"}, NO, [("country", "beside name", "in arguments")]),
    (
        {"arguments": {"country": "NO"}, "grams": 5},
        {**NO, "grams": 5},
        [("grams", "beside name", "in arguments")],
    ),
    (
        {"arguments": "null", "country": "NO"},
        NO,
        [("arguments", "text", "object"), ("country", "beside name", "in arguments")],
    ),
    ({"arguments": "", "country": "NO", "grams": "5"}, {**NO, "grams": 5}, []),
    (
        {"arguments": {**NO, "box": {"wide": 1}}, "box": {"wide": 1}},
        {**NO, "box": {"wide": 1}},
        [("box", "beside name", "in arguments")],
    ),
    (
        {"arguments": {**NO, "grams": "250"}},
        {**NO, "grams": 250},
        [("arguments.grams", "text", "number")],
    ),
    ({"arguments": {**NO, "price": " 2.5 "}}, {**NO, "price": 2.5}, []),
    ({"arguments": {**NO, "limit": "3"}}, {**NO, "limit": 3}, []),
    ({"arguments": {**NO, "level": "3"}}, {**NO, "level": 3}, []),
    ({"arguments": {**NO, "fast": "true"}}, {**NO, "fast": True}, []),
    (
        {"arguments": {**NO, "limit": "null"}},
        {**NO, "limit": None},
        [("arguments.limit", "text", "null")],
    ),
    ({"arguments": {**NO, "grams": "null"}}, NO, [("arguments.grams", "text", "left out")]),
    ({"arguments": {**NO, "grams": None}}, NO, [("arguments.grams", "null", "left out")]),
    ({"arguments": {**NO, "tags": '["a", "5"]'}}, {**NO, "tags": ["a", "5"]}, []),
    (
        {"arguments": {**NO, "box": {"wide": "4"}}},
        {**NO, "box": {"wide": 4}},
        [("arguments.box.wide", "text", "number")],
    ),
    (
        {"arguments": '{"country": "NO", "grams": "2", "box": "{\\"wide\\": \\"3\\"}"}'},
        {**NO, "grams": 2, "box": {"wide": 3}},
        [],
    ),
]
REFUSED: list[dict[str, Any]] = [
    {"arguments": {"grams": "250"}},
    {"arguments": {**NO, "grams": "0"}},
    {"arguments": {**NO, "grams": "many"}},
    {"arguments": {**NO, "grams": "2.5"}},
    {"arguments": {**NO, "grams": "007"}},
    {"arguments": {**NO, "grams": '"5"'}},
    {"arguments": {**NO, "price": "NaN"}},
    {"arguments": {"country": None}},
    {"arguments": {"country": "NO", "box": {"high": None}}},
    {"arguments": {"country": 5}},
    {"arguments": {**NO, "colour": "red"}},
    {"arguments": {**NO}, "colour": "red"},
    {"arguments": {**NO}, "country": "SE"},
    {"arguments": {**NO, "grams": True}, "grams": 1},
    {"arguments": {**NO, "fast": 1}, "fast": True},
    {"arguments": {**NO, "box": {"wide": False}}, "box": {"wide": 0}},
    {"arguments": "{"},
    {"arguments": "[1]"},
    {"arguments": '"{}"'},
    {"arguments": ["NO"]},
    {"country": "NO", "reason": "because"},
]


@ERAS
@pytest.mark.parametrize(("sent", "taken", "told"), UNDERSTOOD)
async def test_a_call_is_understood_and_its_result_says_what_was_corrected(
    era: Era, sent: dict[str, Any], taken: dict[str, Any], told: list[tuple[str, str, str]]
) -> None:
    async with hub(memory("post", post())) as it, Gateway(it) as gateway:
        result = await Caller(gateway, era).call("call_tool", name=NAME, **sent)
    assert not result["isError"]
    assert msgspec.json.decode(text_of(result)) == taken
    noted = [tuple(correction.values()) for correction in result["_meta"][CORRECTED]]
    assert noted == told if told else noted


@ERAS
@pytest.mark.parametrize("sent", REFUSED)
async def test_what_would_still_be_refused_is_not_corrected(era: Era, sent: Any) -> None:
    made = post()
    async with hub(memory("post", made)) as it, Gateway(it) as gateway:
        result = await Caller(gateway, era).call("call_tool", name=NAME, **sent)
    assert result["isError"]
    assert text_of(result).startswith("Invalid arguments for tool ")
    assert "It is called like this: " in text_of(result)
    assert CORRECTED not in result.get("_meta", {})
    assert made.calls == []


@ERAS
@pytest.mark.parametrize(
    "sent",
    [
        {"arguments": {"timezone": "a", "zone": "b"}},
        {"arguments": '{"timezone": "a", "zone": "b"}'},
    ],
)
async def test_an_argument_that_the_tool_does_not_have_is_passed_on_and_noted(
    era: Era, sent: dict[str, Any]
) -> None:
    made = post()
    made.schemas["send"] = {"type": "object", "properties": {"timezone": {"type": "string"}}}
    async with hub(memory("post", made)) as it, Gateway(it) as gateway:
        result = await Caller(gateway, era).call("call_tool", name=NAME, **sent)
        full = await Caller(gateway, era, face=FULL).call(NAME, timezone="a", zone="b")
        plain = await Caller(gateway, era).call("call_tool", name=NAME, arguments={"timezone": "a"})
    assert msgspec.json.decode(text_of(result)) == {"timezone": "a", "zone": "b"}
    assert result["_meta"][IGNORED] == ["arguments.zone"]
    assert IGNORED not in full.get("_meta", {})
    assert IGNORED not in plain.get("_meta", {})


@pytest.mark.parametrize("more", [{"additionalProperties": True}, {"anyOf": [{}]}])
async def test_an_argument_of_a_schema_that_may_take_others_is_not_noted(
    more: dict[str, Any],
) -> None:
    made = post()
    made.schemas["send"] = {"type": "object", "properties": {"timezone": {}}, **more}
    async with hub(memory("post", made)) as it, Gateway(it) as gateway:
        result = await Caller(gateway).call("call_tool", name=NAME, arguments={"zone": "b"})
    assert IGNORED not in result.get("_meta", {})


async def test_the_original_error_is_told_and_not_that_of_a_half_corrected_call() -> None:
    async with hub(memory("post", post())) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        result = await caller.call("call_tool", name=NAME, arguments={"grams": "250"})
        assert '`grams`: expected integer, got string "250"' in text_of(result)
        result = await caller.call("call_tool", name=NAME, grams=5)
        assert "unknown argument `grams`; known are `name`, `arguments`" in text_of(result)
        assert f"The tool takes: {NAME}(country: string" in text_of(result)
        result = await caller.call("call_tool", name="mcp_post_sent", country="NO")
        assert "unknown argument `country`" in text_of(result)


async def test_observers_see_one_call_with_the_corrected_arguments() -> None:
    records: list[CallRecord] = []
    registry = Registry(telemetry=Telemetry([records.append], arguments=True))
    async with hub(memory("post", post()), registry=registry) as it, Gateway(it) as gateway:
        sent = {"arguments": '{"country": "NO", "grams": "5"}'}
        await Caller(gateway).call("call_tool", name=NAME, **sent)
    [record] = records
    assert record.outcome == "ok"
    assert record.arguments == {"country": "NO", "grams": 5}


@ERAS
async def test_nothing_is_corrected_on_the_full_surface(era: Era) -> None:
    made = post()
    async with hub(memory("post", made)) as it, Gateway(it) as gateway:
        caller = Caller(gateway, era, face=FULL)
        refused = await caller.call(NAME, country="NO", grams="5")
        assert refused["isError"]
        with pytest.raises(RpcError):
            await caller.send("tools/call", name=NAME, arguments='{"country": "NO"}')
        with pytest.raises(RpcError):
            await caller.call("call_tool", name=NAME, country="NO")
    assert made.calls == []


async def test_a_tool_without_validation_gets_what_was_sent() -> None:
    registry = Registry(validation=None)
    async with hub(memory("post", post()), registry=registry) as it, Gateway(it) as gateway:
        result = await Caller(gateway).call("call_tool", name=NAME, arguments={"grams": "5"})
    assert msgspec.json.decode(text_of(result)) == {"grams": "5"}


async def test_a_tool_that_a_caller_may_not_see_says_nothing_of_its_arguments() -> None:
    other = Principal(subject="o", scopes=frozenset({"call"}), servers=("calc",))
    async with hub(memory("post", post())) as it, Gateway(it) as gateway:
        result = await Caller(gateway, principal=other).call("call_tool", name=NAME, foo="x")
    assert "country" not in text_of(result)
    assert result["isError"]


class Anyone:
    async def authenticate(self, credential: str | None) -> Principal:
        return LOCAL


async def test_clients_of_both_eras_are_understood_over_http() -> None:
    async with (
        hub(memory("post", post())) as it,
        Gateway(it) as gateway,
        served(App(RequestPipeline(gateway), authenticator=HttpAuthenticator(Anyone()))) as url,
        wires(url, "any", "search") as connected,
    ):
        arguments = {"name": NAME, "arguments": '{"country": "NO", "grams": "5"}'}
        for wire in connected.values():
            with anyio.fail_after(10):
                message = await wire.send(
                    "tools/call", {"name": "call_tool", "arguments": arguments}
                )
            assert msgspec.json.decode(text_of(message["result"])) == {**NO, "grams": 5}
            assert message["result"]["_meta"][CORRECTED] == [
                {"argument": "arguments", "was": "text", "now": "object"},
                {"argument": "arguments.grams", "was": "text", "now": "number"},
            ]


NESTED = "[" * (MOST_LEVELS - 3) + "]" * (MOST_LEVELS - 3)
LARGE = f"[{'1,' * MOST_VALUES}1]"
OPEN = ArgumentSchema(
    {"type": "object", "properties": {it: {"type": "array"} for it in ("a", "b")}}, tool="t"
)


@pytest.mark.parametrize(
    "sent",
    [
        {"a": NESTED},
        {"a": "[" * 100_000},
        {"a": LARGE},
        {"a": LARGE[len(LARGE) // 2 :].replace("1", "[1", 1), "b": f"[{'1,' * 60_000}1]"},
        {"a": f"[{'1' * 100_000}]"},
    ],
)
def test_json_in_texts_has_the_limits_of_a_request(sent: dict[str, Any]) -> None:
    assert Corrector().fitting(sent, OPEN) is None


def test_json_in_a_text_within_the_limits_is_read() -> None:
    nested = NESTED[2:-2]
    found = Corrector().fitting({"a": nested, "b": "[1]"}, OPEN)
    assert found is not None
    assert found[0] == {"a": msgspec.json.decode(nested), "b": [1]}


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 9)
    | st.text(max_size=5)
    | st.sampled_from(["null", "5", "2.5", "true", "[]", "{}", '{"wide": "1"}', "NO"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)
ARGUMENTS = st.dictionaries(st.sampled_from([*SCHEMA["properties"], "other"]), VALUES, max_size=5)


@settings(max_examples=100, deadline=None)
@given(sent=ARGUMENTS)
@example(sent={"country": None, "grams": None, "box": {"0": None}})
async def test_a_valid_call_is_never_altered_and_a_corrected_one_is_valid(
    sent: dict[str, Any],
) -> None:
    """The law of corrections, through a gateway, for any arguments of the tool."""
    schema = ArgumentSchema(SCHEMA, tool="send", fills_defaults=False)
    before = msgspec.json.encode(sent)
    seen: list[dict[str, Any]] = []

    def send(arguments: dict[str, Any]) -> str:
        seen.append(arguments)
        return "sent"

    registry = Registry()
    made = Bench(send=send)
    made.schemas["send"] = SCHEMA
    async with hub(memory("post", made), registry=registry) as it, Gateway(it) as gateway:
        result = await Caller(gateway).call("call_tool", name=NAME, arguments=sent)
    assert msgspec.json.encode(sent) == before
    if schema.accepts(sent):
        assert seen == [sent]
        assert CORRECTED not in result["_meta"]
    elif seen:
        assert schema.accepts(seen[0])
        assert result["_meta"][CORRECTED]
    else:
        assert result["isError"]
        assert CORRECTED not in result["_meta"]
