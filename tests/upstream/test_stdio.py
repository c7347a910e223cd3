"""The stdio transport: messages over real pipes, and every way a server can be lost."""

import logging
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
import pytest

from pegboard.config.servers import ServerConfig
from pegboard.errors import ConnectionLostError, ProtocolError, ServerUnavailableError
from pegboard.upstream import CallContext
from pegboard.upstream.messages.channel import DuplexChannel
from pegboard.upstream.messages.failures import FailedError, Failure
from pegboard.upstream.messages.jsonrpc import Message
from pegboard.upstream.session.session import UpstreamSession
from pegboard.upstream.stdio.transport import MAX_LINE_BYTES, stdio_channel
from tests.upstream.board_servers import hub_of, text_of
from tests.upstream.http_clients import connected
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
    config: ServerConfig,
    losses: Losses,
    *,
    seconds: float = 15,
    heard: list[Message] | None = None,
    **rest: Any,
) -> AsyncGenerator[DuplexChannel]:
    def receive(message: Message) -> None:
        if heard is not None:
            heard.append(message)

    channel = stdio_channel(config, receive=receive, on_lost=losses, grace=0.2, **rest)
    with anyio.fail_after(seconds):
        async with channel as opened:
            yield opened


async def ask(
    channel: DuplexChannel, number: int = 1, method: str = "ping", **params: Any
) -> dict[str, Any]:
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    return await channel.request(message, {}, lambda message: None)


async def tell(channel: DuplexChannel, method: str, **params: Any) -> None:
    await channel.send({"jsonrpc": "2.0", "method": method, "params": params}, {})


async def failure_of(work: Awaitable[object]) -> Failure:
    with pytest.raises(FailedError) as caught:
        await work
    return caught.value.failure


async def call(
    session: UpstreamSession, tool: str, arguments: dict[str, Any], **brought: Any
) -> str:
    params = {"name": tool, "arguments": arguments}
    context = CallContext(**brought)
    return text_of(await session.request("tools/call", params, tool=tool, context=context))


@pytest.mark.covers("R-EXCEL-21", "R-AS-16")
@pytest.mark.parametrize("protocol", ["auto", "legacy"])
async def test_a_session_speaks_through_it_in_either_era(protocol: str):
    losses = Losses()
    config = light() if protocol == "legacy" else server("python3", ECHO)
    config = msgspec.structs.replace(config, command=light().command)
    with anyio.fail_after(15):
        async with connected(config, protocol=protocol, on_lost=losses) as session:
            assert session.negotiated.era == ("legacy" if protocol == "legacy" else "modern")
            assert len(await session.list_all("tools/list")) == 9
            text = "héllo \u2028 \U0001f600"
            assert await call(session, "echo", {"text": text}) == text
            steps: list[float] = []
            await call(session, "progress", {"n": 3}, on_progress=lambda it, *_: steps.append(it))
            assert steps == [1, 2, 3]
    assert losses == []
    await until(lambda: not zombies())


@pytest.mark.timeout(90)
async def test_fifty_megabytes_pass_in_one_line_each_way():
    losses = Losses()
    async with talking(light(), losses, seconds=80) as channel:
        text = "x" * 50_000_000
        result = await ask(channel, 1, "tools/call", name="echo", arguments={"text": text})
        assert result["content"][0]["text"] == text
    assert losses == []


async def test_a_line_over_the_limit_ends_the_connection_with_that_reason():
    losses = Losses()
    async with talking(light(), losses, max_line_bytes=10_000) as channel:
        asked = ask(channel, 1, "tools/call", name="big", arguments={"n": 10_000})
        failure = await failure_of(asked)
        assert failure.kind == "lost"
        assert "ask for less at once" in failure.message
    assert losses == ["sent a line of more than 10000 bytes"]


@pytest.mark.parametrize("heard", [None, lambda *_: None], ids=["plain", "progress"])
async def test_a_caller_of_an_answer_over_the_limit_is_told_to_ask_for_less(heard: Any):
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
            'read line; printf "\\n  \\n\\377\\376\\nWelcome, $KEY!\\n[1]\\n{}\\nnull\\n"; '
            'printf \'{"jsonrpc":"2.0","id":1,"result":{}}\\r\\n\'; cat >/dev/null'
        ),
        env={"KEY": "very-secret"},
    )
    async with talking(config, losses) as channel:
        assert await ask(channel) == {}
    records = [it for it in caplog.records if it.name == "pegboard.upstream"]
    assert [(it.message, it.__dict__["server"]) for it in records] == [
        ("not_a_message: server 'sample' printed '\ufffd\ufffd'", "sample")
    ]
    assert "very-secret" not in caplog.text
    assert losses == []


@pytest.mark.parametrize("config", [server("yes", "Hello!"), shell("yes '{}'; cat")])
async def test_a_program_that_only_babbles_is_found_out(config: ServerConfig):
    losses = Losses()
    async with talking(config, losses) as channel:
        with pytest.raises(FailedError):
            await ask(channel)
    (reason,) = losses
    assert reason.startswith("does not speak MCP: it printed ")


async def test_a_program_that_says_nothing_costs_only_the_limit_of_the_caller():
    losses = Losses()
    async with talking(server("sleep", "1000"), losses) as channel:
        with anyio.move_on_after(0.05) as limit:
            await ask(channel)
        assert limit.cancelled_caught
    assert losses == []


async def test_a_handshake_with_a_program_that_echoes_ends_in_an_error():
    with anyio.fail_after(5), pytest.raises(ProtocolError):
        async with connected(server("cat"), protocol="legacy", on_lost=Losses()):
            pass


async def test_a_server_that_dies_is_reported_once_with_its_last_words():
    losses = Losses()
    async with talking(shell("echo 'no database' >&2; read line; exit 3"), losses) as channel:
        assert (await failure_of(ask(channel, 1))).kind == "lost"
        assert (await failure_of(ask(channel, 2))).kind == "not_sent"
    assert losses == ["exited with code 3; its last words: no database"]


async def test_what_a_server_said_before_it_died_is_heard():
    losses, heard = Losses(), list[Message]()
    said = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
    script = f"import os; os.write(1, b'''{said}\n''' * 1000 + b'{{\"half'); os._exit(2)"
    async with talking(python(script), losses, heard=heard):
        await losses.reason()
    assert [it.method for it in heard] == ["notifications/tools/list_changed"] * 1000
    assert losses == ["exited with code 2"]


async def test_a_server_that_closes_its_output_but_lives_is_lost():
    losses = Losses()
    async with talking(shell("exec >&-; while :; do sleep 1; done"), losses) as channel:
        with pytest.raises(FailedError):
            await ask(channel)
    assert losses == ["closed its pipes, but is still running"]


@pytest.mark.parametrize("who", ["child", "grandchild"])
async def test_a_call_ends_when_the_server_is_killed_in_the_middle_of_it(who: str):
    marker, losses = new_marker(), Losses()
    config = light(marker)
    if who == "grandchild":
        command = f"{config.command} {config.args[0]}; exit 4"
        config = shell(command, marker=marker)
    with anyio.fail_after(15):
        async with connected(config, protocol="legacy", on_lost=losses) as session:
            pid = int(await call(session, "pid", {}))
            async with anyio.create_task_group() as tasks:

                async def slow() -> None:
                    with pytest.raises(ConnectionLostError) as caught:
                        await call(session, "slow", {"seconds": 1000})
                    # It was written, so it may have run: the error must not say otherwise.
                    assert caught.value.sent

                tasks.start_soon(slow)
                await call(session, "echo", {"text": "the slow call was read before"})
                os.kill(pid, signal.SIGKILL)
    words = {"child": "was killed by signal SIGKILL", "grandchild": "exited with code 4"}[who]
    assert losses[0].startswith(words)
    await all_ended(marker)


async def test_a_request_that_was_not_written_is_answered_as_not_sent():
    losses = Losses()
    async with talking(shell("echo up >&2; exec <&-; exec sleep 1000"), losses) as channel:
        failure: Failure | None = None
        while failure is None:
            # Until the shell has closed its end, the pipe takes what is written.
            with anyio.move_on_after(0.01):
                failure = await failure_of(ask(channel))
        assert failure.kind == "not_sent"
        assert await losses.reason() == "closed its pipes, but is still running; its last words: up"
        assert (await failure_of(ask(channel))).kind == "not_sent"
    assert len(losses) == 1


async def test_a_request_to_a_dead_server_is_answered_as_not_sent():
    losses = Losses()
    async with talking(shell("exit 1"), losses) as channel:
        await losses.reason()
        assert (await failure_of(ask(channel))).kind == "not_sent"
    assert (await failure_of(ask(channel))).kind == "not_sent"
    assert losses == ["exited with code 1"]


async def test_a_frozen_server_holds_up_senders_but_not_the_end():
    marker, losses = new_marker(), Losses()
    done: list[int] = []
    failures: list[Failure] = []
    async with (
        anyio.create_task_group() as tasks,
        talking(shell("kill -STOP $$", marker=marker), losses) as channel,
    ):

        async def send(number: int) -> None:
            try:
                await tell(channel, "x", text="x" * 50_000)
                done.append(number)
            except FailedError as error:
                failures.append(error.failure)

        for number in range(20):
            tasks.start_soon(send, number)
        await anyio.wait_all_tasks_blocked()
        # The pipe took what it could; the others wait, and nothing is stored for them.
        assert len(done) < 3
    await all_ended(marker)
    assert len(done) + len(failures) == 20
    assert {it.kind for it in failures} == {"not_sent"}
    assert losses == []


async def test_the_next_message_completes_and_cancels_one_whose_sender_was_cancelled_half_way(
    caplog: pytest.LogCaptureFixture,
):
    caplog.set_level(logging.DEBUG, logger="pegboard.upstream")
    losses = Losses()
    script = (
        "import sys\n"
        "sys.stdin.buffer.read1(1)\n"
        "sys.stderr.write('one byte\\n'); sys.stderr.flush()\n"
        "import signal; signal.sigwait({signal.SIGUSR1})\n"
        "import json; lines = [sys.stdin.buffer.readline() for _ in range(3)]\n"
        "lines[0] = b'{' + lines[0]\n"
        "found = [[len(line), json.loads(line)['method']] for line in lines]\n"
        "result = {'jsonrpc': '2.0', 'id': 1, 'result': {'lines': found}}\n"
        "print(json.dumps(result), flush=True)\n"
        "sys.stdin.read()\n"
    )
    config = python("import signal; signal.pthread_sigmask(0, {signal.SIGUSR1})\n" + script)
    marker = new_marker()
    config = msgspec.structs.replace(config, env=dict([marker.split("=")]))
    async with talking(config, losses) as channel:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: tell(channel, "x", text="x" * 5_000_000))
            await until(lambda: "one byte" in caplog.text)
            tasks.cancel_scope.cancel()
        await tell(channel, "notifications/cancelled", requestId=0)
        (pid,) = alive(marker)
        os.kill(pid, signal.SIGUSR1)
        first, *others = (await ask(channel, 1, "y", text="y"))["lines"]
        assert (first[0] > 4_900_000, first[1]) == (True, "x")
        assert [method for _, method in others] == ["notifications/cancelled", "y"]


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


async def test_a_request_that_waits_is_lost_when_the_transport_is_left():
    failures: list[Failure] = []
    async with anyio.create_task_group() as tasks:
        async with talking(server("sleep", "1000"), Losses()) as channel:

            async def wait() -> None:
                failures.append(await failure_of(ask(channel)))

            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
        await until(lambda: bool(failures))
    assert [it.kind for it in failures] == ["lost"]


async def test_a_listener_that_raises_does_not_break_the_channel():
    def broken(reason: str) -> None:
        raise ValueError(reason)

    config = shell("exit 1")
    with anyio.fail_after(5):
        async with stdio_channel(config, receive=lambda it: None, on_lost=broken) as channel:
            with pytest.raises(FailedError):
                await ask(channel)


async def test_a_command_that_is_missing_is_an_error_before_any_channel():
    with pytest.raises(ServerUnavailableError):
        async with talking(server("no-such-command"), Losses()):
            pass
