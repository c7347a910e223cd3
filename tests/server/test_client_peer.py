"""ClientPeer: requests of a client, and requests to it, without a transport."""

import json
from typing import Any

import anyio
import pytest

from pegboard.gateway import RpcError
from pegboard.server.client_peer import ClientPeer, PeerChannel

CALL = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {}}


class Paper:
    """Keeps what is written to the client, and tells when there is something."""

    def __init__(self) -> None:
        self.is_over = False
        self.messages: list[Any] = []
        self.written = anyio.Event()

    async def send(self, message: bytes) -> None:
        self.messages.append(json.loads(message))
        self.written.set()


def response(request_id: Any, **outcome: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, **outcome}


async def refusal(peer: ClientPeer, paper: Paper, replies: list[dict[str, Any]]) -> RpcError:
    """Ask the client, send these replies, and return the error that comes of it."""
    errors: list[RpcError] = []

    async def ask() -> None:
        with pytest.raises(RpcError) as caught:
            await PeerChannel(peer, paper).ask("roots/list", {})
        errors.append(caught.value)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await paper.written.wait()
            for reply in replies:
                peer.note(reply)
    return errors[0]


@pytest.mark.parametrize("as_text", [False, True])
async def test_a_client_may_return_an_id_as_a_number_or_as_text(as_text: bool) -> None:
    peer, paper = ClientPeer(), Paper()
    results: list[Any] = []

    async def ask() -> None:
        results.append(await peer.ask(paper, "roots/list", {}))

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await paper.written.wait()
            (asked,) = paper.messages
            assert asked == {"jsonrpc": "2.0", "id": 1, "method": "roots/list"}
            request_id = str(asked["id"]) if as_text else asked["id"]
            peer.note(response(request_id, result={"roots": []}))
    assert results == [{"roots": []}]


async def test_only_the_first_response_counts_and_an_unknown_one_never() -> None:
    peer, paper = ClientPeer(), Paper()
    said = {"code": -1, "message": "No.", "data": [1]}
    replies = [
        response(99, result={}),
        response(None, error={"code": -2, "message": "Whose?"}),
        response(1, error=said),
        response(1, result={}),
    ]
    error = await refusal(peer, paper, replies)
    assert (error.code, error.message, error.data) == (-1, "No.", [1])


async def test_a_client_that_leaves_gives_no_answer() -> None:
    peer, paper = ClientPeer(), Paper()
    errors: list[int] = []

    async def ask() -> None:
        with pytest.raises(RpcError) as caught:
            await peer.ask(paper, "roots/list", {})
        errors.append(caught.value.code)

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await paper.written.wait()
            peer.close()
        assert errors == [-32000]
        await ask()
    assert len(paper.messages) == 1


async def test_a_client_without_a_stream_is_not_asked() -> None:
    peer, paper = ClientPeer(), Paper()
    paper.is_over = True
    with pytest.raises(RpcError):
        await peer.ask(paper, "roots/list", {})
    assert not paper.messages


async def test_a_question_of_a_cancelled_call_is_taken_back() -> None:
    peer, paper = ClientPeer(), Paper()
    running = peer.begin(CALL)

    async def work() -> dict[str, Any]:
        return await peer.ask(paper, "elicitation/create", {"message": "Sure?"})

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(peer.serve, running, work, paper)
            await paper.written.wait()
            params = {"requestId": CALL["id"]}
            peer.note({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
    question, taken_back = paper.messages
    assert taken_back["method"] == "notifications/cancelled"
    assert taken_back["params"]["requestId"] == question["id"]


@pytest.mark.parametrize("request_id", [7, "7"], ids=["number", "text"])
async def test_a_request_that_has_not_begun_can_be_cancelled_too(request_id: Any) -> None:
    peer, paper = ClientPeer(), Paper()
    running = peer.begin(CALL)
    params = {"requestId": request_id}
    peer.note({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})

    async def work() -> dict[str, Any]:
        await anyio.sleep_forever()
        return {}

    with anyio.fail_after(5):
        await peer.wait_until_answered(5)  # the client does not wait for it
        await peer.serve(running, work, paper)
    assert not paper.messages


async def test_of_two_requests_with_one_id_the_end_of_the_first_leaves_the_second() -> None:
    peer, paper = ClientPeer(), Paper()
    first, second = peer.begin(CALL), peer.begin(CALL)

    async def at_once() -> dict[str, Any]:
        return {"a": 1}

    await peer.serve(first, at_once, paper)
    params = {"requestId": 7}
    peer.note({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
    assert second.is_cancelled
    assert not first.is_cancelled
    assert paper.messages == [response(7, result={"a": 1})]


async def test_a_closed_peer_answers_what_runs_with_an_error() -> None:
    peer, paper = ClientPeer(), Paper()
    began = anyio.Event()

    async def work() -> dict[str, Any]:
        began.set()
        await anyio.sleep_forever()
        return {}

    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(peer.serve, peer.begin(CALL), work, paper)
            await began.wait()
            peer.close()
            await peer.wait_until_answered(5)
    assert [it["error"]["code"] for it in paper.messages] == [-32000]


async def test_an_answer_that_cannot_be_written_as_json_is_an_internal_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    peer, paper = ClientPeer(), Paper()

    async def work() -> dict[str, Any]:
        return {"a": object()}

    await peer.serve(peer.begin(CALL), work, paper)
    (error,) = paper.messages
    assert (error["id"], error["error"]["code"]) == (7, -32603)
    assert "could not be answered" in caplog.text


async def test_a_channel_says_nothing_after_the_response() -> None:
    peer, paper = ClientPeer(), Paper()
    channel = PeerChannel(peer, paper)
    await channel.notify("notifications/message", {})
    channel.close()
    await channel.notify("notifications/message", {})
    with pytest.raises(RpcError):
        await channel.ask("roots/list", {})
    assert len(paper.messages) == 1


@pytest.mark.parametrize("ends", ["cancelled", "closed"])
async def test_two_requests_with_one_id_both_end(ends: str) -> None:
    peer, paper = ClientPeer(), Paper()
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(peer.serve, peer.begin(CALL), _for_ever, paper)
            await anyio.wait_all_tasks_blocked()
            if ends == "cancelled":
                params = {"requestId": 7}
                peer.note({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
            else:
                peer.close(by_client=True)
    assert paper.messages == []


async def _for_ever() -> dict[str, Any]:
    await anyio.sleep_forever()
    raise AssertionError
