"""The stdio transport: messages over real pipes, and every way a server can be lost."""

import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
import pytest
from mcp import Client, MCPError
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import CONNECTION_CLOSED, JSONRPCError, JSONRPCRequest, JSONRPCResponse, TextContent

from pegboard.config.servers import ServerConfig
from pegboard.errors import ConnectionLostError, ServerUnavailableError
from pegboard.upstream.stdio.transport import MAX_LINE_BYTES, NOT_SENT, stdio_transport
from tests.upstream.board_servers import hub_of
from tests.upstream.processes import (
    ECHO,
    alive,
    all_ended,
    light,
    new_marker,
    python,
    server,
    shell,
    until,
    zombies,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


class Losses(list[str]):
    """What `on_lost` was told, and an event for the first of it."""

    def __init__(self) -> None:
        self.first = anyio.Event()

    def __call__(self, reason: str) -> None:
        self.append(reason)
        self.first.set()

    async def reason(self) -> str:
        with anyio.fail_after(5):
            await self.first.wait()
        return self[0]


@asynccontextmanager
async def talking(
    config: ServerConfig, losses: Losses, *, seconds: float = 15, **rest: Any
) -> AsyncGenerator[TransportStreams]:
    with anyio.fail_after(seconds):
        async with stdio_transport(config, on_lost=losses, grace=0.2, **rest) as streams:
            yield streams


def request(number: int, method: str = "ping", **params: Any) -> SessionMessage:
    return SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=number, method=method, params=params))


def text_of(result: Any) -> str:
    (block,) = result.content
    assert isinstance(block, TextContent)
    return block.text


@pytest.mark.covers("R-EXCEL-21", "R-AS-16")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_of_the_sdk_speaks_through_it(mode: Any):
    losses = Losses()
    config = light() if mode == "legacy" else server("python3", ECHO)
    config = msgspec.structs.replace(config, command=light().command)
    with anyio.fail_after(15):
        async with Client(stdio_transport(config, on_lost=losses), mode=mode) as client:
            assert len((await client.list_tools()).tools) == 9
            assert text_of(await client.call_tool("echo", {"text": "héllo \u2028 \U0001f600"})) == (
                "héllo \u2028 \U0001f600"
            )
            steps: list[float] = []

            async def note(progress: float, total: float | None, message: str | None) -> None:
                steps.append(progress)

            await client.call_tool("progress", {"n": 3}, progress_callback=note)
            assert steps == [1, 2, 3]
    assert losses == []
    await until(lambda: not zombies())


@pytest.mark.timeout(90)
async def test_fifty_megabytes_pass_in_one_line_each_way():
    losses = Losses()
    async with talking(light(), losses, seconds=80) as (read, write):
        text = "x" * 50_000_000
        call = request(1, "tools/call", name="echo", arguments={"text": text})
        await write.send(call)
        answer = await read.receive()
        assert isinstance(answer, SessionMessage)
        assert isinstance(answer.message, JSONRPCResponse)
        assert answer.message.result["content"][0]["text"] == text
    assert losses == []


async def test_a_line_over_the_limit_ends_the_connection_with_that_reason():
    losses = Losses()
    async with talking(light(), losses, max_line_bytes=10_000) as (read, write):
        await write.send(request(1, "tools/call", name="big", arguments={"n": 10_000}))
        with pytest.raises(anyio.EndOfStream):
            await read.receive()
    assert losses == ["sent a line of more than 10000 bytes"]


@pytest.mark.parametrize("way", ["short", "long"])
async def test_whoever_waits_for_an_answer_over_the_limit_is_told_to_ask_for_less(way: str):
    # A call with progress is sent by the SDK.
    heard = (lambda *_: None) if way == "long" else None
    async with hub_of(light()) as hub:
        with anyio.fail_after(15), pytest.raises(ConnectionLostError) as caught:
            [big] = [it.name for it in hub.registry.tools() if it.name.endswith("_big")]
            await hub.call(big, {"n": MAX_LINE_BYTES}, on_progress=heard)
    assert "(a response had more than 64 MiB: ask for less at once)" in str(caught.value)


async def test_lines_that_are_no_messages_are_skipped_and_logged_once(
    caplog: pytest.LogCaptureFixture,
):
    losses = Losses()
    caplog.set_level(logging.WARNING, logger="pegboard.upstream")
    config = msgspec.structs.replace(
        shell(
            'printf "\\n  \\n\\377\\376\\nWelcome, $KEY!\\n[1]\\n{}\\nnull\\n"; '
            'printf \'{"jsonrpc":"2.0","id":1,"result":{}}\\r\\n\'; cat >/dev/null'
        ),
        env={"KEY": "very-secret"},
    )
    async with talking(config, losses) as (read, _):
        answer = await read.receive()
        assert isinstance(answer, SessionMessage)
        assert isinstance(answer.message, JSONRPCResponse)
    records = [it for it in caplog.records if it.name == "pegboard.upstream"]
    assert [(it.message, it.__dict__["server"]) for it in records] == [
        ("not_a_message: server 'sample' printed '\ufffd\ufffd'", "sample")
    ]
    assert "very-secret" not in caplog.text
    assert losses == []


@pytest.mark.parametrize("config", [server("yes", "Hello!"), shell("yes '{}'; cat")])
async def test_a_program_that_only_babbles_is_found_out(config: ServerConfig):
    losses = Losses()
    async with talking(config, losses) as (read, _):
        with pytest.raises(anyio.EndOfStream):
            await read.receive()
    (reason,) = losses
    assert reason.startswith("does not speak MCP: it printed ")


async def test_a_program_that_says_nothing_costs_only_the_limit_of_the_caller():
    losses = Losses()
    async with talking(server("sleep", "1000"), losses) as (read, write):
        await write.send(request(1))
        with anyio.move_on_after(0.05) as limit:
            await read.receive()
        assert limit.cancelled_caught
    assert losses == []


async def test_a_handshake_with_a_program_that_echoes_ends_in_an_error():
    with anyio.fail_after(5), pytest.raises(ExceptionGroup) as caught:
        async with Client(stdio_transport(server("cat"), on_lost=Losses()), mode="legacy"):
            pass
    assert caught.group_contains(MCPError)


async def test_a_server_that_dies_is_reported_once_with_its_last_words():
    losses = Losses()
    config = shell("echo 'no database' >&2; read line; exit 3")
    async with talking(config, losses) as (read, write):
        await write.send(request(1))
        with pytest.raises(anyio.EndOfStream):
            await read.receive()
        with pytest.raises(anyio.EndOfStream):
            await read.receive()
    assert losses == ["exited with code 3; its last words: no database"]


async def test_what_a_server_said_before_it_died_is_heard():
    losses = Losses()
    answer = '{"jsonrpc":"2.0","id":1,"result":{}}'
    script = f"import os; os.write(1, b'''{answer}\n''' * 1000 + b'{{\"half'); os._exit(2)"
    async with talking(python(script), losses) as (read, _):
        await losses.reason()
        heard = [message async for message in read]
    assert len(heard) == 1000
    assert losses == ["exited with code 2"]


async def test_a_server_that_closes_its_output_but_lives_is_lost():
    losses = Losses()
    async with talking(shell("exec >&-; while :; do sleep 1; done"), losses) as (read, _):
        with pytest.raises(anyio.EndOfStream):
            await read.receive()
    assert losses == ["closed its pipes, but is still running"]


@pytest.mark.parametrize("who", ["child", "grandchild"])
async def test_a_call_ends_when_the_server_is_killed_in_the_middle_of_it(who: str):
    marker, losses = new_marker(), Losses()
    config = light(marker)
    if who == "grandchild":
        command = f"{config.command} {config.args[0]}; exit 4"
        config = shell(command, marker=marker)
    with anyio.fail_after(15):
        async with Client(stdio_transport(config, on_lost=losses), mode="legacy") as client:
            pid = int(text_of(await client.call_tool("pid", {})))
            async with anyio.create_task_group() as tasks:

                async def call() -> None:
                    with pytest.raises(MCPError) as caught:
                        await client.call_tool("slow", {"seconds": 1000})
                    # It was written, so it may have run: the answer must not say otherwise.
                    assert (caught.value.code, caught.value.error.data) == (CONNECTION_CLOSED, None)

                tasks.start_soon(call)
                await client.call_tool("echo", {"text": "the slow call was read before"})
                os.kill(pid, signal.SIGKILL)
    words = {"child": "was killed by signal SIGKILL", "grandchild": "exited with code 4"}[who]
    assert losses[0].startswith(words)
    await all_ended(marker)


async def test_a_request_that_was_not_written_is_answered_as_not_sent():
    losses = Losses()
    async with talking(shell("echo up >&2; exec <&-; exec sleep 1000"), losses) as (read, write):
        answer: Any = None
        while answer is None:
            # Until the shell has closed its end, the pipe takes what is written.
            await write.send(request(1))
            with anyio.move_on_after(0.01):
                answer = await read.receive()
        assert isinstance(answer.message, JSONRPCError)
        assert answer.message.id == 1
        assert answer.message.error.code == CONNECTION_CLOSED
        assert answer.message.error == NOT_SENT
        assert await losses.reason() == "closed its pipes, but is still running; its last words: up"
        with pytest.raises(anyio.EndOfStream):
            await read.receive()
    assert len(losses) == 1


async def test_a_request_to_a_dead_server_is_answered_as_not_sent_before_the_stream_ends():
    losses = Losses()
    async with talking(shell("exit 1"), losses) as (read, write):
        await losses.reason()
        await write.send(request(7))
        answer = await read.receive()
        assert isinstance(answer, SessionMessage)
        assert isinstance(answer.message, JSONRPCError)
        assert answer.message.error == NOT_SENT
        with pytest.raises(anyio.EndOfStream):
            await read.receive()
        await read.aclose()
        with pytest.raises(anyio.BrokenResourceError):
            await write.send(request(8))
        await write.aclose()
        with pytest.raises(anyio.ClosedResourceError):
            await write.send(request(9))
    assert losses == ["exited with code 1"]


async def test_a_frozen_server_holds_up_senders_but_not_the_end():
    marker, losses = new_marker(), Losses()
    done: list[int] = []
    async with (
        anyio.create_task_group() as tasks,
        talking(shell("kill -STOP $$", marker=marker), losses) as (_, write),
    ):

        async def send(number: int) -> None:
            await write.send(request(number, "x", text="x" * 50_000))
            done.append(number)

        for number in range(20):
            tasks.start_soon(send, number)
        await anyio.wait_all_tasks_blocked()
        # The pipe took what it could; the others wait, and nothing is stored for them.
        assert len(done) < 3
    await all_ended(marker)
    assert losses == []


async def test_a_sender_cancelled_half_way_does_not_break_the_next_message(
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.DEBUG, logger="pegboard.upstream")
    losses = Losses()
    script = (
        "import sys\n"
        "sys.stdin.buffer.read1(1)\n"
        "sys.stderr.write('one byte\\n'); sys.stderr.flush()\n"
        "import signal; signal.sigwait({signal.SIGUSR1})\n"
        "lines = [len(sys.stdin.buffer.readline()) for _ in range(2)]\n"
        'print(\'{"jsonrpc":"2.0","id":1,"result":{"lines": %s}}\' % lines, flush=True)\n'
        "sys.stdin.read()\n"
    )
    config = python("import signal; signal.pthread_sigmask(0, {signal.SIGUSR1})\n" + script)
    marker = new_marker()
    config = msgspec.structs.replace(config, env=dict([marker.split("=")]))
    async with talking(config, losses) as (read, write):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write.send, request(1, "x", text="x" * 5_000_000))
            await until(lambda: "one byte" in caplog.text)
            tasks.cancel_scope.cancel()
        (pid,) = alive(marker)
        os.kill(pid, signal.SIGUSR1)
        await write.send(request(2, "x", text="y"))
        answer = await read.receive()
        assert isinstance(answer, SessionMessage)
        assert isinstance(answer.message, JSONRPCResponse)
        first, second = answer.message.result["lines"]
        assert first > 4_900_000
        assert second < 200


async def test_leaving_ends_the_process_also_when_the_body_fails_or_is_cancelled():
    marker, losses = new_marker(), Losses()
    with pytest.raises(ValueError, match=r"^as it is$"):
        async with talking(light(marker), losses):
            raise ValueError("as it is")
    await all_ended(marker)
    with anyio.CancelScope() as scope:
        async with talking(light(marker), losses):
            scope.cancel()
            await anyio.sleep_forever()
    await all_ended(marker)
    assert losses == []


async def test_a_reader_that_waits_is_woken_when_the_transport_is_left():
    ended = anyio.Event()

    async with anyio.create_task_group() as tasks:
        async with talking(light(), Losses()) as (read, _):

            async def wait() -> None:
                with pytest.raises(anyio.EndOfStream):
                    await read.receive()
                ended.set()

            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
        with anyio.fail_after(5):
            await ended.wait()


async def test_a_listener_that_raises_does_not_break_the_streams():
    def broken(reason: str) -> None:
        raise ValueError(reason)

    with anyio.fail_after(5):
        async with stdio_transport(shell("exit 1"), on_lost=broken) as (read, _):
            with pytest.raises(anyio.EndOfStream):
                await read.receive()


async def test_a_command_that_is_missing_is_an_error_before_any_stream():
    with pytest.raises(ServerUnavailableError):
        async with talking(server("no-such-command"), Losses()):
            pass
