import json
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from websockets.asyncio.server import serve
from websockets.typing import Subprotocol

from pegboard import ConfigError, ProtocolError, ToolExecutionError, ToolTimeoutError
from pegboard.compat.sage import MCPRegistry, RemoteMCPAdapter
from pegboard.errors import ServerUnavailableError
from tests.compat.excelmanus_servers import linux_only
from tests.upstream.http_servers import build_server, serving
from tests.upstream.processes import LIGHT, alive, all_ended, new_marker

LIGHT_CMD = [sys.executable, LIGHT]
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
ANSWERS: dict[str, Any] = {
    "nothing": {"result": {}},
    "null": {"result": None},
    "absent": {},
    "refused": {"error": {"code": -32000, "message": "not today"}},
    "words": {"result": {"content": [{"type": "text", "text": "hi"}], "_meta": {"cost": 1}}},
    "refuse": {"error": {"code": -32602, "message": "no such luck", "data": {"why": "rain"}}},
    "nonsense": {"result": {"content": 7}},
}
# Answers by the table, and writes down every line it reads, and that there are no more.
SCRIPT = """
import json, sys
answers = json.loads(sys.argv[1])
log = open(sys.argv[2], "a", encoding="utf-8", buffering=1)
for line in sys.stdin:
    log.write(line)
    request = json.loads(line)
    if "id" not in request:
        continue
    reply = {"error": {"code": -32601, "message": "unknown"}}
    if request["method"] == "initialize":
        version = request["params"]["protocolVersion"]
        info = {"name": "table", "version": "1"}
        result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
        reply = {"result": result}
    elif request["method"] == "tools/call":
        reply = answers[request["params"]["name"]]
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], **reply}), flush=True)
log.write("end\\n")
"""


@pytest.fixture
def table(tmp_path: Path) -> tuple[list[str], Path]:
    """The command of a server that answers by the table, and where it writes what it read."""
    log = tmp_path / "log"
    return [sys.executable, "-c", SCRIPT, json.dumps(ANSWERS), str(log)], log


def light(name: str, **options: Any) -> RemoteMCPAdapter:
    return RemoteMCPAdapter(name, "", {}, LIGHT_CMD, **options)


@pytest.mark.covers("R-SAGE-19", "R-SAGE-20", "R-SAGE-25")
def test_the_usage_of_the_document(tmp_path: Path) -> None:
    reg = MCPRegistry()
    remote = RemoteMCPAdapter(
        name="echo",
        description="Search the web",
        input_schema={
            "type": "object",
            "properties": {"query": {"type": "string"}},
            "required": ["query"],
        },
        server_cmd=["sh", "-c", f"exec {sys.executable} {LIGHT}"],
    )
    reg.register(remote)
    assert reg.describe() == {
        "echo": {
            "description": "Search the web",
            "input_schema": {
                "type": "object",
                "properties": {"query": {"type": "string"}},
                "required": ["query"],
            },
        }
    }
    assert (remote.name, remote.description) == ("echo", "Search the web")
    with remote:
        assert reg.call("echo", {"text": "hi"}) == {"output": "hi"}


def test_making_an_adapter_starts_nothing(tmp_path: Path) -> None:
    trace = tmp_path / "started"
    RemoteMCPAdapter("a", "", {}, ["touch", str(trace)]).close()
    assert not trace.exists()


@pytest.mark.covers("R-SAGE-21", "R-SAGE-24")
def test_it_speaks_json_rpc_over_one_connection(table: tuple[list[str], Path]) -> None:
    command, log = table
    with RemoteMCPAdapter("words", "", {}, command) as words:
        for number in range(3):
            assert words.call({"n": number}) == {"output": "hi", "meta": {"cost": 1}}
    *lines, end = log.read_text("utf-8").splitlines()
    assert end == "end", "closing lets the server finish by itself"
    messages = [json.loads(line) for line in lines]
    assert {message["jsonrpc"] for message in messages} == {"2.0"}
    ids = [message["id"] for message in messages if "id" in message]
    assert len(set(ids)) == len(ids)
    calls = [message["params"] for message in messages if message["method"] == "tools/call"]
    assert [(it["name"], it["arguments"]) for it in calls] == [
        ("words", {"n": number}) for number in range(3)
    ]


@pytest.mark.covers("R-SAGE-22")
def test_a_json_rpc_error_is_a_runtime_error_that_carries_it(
    table: tuple[list[str], Path],
) -> None:
    with (
        RemoteMCPAdapter("refuse", "", {}, table[0]) as refuse,
        pytest.raises(RuntimeError, match="no such luck") as caught,
    ):
        refuse.call({})
    assert isinstance(caught.value, ProtocolError)
    assert (caught.value.rpc_code, caught.value.data) == (-32602, {"why": "rain"})


@pytest.mark.covers("R-SAGE-23")
@pytest.mark.parametrize("name", ["nothing", "null", "absent"])
def test_an_answer_without_a_result_is_an_empty_object(
    name: str, table: tuple[list[str], Path]
) -> None:
    with RemoteMCPAdapter(name, "", {}, table[0]) as nothing:
        assert nothing.call({}) == {}


@pytest.mark.covers("R-SAGE-22")
def test_a_server_may_use_the_code_of_a_lost_connection(table: tuple[list[str], Path]) -> None:
    with (
        RemoteMCPAdapter("refused", "", {}, table[0]) as refused,
        pytest.raises(RuntimeError, match="not today"),
    ):
        refused.call({})


def test_an_answer_that_is_no_result_is_a_runtime_error(table: tuple[list[str], Path]) -> None:
    with (
        RemoteMCPAdapter("nonsense", "", {}, table[0]) as nonsense,
        pytest.raises(RuntimeError, match="not a valid result"),
    ):
        nonsense.call({})


def test_structured_content_comes_before_text_and_failures_are_raised() -> None:
    with light("add") as add, light("fail") as fail:
        assert add.call({"a": 1, "b": 2}) == {"output": {"total": 3}}
        with pytest.raises(ToolExecutionError, match="too hot"):
            fail.call({"message": "too hot"})


@linux_only
@pytest.mark.covers("R-SAGE-24")
def test_adapters_of_one_command_share_a_process_until_the_last_is_closed() -> None:
    name, _, value = (marker := new_marker()).partition("=")
    first, second = (light("pid", env={name: value}) for _ in range(2))
    assert first.call({}) == second.call({})
    assert len(alive(marker)) == 1
    first.close()
    first.close()
    before = second.call({})
    assert len(alive(marker)) == 1
    second.close()
    anyio.run(all_ended, marker)
    assert second.call({}) != before
    second.close()
    anyio.run(all_ended, marker)


@pytest.mark.covers("R-SAGE-24")
def test_many_threads_call_at_once_and_each_gets_its_own_answer() -> None:
    texts = [f"text {number}" for number in range(32)]
    together = threading.Barrier(len(texts))
    with light("echo") as echo, light("pid") as pid:

        def call(text: str) -> Any:
            together.wait(5)
            return echo.call({"text": text}), pid.call({})["output"]

        with ThreadPoolExecutor(len(texts)) as pool:
            answers = list(pool.map(call, texts))
    assert [answer for answer, _ in answers] == [{"output": text} for text in texts]
    assert len({process for _, process in answers}) == 1


@pytest.mark.covers("R-SAGE-24")
def test_a_server_that_died_is_started_again_by_the_next_call() -> None:
    with light("crash") as crash, light("echo") as echo:
        with pytest.raises(ConnectionError):
            crash.call({})
        assert echo.call({"text": "back"}) == {"output": "back"}


async def test_it_can_be_called_in_a_running_loop() -> None:
    with light("echo") as echo:
        assert echo.call({"text": "hi"}) == {"output": "hi"}


def test_a_call_that_takes_too_long_is_a_timeout_and_nothing_more() -> None:
    with light("slow", timeout=0.05) as slow, light("echo") as echo:
        with pytest.raises(ToolTimeoutError):
            slow.call({"seconds": 60})
        assert echo.call({"text": "still here"}) == {"output": "still here"}


def test_what_cannot_be_a_server_is_refused_where_it_was_written() -> None:
    for arguments in (
        {},
        {"server_cmd": []},
        {"server_cmd": [""]},
        {"server_cmd": "python server.py"},
        {"server_cmd": ["python"], "url": "ws://localhost"},
        {"url": "carrier pigeon"},
        {"server_cmd": ["python"], "timeout": 0},
    ):
        with pytest.raises(ConfigError):
            RemoteMCPAdapter("a", "", {}, **arguments)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ServerUnavailableError, match="no-such-program"):
        RemoteMCPAdapter("a", "", {}, ["no-such-program"]).call({})


async def test_a_server_over_http_is_called_by_its_address() -> None:
    async with serving(build_server().streamable_http_app()) as origin:
        echo = RemoteMCPAdapter("echo", "", TEXT, url=f"{origin}/mcp")
        answer = await anyio.to_thread.run_sync(echo.call, {"text": "far"})
        await anyio.to_thread.run_sync(echo.close)
    assert answer == {"output": {"result": "far"}}


@asynccontextmanager
async def web_socket_server() -> AsyncGenerator[str]:
    async def converse(socket: Any) -> None:
        async for line in socket:
            request = json.loads(line)
            if "id" not in request:
                continue
            reply: dict[str, Any] = {"error": {"code": -32601, "message": "unknown"}}
            if request["method"] == "initialize":
                info = {"name": "socket", "version": "1"}
                version = request["params"]["protocolVersion"]
                capabilities: dict[str, Any] = {"tools": {}}
                reply = {
                    "result": {
                        "protocolVersion": version,
                        "capabilities": capabilities,
                        "serverInfo": info,
                    }
                }
            elif request["method"] == "tools/call":
                reply = ANSWERS[request["params"]["name"]]
            await socket.send(json.dumps({"jsonrpc": "2.0", "id": request["id"], **reply}))

    async with serve(converse, "127.0.0.1", 0, subprotocols=[Subprotocol("mcp")]) as server:
        yield f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"


@pytest.mark.covers("R-SAGE-26")
async def test_a_server_over_a_web_socket_is_called_by_its_address() -> None:
    async with web_socket_server() as url:
        words = RemoteMCPAdapter("words", "", {}, url=url)
        refuse = RemoteMCPAdapter("refuse", "", {}, url=url)
        answer = await anyio.to_thread.run_sync(words.call, {})
        with pytest.raises(RuntimeError, match="no such luck"):
            await anyio.to_thread.run_sync(refuse.call, {})
        for adapter in (words, refuse):
            await anyio.to_thread.run_sync(adapter.close)
    assert answer["output"] == "hi"


LEAVING = """
import sys
from pegboard.compat.sage import RemoteMCPAdapter
print(RemoteMCPAdapter("words", "", {}, sys.argv[1:]).call({}))
"""


def test_servers_are_closed_when_the_interpreter_exits(table: tuple[list[str], Path]) -> None:
    command, log = table
    run = subprocess.run(
        [sys.executable, "-c", LEAVING, *command], capture_output=True, encoding="utf-8", check=True
    )
    assert run.stdout == "{'output': 'hi', 'meta': {'cost': 1}}\n"
    assert run.stderr == ""
    assert log.read_text("utf-8").endswith("end\n")


FORKING = """
import os, sys
from pegboard.compat.sage import RemoteMCPAdapter
pid = RemoteMCPAdapter("pid", "", {}, sys.argv[1:])
before = pid.call({})
if os.fork() == 0:
    print(pid.call({}) != before, flush=True)
    pid.close()
    os._exit(0)
os.wait()
print(pid.call({}) == before)
"""


@linux_only
def test_a_forked_child_has_a_server_of_its_own() -> None:
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKING, *LIGHT_CMD],
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    assert run.stdout == "True\nTrue\n"
