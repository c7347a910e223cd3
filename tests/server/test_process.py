"""The life of `pegboard serve`, from its start to its last signal; real processes, real signals."""

import json
import os
import pty
import re
import shutil
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.sse import sse_client

from tests.server.processes import Served, appears, interrupt, is_gone, servers, serving, write
from tests.server.serving import modern_request
from tests.upstream.late_servers import STUCK

SCRIPT = Path(__file__).with_name("slow_server.py")
AT_TERMINAL = (
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execvp(sys.argv[1], sys.argv[1:])"
)
"""Has a command be the first at the terminal that is its input."""


def script_in(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return Path(shutil.copy(SCRIPT, folder / "server.py"))


async def pid_in(folder: Path) -> int:
    # The gateway does not wait for a server that takes its time.
    path = anyio.Path(folder / "pid")
    with anyio.fail_after(20):
        while not (await path.exists() and await path.read_text("utf-8")):  # noqa: ASYNC110 - another writes it
            await anyio.sleep(0.02)
    return int(await path.read_text(encoding="utf-8"))


async def call(served: Served, name: str, arguments: dict[str, Any], mode: str) -> str:
    async with Client(f"{served.url}/mcp-full", mode=mode) as client:
        # Else the client lists them after the call, when the server may be gone.
        await client.list_tools()
        result = await client.call_tool(name, arguments)
        return result.content[0].model_dump()["text"]


async def test_it_says_what_it_serves_and_where(tmp_path: Path) -> None:
    config = servers(slow=script_in(tmp_path / "a"))
    config["mcpServers"]["missing"] = {"command": "no-such-server"}
    async with serving(tmp_path, config=config) as served:
        await served.hears("For the file of your client")
        assert re.search(r"serves \d tools of \d servers? \((1 starting, )?1 down\)\.", served.said)
        assert served.said.count("'no-such-server' was not found") == 1
        where = f"--config {tmp_path / 'mcp.json'}"
        assert f"down, 0 tools; `pegboard doctor missing {where}` says why" in served.said
        assert str(tmp_path / "mcp.json") in served.said
        assert "pegboard.db" in served.said
        assert "Authorization" not in served.said
        async with httpx2.AsyncClient() as client:
            assert (await client.get(f"{served.url}/readyz")).status_code == 200
        interrupt(served)
        await served.rest()
        assert served.process.returncode == 0


async def test_where_keys_are_wanted_it_says_so(tmp_path: Path) -> None:
    store = str(tmp_path / "keys.db")
    config = {"mcpServers": {}, "gateway": {"auth": {"keys": True}}}
    async with serving(tmp_path, "--store", store, config=config) as served:
        await served.hears("For the file of your client.*Authorization.*Bearer pb_")
        assert (
            f"no API key yet, so no client is accepted; `pegboard keys create --store {store}`"
            in (served.said)
        )


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_call_under_way_is_finished_before_the_process_ends(
    tmp_path: Path, mode: str
) -> None:
    home = tmp_path / "a"
    config = servers(slow=script_in(home))
    async with serving(tmp_path, config=config) as served:
        await served.hears("For the file of your client")
        child = await pid_in(home)
        answers: list[str] = []

        async def ask() -> None:
            answers.append(await call(served, "mcp_slow_wait_for", {"name": "it"}, mode))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await appears(home / "it.waiting")
            interrupt(served)
            async with httpx2.AsyncClient() as client:
                with anyio.fail_after(10):
                    while (await client.get(f"{served.url}/readyz")).status_code != 503:
                        pass
                assert (await client.get(f"{served.url}/healthz")).status_code == 200
            await served.hears("Finishing 1 request;")
            (home / "it").touch()
        assert answers == ["it is there"]
        await served.rest()
        assert served.process.returncode == 0
        await is_gone(child)


@pytest.mark.parametrize("wire", ["legacy", "2026-07-28", "sse"])
async def test_a_second_signal_ends_it_at_once_and_tells_whom_it_cuts_off(
    tmp_path: Path, wire: str
) -> None:
    home, told = tmp_path / "a", list[str]()
    config = servers(slow=script_in(home))
    async with serving(tmp_path, "--drain", "600", config=config) as served:
        await served.hears("For the file of your client")
        child = await pid_in(home)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_call_in_vain, served, wire, told)
            await appears(home / "never.waiting")
            interrupt(served, signal.SIGINT)
            await served.hears("Finishing 1 request;")
            interrupt(served, signal.SIGTERM)
            await served.rest()
        await is_gone(child)
    assert "may have run all the same: look before you repeat it" in told[0]


async def test_a_limit_ends_calls_that_never_end(tmp_path: Path) -> None:
    home = tmp_path / "a"
    config = servers(slow=script_in(home))
    async with serving(tmp_path, "--drain", "0.2", config=config) as served:
        await served.hears("For the file of your client")
        child = await pid_in(home)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_call_in_vain, served, "2026-07-28", list[str]())
            await appears(home / "never.waiting")
            interrupt(served)
            await served.rest()
            tasks.cancel_scope.cancel()
        await is_gone(child)


async def test_a_gateway_that_is_killed_leaves_no_child(tmp_path: Path) -> None:
    home = tmp_path / "a"
    async with serving(tmp_path, config=servers(slow=script_in(home))) as served:
        await served.hears("For the file of your client")
        child = await pid_in(home)
        interrupt(served, signal.SIGKILL)
        await is_gone(child)


@pytest.mark.parametrize("by_signal", [True, False])
async def test_a_changed_file_changes_the_servers_and_disturbs_no_call(
    tmp_path: Path, by_signal: bool
) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    config = servers(slow=script_in(first), gone=script_in(tmp_path / "c"))
    async with serving(tmp_path, "--verbose", config=config) as served:
        await served.hears("For the file of your client")
        left = await pid_in(tmp_path / "c")
        answers: list[str] = []

        async def ask() -> None:
            arguments = {"name": "it"}
            answers.append(await call(served, "mcp_slow_wait_for", arguments, "2026-07-28"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await appears(first / "it.waiting")
            write(tmp_path / "mcp.json", servers(slow=first / "server.py", new=script_in(second)))
            if by_signal:
                interrupt(served, signal.SIGHUP)
            await served.hears("The configuration was read again: 2 servers")
            await is_gone(left)
            assert await call(served, "mcp_new_echo", {"text": "hi"}, "legacy") == "hi"
            (first / "it").touch()
        assert answers == ["it is there"]


@pytest.mark.parametrize("before", [(), ("nohup",)])
async def test_when_its_terminal_is_closed_it_ends_unless_it_is_to_stay(
    tmp_path: Path, before: tuple[str, ...]
) -> None:
    home, path = tmp_path / "a", tmp_path / "mcp.json"
    config = servers(slow=script_in(home))
    ours, theirs = pty.openpty()
    own = (sys.executable, "-c", AT_TERMINAL, *before)
    async with serving(tmp_path, config=config, terminal=theirs, before=own) as served:
        os.close(theirs)
        await served.hears("For the file of your client")
        child = await pid_in(home)
        if not before:
            interrupt(served, signal.SIGHUP)
            await served.hears("The configuration was read again: 1 server")
        os.close(ours)
        if before:
            write(path, {"mcpServers": {**config["mcpServers"], "more": {"command": "no-such"}}})
            await served.hears("The configuration was read again: 2 servers")
            interrupt(served)
        await served.rest()
        assert served.process.returncode == 0
        await is_gone(child)


async def test_a_file_that_is_away_while_it_starts_does_not_end_it(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    # A server that takes it away: when everything is up, nothing is there to be read.
    program = f"import os; os.unlink({str(path)!r})"
    config = {"mcpServers": {"thief": {"command": sys.executable, "args": ["-c", program]}}}
    async with serving(tmp_path, config=config) as served:
        await served.hears("For the file of your client")
        assert f"configuration    {path}" in served.said
        assert not path.exists()
        async with httpx2.AsyncClient() as client:
            assert (await client.get(f"{served.url}/healthz")).status_code == 200


async def test_a_file_that_is_broken_changes_nothing(tmp_path: Path) -> None:
    config = servers(slow=script_in(tmp_path / "a"))
    async with serving(tmp_path, "--verbose", config=config) as served:
        await served.hears("For the file of your client")
        (tmp_path / "mcp.json").write_text("{", encoding="utf-8")
        await served.hears("The configuration stays as it is")
        assert await call(served, "mcp_slow_echo", {"text": "hi"}, "2026-07-28") == "hi"


async def test_a_server_that_hangs_holds_up_neither_the_others_nor_a_reload(
    tmp_path: Path,
) -> None:
    config = servers(slow=script_in(tmp_path / "a"))
    config["mcpServers"]["stuck"] = dict(STUCK)
    async with serving(tmp_path, config=config) as served:
        await served.hears("For the file of your client")
        assert re.search(r"serves \d tools of \d servers? \(\d starting\)\.", served.said)
        async with httpx2.AsyncClient() as client:
            assert (await client.get(f"{served.url}/readyz")).status_code == 200
        assert await call(served, "mcp_slow_echo", {"text": "hi"}, "legacy") == "hi"
        config["mcpServers"]["stuck2"] = dict(STUCK)
        write(tmp_path / "mcp.json", config)
        interrupt(served, signal.SIGHUP)
        await served.hears("read again: 3 servers")
        config["mcpServers"] |= servers(new=script_in(tmp_path / "b"))["mcpServers"]
        write(tmp_path / "mcp.json", config)
        interrupt(served, signal.SIGHUP)
        await served.hears("read again: 4 servers")
        with anyio.fail_after(20):
            assert await call(served, "mcp_new_echo", {"text": "ho"}, "2026-07-28") == "ho"
        interrupt(served)
        await served.rest()
        assert served.process.returncode == 0


async def test_a_file_that_is_gone_or_about_the_gateway_is_told_of(tmp_path: Path) -> None:
    path, config = tmp_path / "mcp.json", servers(slow=script_in(tmp_path / "a"))
    async with serving(tmp_path, config=config) as served:
        await served.hears("For the file of your client")
        write(path, {**config, "gateway": {"page_size": 7}})
        await served.hears("The section `gateway` has changed")
        path.unlink()
        await served.hears(f"The configuration stays as it is: {path} is gone")
        assert await call(served, "mcp_slow_echo", {"text": "hi"}, "2026-07-28") == "hi"


async def test_a_file_that_is_written_later_is_found(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        await served.hears("For the file of your client")
        write(tmp_path / "mcp.json", servers(slow=script_in(tmp_path / "a")))
        await served.hears("read again: 1 server\\.")


async def test_a_file_that_cannot_be_used_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text("{", encoding="utf-8")
    async with serving(tmp_path, "--config", "mcp.json") as served:
        assert "error: " in await served.rest()
        assert served.process.returncode == 1


async def test_other_machines_are_not_served_anonymously(tmp_path: Path) -> None:
    async with serving(tmp_path, "--host", "0.0.0.0", config=servers()) as served:
        said = await served.rest()
        assert "PEGBOARD_AUTH=keys" in said
        assert served.process.returncode == 1


async def test_other_machines_are_served_anonymously_if_somebody_insists(tmp_path: Path) -> None:
    options = ("--host", "0.0.0.0", "--allow-anonymous")
    async with serving(tmp_path, *options, config=servers()) as served:
        await served.hears("For the file of your client")


async def test_without_a_configuration_it_says_so_and_offers_a_demo(tmp_path: Path) -> None:
    async with serving(tmp_path) as served:
        await served.hears("pegboard serve --demo")
        await served.hears("For the file of your client")


async def test_the_demo_answers(tmp_path: Path) -> None:
    async with serving(tmp_path, "--demo") as served:
        await served.hears("For the file of your client")
        arguments = {"name": "mcp_numbers_calculate", "arguments": {"expression": "6 * 7"}}
        async with Client(f"{served.url}/mcp") as client:
            result = await client.call_tool("call_tool", arguments)
            assert result.content[0].model_dump()["text"] == "42.0"


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_over_stdio_a_client_calls_and_leaves_no_process_behind(
    tmp_path: Path, mode: str
) -> None:
    home = tmp_path / "a"
    write(tmp_path / "mcp.json", servers(slow=script_in(home)))
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "pegboard.cli.main", "serve", "--stdio", "--surface", "full"],
        env={"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "PEGBOARD_CONFIG": "mcp.json"},
        cwd=tmp_path,
    )
    async with Client(command, mode=mode) as client:
        # Which waits for the server; a list would do so for a few seconds only.
        result = await client.call_tool("mcp_slow_echo", {"text": "hi"})
        assert result.content[0].model_dump()["text"] == "hi"
        assert [it.name for it in (await client.list_tools(cache_mode="bypass")).tools] == [
            "mcp_slow_echo",
            "mcp_slow_wait_for",
        ]
        child = await pid_in(home)
    await is_gone(child)


async def test_the_end_of_stdin_ends_the_process_and_stdout_has_only_the_protocol(
    tmp_path: Path,
) -> None:
    home = tmp_path / "a"
    async with serving(tmp_path, "--stdio", config=servers(slow=script_in(home))) as served:
        await served.hears("standard input and output")
        child = await pid_in(home)
        stdin, stdout = served.process.stdin, served.process.stdout
        assert stdin is not None
        assert stdout is not None
        await stdin.send(b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\nnonsense\n')
        await stdin.aclose()
        await served.rest()
        lines = b"".join([part async for part in stdout]).decode().splitlines()
        assert {json.loads(line)["id"] for line in lines} == {1, None}
        assert served.process.returncode == 0
        await is_gone(child)


async def test_over_stdio_a_signal_ends_it_although_the_client_neither_writes_nor_reads(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path, "--stdio", config=servers()) as served:
        await served.hears("standard input and output")
        interrupt(served)
        await served.rest()
        assert served.process.returncode == 0


async def test_over_stdio_a_call_under_way_is_answered_before_the_process_ends(
    tmp_path: Path,
) -> None:
    home = tmp_path / "a"
    async with serving(tmp_path, "--stdio", config=servers(slow=script_in(home))) as served:
        await served.hears("standard input and output")
        stdin, stdout = served.process.stdin, served.process.stdout
        assert stdin is not None
        assert stdout is not None
        lines = BufferedByteReceiveStream(stdout)

        async def say(number: int, name: str) -> None:
            arguments = {"name": "mcp_slow_wait_for", "arguments": {"name": name}}
            body = modern_request("tools/call", {"name": "call_tool", "arguments": arguments})
            await stdin.send(json.dumps({**body, "id": number}).encode() + b"\n")

        async def hear() -> Any:
            with anyio.fail_after(15):
                return json.loads(await lines.receive_until(b"\n", 100_000))

        await say(1, "it")
        await appears(home / "it.waiting")
        interrupt(served)
        await served.hears("Finishing 1 request;")
        await say(2, "other")
        refused = await hear()
        assert (refused["id"], "shutting down" in refused["error"]["message"]) == (2, True)
        (home / "it").touch()
        answered = await hear()
        assert (answered["id"], answered["result"]["content"][0]["text"]) == (1, "it is there")
        await served.rest()
        assert served.process.returncode == 0


async def test_over_stdio_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    home = tmp_path / "a"
    config = servers(slow=script_in(home))
    async with serving(tmp_path, "--stdio", "--drain", "600", config=config) as served:
        await served.hears("standard input and output")
        assert served.process.stdin is not None
        arguments = {"name": "mcp_slow_wait_for", "arguments": {"name": "never"}}
        body = modern_request("tools/call", {"name": "call_tool", "arguments": arguments})
        await served.process.stdin.send(json.dumps(body).encode() + b"\n")
        await appears(home / "never.waiting")
        interrupt(served)
        await served.hears("Finishing 1 request;")
        interrupt(served)
        await served.rest()
        assert served.process.stdout is not None
        said = b"".join([part async for part in served.process.stdout])
        assert "may have run all the same" in json.loads(said)["error"]["message"]


async def _call_in_vain(served: Served, wire: str, told: list[str]) -> None:
    with suppress(Exception):  # the process ends meanwhile, and the client breaks
        if wire != "sse":
            place, mode = f"{served.url}/mcp-full", wire
        else:
            place, mode = sse_client(f"{served.url}/sse-full"), "legacy"
        async with Client(place, mode=mode) as client:
            try:
                await client.list_tools()
                await client.call_tool("mcp_slow_wait_for", {"name": "never"})
            except MCPError as error:
                told.append(str(error))
