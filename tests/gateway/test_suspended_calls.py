from typing import Any

import anyio
import pytest

from pegboard.gateway import ClientRequest, Gateway, GatewayOptions, RpcError
from pegboard.gateway.calls.suspended_calls import SuspendedCalls
from pegboard.model.principal import Principal
from tests.gateway.clients import FULL, Caller, text_of
from tests.gateway.servers import Stall, hub
from tests.upstream.board_servers import until

YES = {"action": "accept", "content": {"word": "blue"}}
NAME = "mcp_desk_ask"


def asking(gateway: Gateway, **more: Any) -> Caller:
    return Caller(gateway, face=FULL, elicitation={}, **more)


async def answered(caller: Caller, asked: dict[str, Any], **more: Any) -> dict[str, Any]:
    responses = dict.fromkeys(asked["inputRequests"], YES)
    params = {"inputResponses": responses, "requestState": asked["requestState"], **more}
    return await caller.send("tools/call", **{"name": NAME, "arguments": {}, **params})


def is_invalid(error: RpcError) -> bool:
    return error.code == -32602 and error.data == {"reason": "invalid_request_state"}


async def test_a_modern_client_is_asked_by_a_server_that_pushes() -> None:
    stall = Stall()
    async with hub(stall.config("desk", protocol="legacy")) as it, Gateway(it) as gateway:
        caller = asking(gateway)
        asked = await caller.call(NAME)
        assert asked["resultType"] == "input_required"
        [question] = asked["inputRequests"].values()
        assert question["method"] == "elicitation/create"
        assert question["params"]["message"] == "Word 0?"
        result = await answered(caller, asked)
        assert (text_of(result), result["resultType"]) == ("accept:blue", "complete")


async def test_the_same_works_through_call_tool_and_over_several_rounds() -> None:
    stall = Stall()
    stall.asks = 3
    async with hub(stall.config("desk", protocol="legacy")) as it, Gateway(it) as gateway:
        caller = Caller(gateway, elicitation={})
        params: dict[str, Any] = {"name": "call_tool", "arguments": {"name": NAME}}
        asked = await caller.send("tools/call", **params)
        for number in range(3):
            [question] = asked["inputRequests"].values()
            assert question["params"]["message"] == f"Word {number}?"
            asked = await answered(caller, asked, **params)
        assert text_of(asked) == "accept:blue accept:blue accept:blue"


async def test_an_answer_counts_once() -> None:
    async with hub(Stall().config("desk", protocol="legacy")) as it, Gateway(it) as gateway:
        caller = asking(gateway)
        asked = await caller.call(NAME)
        await answered(caller, asked)
        with pytest.raises(RpcError) as caught:
            await answered(caller, asked)
        assert is_invalid(caught.value)


async def test_of_two_answers_at_once_one_counts() -> None:
    async with hub(Stall().config("desk", protocol="legacy")) as it, Gateway(it) as gateway:
        caller = asking(gateway)
        asked = await caller.call(NAME)
        outcomes: list[str] = []

        async def try_it() -> None:
            try:
                outcomes.append(text_of(await answered(caller, asked)))
            except RpcError as error:
                outcomes.append(str(is_invalid(error)))

        async with anyio.create_task_group() as group:
            group.start_soon(try_it)
            group.start_soon(try_it)
        assert sorted(outcomes) == ["True", "accept:blue"]


@pytest.mark.covers("R-REG-39")
async def test_a_state_is_good_for_its_caller_its_call_and_its_gateway_only() -> None:
    stall = Stall()
    configs = [stall.config("desk", protocol="legacy"), stall.config("other", protocol="legacy")]
    async with hub(*configs) as it, Gateway(it) as gateway, Gateway(it) as second:
        caller = asking(gateway)
        asked = await caller.call(NAME)
        other = Principal(subject="other", scopes=frozenset({"call"}))
        state = asked["requestState"]
        for thief, changes in (
            (asking(gateway, principal=other), {}),
            (asking(second), {}),
            (caller, {"name": "mcp_other_ask"}),
            (caller, {"arguments": {"a": 1}}),
            (caller, {"requestState": state[:-1] + ("0" if state[-1] != "0" else "1")}),
            (caller, {"requestState": state.replace(".1.", ".2.")}),
            (caller, {"requestState": "pb1."}),
            (caller, {"requestState": "pb1.\ud800.1.0"}),
            (caller, {"requestState": "of another server"}),
            (caller, {"requestState": 7}),
            (Caller(gateway, face=FULL), {"requestState": "of another server"}),
        ):
            with pytest.raises(RpcError) as caught:
                await answered(thief, asked, **changes)
            assert is_invalid(caught.value)
        assert text_of(await answered(caller, asked)) == "accept:blue"


async def test_a_question_that_was_not_answered_is_asked_again() -> None:
    async with hub(Stall().config("desk", protocol="legacy")) as it, Gateway(it) as gateway:
        caller = asking(gateway)
        asked = await caller.call(NAME)
        for nonsense in ({}, {"other": YES}, None, {next(iter(asked["inputRequests"])): "yes"}):
            asked = await answered(caller, asked, inputResponses=nonsense)
            assert asked["resultType"] == "input_required"
        assert text_of(await answered(caller, asked)) == "accept:blue"


async def test_a_call_without_an_answer_is_cancelled() -> None:
    options = GatewayOptions(parked_seconds=0.05)
    async with (
        hub(Stall().config("desk", protocol="legacy")) as it,
        Gateway(it, options) as gateway,
    ):
        caller = asking(gateway)
        asked = await caller.call(NAME)
        connection: Any = it.server("desk").connection
        await until(lambda: connection.in_flight == 0, "the call is over")
        with pytest.raises(RpcError) as caught:
            await answered(caller, asked)
        assert is_invalid(caught.value)


async def test_so_many_may_wait_and_no_more() -> None:
    options = GatewayOptions(parked_each=2)
    async with (
        hub(Stall().config("desk", protocol="legacy")) as it,
        Gateway(it, options) as gateway,
    ):
        caller = asking(gateway)
        first = await caller.call(NAME)
        await caller.call(NAME)
        with pytest.raises(RpcError):
            await caller.call(NAME)
        assert text_of(await answered(caller, first)) == "accept:blue"
        await caller.call(NAME)


async def test_the_calls_of_one_caller_leave_room_for_those_of_another() -> None:
    stall = Stall()
    stall.asks = 2
    async with (
        hub(stall.config("desk", protocol="legacy")) as it,
        Gateway(it, GatewayOptions(parked_calls=4)) as gateway,
    ):
        ann, bob = (
            asking(gateway, principal=Principal(subject=name, scopes=frozenset({"call"})))
            for name in ("ann", "bob")
        )
        parked = [await ann.call(NAME) for _ in range(2)]
        with pytest.raises(RpcError) as caught:
            await ann.call(NAME)
        assert caught.value.code == -32011
        assert caught.value.data == {
            "code": "limit_reached",
            "setting": "gateway.parked_calls",
            "retryAfter": 30.0,
        }
        assert (await bob.call(NAME))["resultType"] == "input_required"
        # The second question of a call that has a place is not refused.
        for asked in parked:
            again = await answered(ann, asked)
            assert again["resultType"] == "input_required"
            assert text_of(await answered(ann, again)) == "accept:blue accept:blue"
        [used] = [it for it in gateway.limits() if it.name == "parked calls"]
        assert (used.used, used.largest) == (1, ("default", "bob"))


async def test_closing_the_gateway_releases_what_is_parked() -> None:
    async with hub(Stall().config("desk", protocol="legacy")) as it:
        async with Gateway(it) as gateway:
            await asking(gateway).call(NAME)
            connection: Any = it.server("desk").connection
            assert connection.in_flight == 1
        await until(lambda: connection.in_flight == 0, "the call is over")


async def test_a_client_that_leaves_takes_its_call_along() -> None:
    stall = Stall()
    running, cancelled = anyio.Event(), anyio.Event()

    async def wait(*_: object) -> dict[str, Any]:
        running.set()
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.set()
        return {}

    stall.tools["wait"] = wait
    async with hub(stall.config("desk", protocol="legacy")) as it, Gateway(it) as gateway:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(asking(gateway).call, "mcp_desk_wait")
                await running.wait()
                group.cancel_scope.cancel()
            await cancelled.wait()


async def test_a_client_that_cannot_be_asked_is_not_asked() -> None:
    async with hub(Stall().config("desk", protocol="legacy")) as it, Gateway(it) as gateway:
        with pytest.raises(RpcError):
            await Caller(gateway, face=FULL).call(NAME)


async def test_a_client_of_the_handshake_era_is_asked_at_once() -> None:
    def answers(method: str, _: object) -> dict[str, Any]:
        assert method == "elicitation/create"
        return YES

    async with hub(Stall().config("desk", protocol="legacy")) as it, Gateway(it) as gateway:
        caller = Caller(gateway, "legacy", face=FULL, elicitation={}, answers=answers)
        assert text_of(await caller.call(NAME)) == "accept:blue"


async def test_a_parked_call_is_counted_until_its_caller_goes_on_with_it() -> None:
    async with hub(Stall().config("desk", protocol="legacy")) as it, Gateway(it) as gateway:
        caller = asking(gateway)
        other = asking(gateway, principal=Principal(subject="o", scopes=frozenset({"call"})))
        new = caller.exchange("tools/call", name=NAME, arguments={})
        asked = await caller.call(NAME)
        assert (gateway.parked(new), gateway.parked(other.exchange("tools/call"))) == (1, 0)
        state = asked["requestState"]
        repeated = {"name": NAME, "arguments": {}, "requestState": state}
        assert gateway.parked(caller.exchange("tools/call", **repeated)) == 0
        made_up = {**repeated, "requestState": f"{state}0"}
        assert gateway.parked(caller.exchange("tools/call", **made_up)) == 1
        await answered(caller, asked)
        assert gateway.parked(new) == 0


async def test_the_arguments_of_a_call_that_never_asks_are_not_hashed() -> None:
    async def work(_: object) -> dict[str, Any]:
        return {"content": []}

    async with hub() as it, Gateway(it) as gateway, anyio.create_task_group() as group:
        caller = asking(gateway)
        calls = SuspendedCalls(group, seconds=5, most=1, each=1)
        params = {"name": NAME, "arguments": {"not": {"JSON"}}}
        request = ClientRequest(
            method="tools/call", params=params, client=caller.client, channel=caller.wire
        )
        assert await calls.run(request, work) == {"content": []}
