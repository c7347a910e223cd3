"""`pegboard serve` is killed while tasks run, and a new process on the same store goes on."""

import signal
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp_types import CLIENT_CAPABILITIES_META_KEY

from tests.server.processes import Served, serving
from tests.server.serving import modern_headers, modern_request
from tests.upstream.board_servers import SERVERS

DECLARED: dict[str, Any] = {
    CLIENT_CAPABILITIES_META_KEY: {"extensions": {"io.modelcontextprotocol/tasks": {}}}
}
WORKING = {"status": "working"}
DONE = {"status": "completed", "result": {"content": [{"type": "text", "text": "dug"}]}}
PLAIN = """
import sys, json
for line in sys.stdin:
    request = json.loads(line)
    method, number = request.get("method"), request.get("id")
    if method == "initialize":
        info = {"name": "plain", "version": "1"}
        said = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    elif method == "tools/list":
        said = {"tools": [{"name": "sleep", "inputSchema": {"type": "object"}}]}
    elif method == "server/discover":
        error = {"code": -32601, "message": "No such method."}
        print(json.dumps({"jsonrpc": "2.0", "id": number, "error": error}), flush=True)
        continue
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": number, "result": said}), flush=True)
"""


async def ask(place: Served, method: str, **params: Any) -> dict[str, Any]:
    body = modern_request(method, params, **DECLARED)
    async with httpx2.AsyncClient(timeout=30) as client:
        response = await client.post(
            f"{place.url}/mcp-full", json=body, headers=modern_headers(body)
        )
    said = response.json()
    assert "error" not in said, said
    return said["result"]


async def ended(place: Served, task: str) -> dict[str, Any]:
    with anyio.fail_after(40):
        while True:
            found = await ask(place, "tasks/get", taskId=task)
            if found["status"] not in ("working", "input_required"):
                return found


@pytest.mark.timeout(120)
@pytest.mark.parametrize("era", ["modern", "handshake"])
async def test_tasks_survive_a_killed_gateway(tmp_path: Path, era: str) -> None:
    (tmp_path / "plain.py").write_text(PLAIN, encoding="utf-8")
    script = [str(SERVERS / "task_server.py"), era, str(tmp_path / "tasks.json")]
    config = {
        "mcpServers": {
            "digger": {"command": sys.executable, "args": script},
            "plain": {"command": sys.executable, "args": [str(tmp_path / "plain.py")]},
        },
        "gateway": {"task_lease": 2, "task_after": 0.2},
    }
    store = ("--store", f"sqlite://{tmp_path / 'board.db'}")
    done = DONE if era == "modern" else {"status": "completed"}
    states = [*[WORKING] * 12, done]
    tool = "digger_go" if era == "modern" else "digger_may"
    async with serving(tmp_path, *store, config=config) as place:
        await place.hears("For the file of your client")
        tools = [it["name"] for it in (await ask(place, "tools/list"))["tools"]]
        [name] = [it for it in tools if it.endswith(tool)]
        [sleep] = [it for it in tools if it.endswith("sleep")]
        made = await ask(place, "tools/call", name=name, arguments={"states": states})
        lost = await ask(place, "tools/call", name=sleep, arguments={})
        assert (made["resultType"], lost["resultType"]) == ("task", "task")
        with anyio.fail_after(20):
            # The server has made its task by then, and the store knows it.
            while not (tmp_path / "tasks.json").exists():  # noqa: ASYNC110 - a file of another process
                await anyio.sleep(0.01)
        place.process.send_signal(signal.SIGKILL)
        await place.process.wait()
    async with serving(tmp_path, *store, config=config) as place:
        await place.hears("For the file of your client")
        found = await ended(place, made["taskId"])
        assert found["status"] == "completed"
        expected = "dug" if era == "modern" else "done"
        assert found["result"]["content"] == [{"type": "text", "text": expected}]
        found = await ended(place, lost["taskId"])
        assert found["status"] == "failed"
        assert "restarted" in found["error"]["message"]
