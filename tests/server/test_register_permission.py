"""Who may register tools at a `pegboard serve` without keys: its owner, and who is allowed to."""

import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
import msgspec
import pytest
from mcp import Client, MCPError, StdioServerParameters

from pegboard.server.process.instance_discovery import RunningInstance
from tests.auth.test_matrix_of_wires import Modern, scope_in, wires
from tests.server.processes import ROOT, serving
from tests.server.serving import modern_headers, modern_request

TOOL = {"name": "water_plants", "description": "Water the plants on the balcony."}
REGISTER: dict[str, Any] = {"name": "register_tool", "arguments": TOOL}
UNREGISTER: dict[str, Any] = {"name": "unregister_tool", "arguments": {"tool_name": TOOL["name"]}}
READY = "For the file of your client"


async def names(wire: Any) -> set[str]:
    listed = await wire.send("tools/list", {})
    return {it["name"] for it in listed["result"]["tools"]}


@pytest.mark.covers("R-REG-37")
async def test_a_client_without_a_credential_registers_nothing_over_http(tmp_path: Path) -> None:
    async with serving(tmp_path, "--demo") as served:
        await served.hears(READY)
        assert "`--allow-register` lets every client register tools" in served.said
        with anyio.fail_after(20):
            # A credential that this gateway does not ask for gives no permission either.
            async with wires(served.url, "pb_made_up", "search") as connected:
                for wire in connected.values():
                    shown = await names(wire)
                    assert "search_tools" in shown
                    assert "call_tool" in shown
                    assert not {"register_tool", "unregister_tool"} & shown
                    for request in (REGISTER, UNREGISTER):
                        refused = await wire.send("tools/call", request)
                        assert scope_in(refused) == "register"
                        for remedy in ("--allow-register", "allow_register", "API keys"):
                            assert remedy in refused["error"]["message"]
                    found = {"name": "search_tools", "arguments": {"query": "water the plants"}}
                    assert TOOL["name"] not in str(await wire.send("tools/call", found))


async def test_a_refusal_asks_for_no_credential_where_none_is_accepted(tmp_path: Path) -> None:
    async with serving(tmp_path, "--demo") as served:
        await served.hears(READY)
        with anyio.fail_after(20):
            async with Client(f"{served.url}/mcp") as client:
                with pytest.raises(MCPError, match="--allow-register"):
                    await client.call_tool("register_tool", TOOL)
            body = modern_request("tools/call", REGISTER)
            async with httpx2.AsyncClient() as client:
                url, headers = f"{served.url}/mcp", modern_headers(body)
                refused = await client.post(url, json=body, headers=headers)
                # What else an operator may do without keys, every client on this machine still may.
                metrics = await client.get(f"{served.url}/metrics")
    assert refused.status_code == 403
    assert "www-authenticate" not in refused.headers
    assert metrics.status_code == 200


@pytest.mark.covers("R-REG-37")
@pytest.mark.parametrize("way", ["option", "setting"])
async def test_the_operator_can_let_every_client_register(tmp_path: Path, way: str) -> None:
    setting = {"gateway": {"auth": {"allow_register": way == "setting"}}, "mcpServers": {}}
    options = ["--allow-register"] if way == "option" else []
    async with serving(tmp_path, *options, config=setting) as served:
        await served.hears(READY)
        assert "for every client" in served.said
        with anyio.fail_after(20):
            async with wires(served.url, "", "search") as connected:
                for wire in connected.values():
                    assert {"register_tool", "unregister_tool"} <= await names(wire)
                    for request in (REGISTER, UNREGISTER):
                        done = await wire.send("tools/call", request)
                        assert not done["result"].get("isError")


@pytest.mark.covers("R-REG-37")
async def test_the_owner_registers_with_the_token_of_the_process(tmp_path: Path) -> None:
    async with serving(tmp_path, "--demo", XDG_STATE_HOME=str(tmp_path / "state")) as served:
        await served.hears(READY)
        [path] = (tmp_path / "state").rglob("gateways/*.json")
        running = msgspec.json.decode(path.read_bytes(), type=RunningInstance)
        headers = {"authorization": f"Bearer {running.token}"}
        with anyio.fail_after(20):
            async with httpx2.AsyncClient(headers=headers) as client:
                owner = Modern(client, f"{served.url}/mcp")
                assert "register_tool" in await names(owner)
                assert not (await owner.send("tools/call", REGISTER))["result"].get("isError")
            async with httpx2.AsyncClient() as client:
                stranger = Modern(client, f"{served.url}/mcp")
                assert scope_in(await stranger.send("tools/call", UNREGISTER)) == "register"


@pytest.mark.covers("R-REG-37")
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_over_stdio_registers(tmp_path: Path, mode: Any) -> None:
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "pegboard.cli.main", "serve", "--stdio", "--demo"],
        env={"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
    )
    with anyio.fail_after(30):
        async with Client(command, mode=mode) as client:
            assert not (await client.call_tool("register_tool", TOOL)).is_error
            found = await client.call_tool("search_tools", {"query": "water the plants"})
    assert TOOL["name"] in str(found.content)
