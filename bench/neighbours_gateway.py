"""The gateway under attack: a process with two tenants, its keys, and what it holds."""

import json
import os
import resource
import signal
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from bench.gateway_contenders import OURS, free_port, running
from bench.measure import ROOT, WORKERS
from bench.workers.gateway_load import HANDSHAKE, MODERN, post
from bench.workers.neighbour_victim import Requests

MOST_MEMORY = 6 << 30
"""Bytes of address space that the gateway may have; so it cannot take the machine down."""
START = 40
"""How many servers the tenants `starting…` have, each with another first answer."""
KEYS: dict[str, dict[str, Any]] = {
    "admin": {"tenant": "default", "scopes": ["admin"]},
    "victim": {"tenant": "victim", "scopes": ["call"]},
    "attacker": {"tenant": "attacker", "scopes": ["call"]},
    "registrar": {"tenant": "attacker", "scopes": ["call", "register"]},
    "limited": {
        "tenant": "attacker",
        "scopes": ["call", "register"],
        "calls_per_minute": 60,
        "concurrent_calls": 1,
    },
    **{f"subject{it}": {"tenant": "attacker", "scopes": ["call"]} for it in range(16)},
    **{
        f"starting-{era}-{kind}": {"tenant": f"starting-{era}-{kind}", "scopes": ["call"]}
        for era in ("modern", "handshake")
        for kind in ("hostile", "harmless")
    },
}
_MAKE_KEYS = """
import json, sys
from pegboard.auth import ApiKeys, KeyGrant
from pegboard.storage import open_store
wanted = json.load(sys.stdin)
with open_store(sys.argv[1], tenant="pegboard") as store, ApiKeys(store) as keys:
    made = {}
    for name, said in wanted.items():
        said = {key: tuple(it) if isinstance(it, list) else it for key, it in said.items()}
        made[name] = keys.create(KeyGrant(name=name, **said)).secret
print(json.dumps(made))
"""


@dataclass(kw_only=True)
class Arena:
    """A gateway that runs, and the ways to it."""

    origin: str
    keys: Mapping[str, str]
    process: "subprocess.Popen[bytes]"
    folder: Path
    hostile_port: int
    said: Path
    opened: list[Requests] = field(default_factory=list[Requests])
    sessions: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def pid(self) -> int:
        return self.process.pid

    def loop_seconds(self) -> float:
        """CPU time of the thread that runs the event loop."""
        try:
            text = Path(f"/proc/{self.pid}/task/{self.pid}/schedstat").read_text("ascii")
        except OSError:
            return 0.0
        return int(text.split()[0]) / 1e9

    def resident_mib(self) -> float:
        """What its process holds in memory."""
        try:
            lines = Path(f"/proc/{self.pid}/status").read_text("ascii").splitlines()
        except OSError:
            return 0.0
        found = [int(it.split()[1]) for it in lines if it.startswith("VmRSS:")]
        return found[0] / 1024 if found else 0.0

    def held(self) -> dict[str, float]:
        """What the gateway holds: memory, descriptors, tasks, sessions, requests."""
        request = urllib.request.Request(
            f"{self.origin}/metrics", headers={"Authorization": f"Bearer {self.keys['admin']}"}
        )
        with urllib.request.urlopen(request, timeout=2) as answer:
            lines = answer.read().decode().splitlines()
        gauges = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        busy, began = self.loop_seconds(), time.perf_counter()
        time.sleep(0.3)
        return {
            "MiB": self.resident_mib(),
            "descriptors": len(list(Path(f"/proc/{self.pid}/fd").iterdir())),
            "tasks": float(gauges.get("pegboard_tasks", 0)),
            "sessions": sum(
                float(it) for name, it in gauges.items() if name.startswith("pegboard_sessions")
            ),
            "running": float(gauges.get("pegboard_requests_running", 0)),
            "loop": (self.loop_seconds() - busy) / (time.perf_counter() - began),
        }

    def connection(self) -> Requests:
        """A connection of the attacker, closed at the end of the phase."""
        connection = Requests()
        self.opened.append(connection)
        return connection

    async def send(self, connection: Requests, request: bytes) -> tuple[int, bytes]:
        """Send the bytes of a request; gives status and body of the response."""
        host, _, port = self.origin.removeprefix("http://").partition(":")
        return await connection.ask(host, int(port), request)

    def modern(
        self,
        body: bytes,
        *,
        method: str = "tools/call",
        name: str | None = None,
        key: str = "attacker",
        path: str = "/mcp-full",
        more: Mapping[str, str] | None = None,
    ) -> bytes:
        """The bytes of a request of the modern era."""
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, **(more or {})}
        if name is not None:
            headers["Mcp-Name"] = name
        return self._request(body, headers, key=key, path=path)

    async def handshake(self, body: bytes, *, key: str = "attacker", new: bool = False) -> bytes:
        """The bytes of a request of the handshake era, within a session of the key."""
        if new or key not in self.sessions:
            self.sessions[key] = await self.open_session(self.connection(), key=key)
        headers = {"MCP-Protocol-Version": HANDSHAKE, "Mcp-Session-Id": self.sessions[key]}
        return self._request(body, headers, key=key)

    def without_session(self, body: bytes, *, key: str = "attacker") -> bytes:
        """The bytes of an `initialize`."""
        return self._request(body, {}, key=key)

    async def open_session(self, connection: Requests, *, key: str = "attacker") -> str:
        """Shake hands; gives the id of the session."""
        client = {"name": "attacker", "version": "1"}
        able = {"elicitation": {"form": {}}, "sampling": {}, "roots": {}}
        params = {"protocolVersion": HANDSHAKE, "capabilities": able, "clientInfo": client}
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        connection.session = ""
        await self.send(connection, self.without_session(json.dumps(message).encode(), key=key))
        session = connection.session
        if session:
            said = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
            headers = {"MCP-Protocol-Version": HANDSHAKE, "Mcp-Session-Id": session}
            await self.send(connection, self._request(said, headers, key=key))
        return session

    async def end_session(self, connection: Requests, session: str, *, key: str) -> None:
        headers = {"MCP-Protocol-Version": HANDSHAKE, "Mcp-Session-Id": session}
        request = self._request(b"", headers, key=key).replace(b"POST", b"DELETE", 1)
        await self.send(connection, request)

    def _request(
        self, body: bytes, headers: Mapping[str, str], *, key: str, path: str = "/mcp-full"
    ) -> bytes:
        secret = {"Authorization": f"Bearer {self.keys[key]}"}
        # The length and the body are put behind the headers of a request without a body.
        head, _, _ = post(f"{self.origin}{path}", {}, {**headers, **secret}).partition(b"\r\n\r\n")
        lines = [it for it in head.split(b"\r\n") if not it.startswith(b"Content-Length")]
        return b"\r\n".join([*lines, b"Content-Length: %d" % len(body), b"", b""]) + body

    async def order(self, era: str, **order: Any) -> None:
        """Tell the attacker's server of an era what to answer from now on."""
        body = json.dumps(order).encode()
        if era == "handshake":
            await anyio.to_thread.run_sync(self._write_order, body)
            return
        connection = Requests()
        request = post(f"http://127.0.0.1:{self.hostile_port}/order", order, {})
        await connection.ask("127.0.0.1", self.hostile_port, request)
        connection.transport.close()

    def _write_order(self, body: bytes) -> None:
        try:
            descriptor = os.open(self.folder / "orders", os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return  # the server does not run at this moment
        try:
            os.write(descriptor, body + b"\n")
        finally:
            os.close(descriptor)

    def close(self, connection: Requests) -> None:
        """Leave a connection at once."""
        if connection.transport is not None:
            connection.transport.abort()
        if connection in self.opened:
            self.opened.remove(connection)

    def close_connections(self) -> None:
        """Leave: close every connection of the attacker."""
        for it in tuple(self.opened):
            self.close(it)

    def stop(self) -> None:
        """End the gateway, at once if it does not end by itself."""
        self.process.terminate()
        try:
            self.process.wait(8)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()


@contextmanager
def arena(python: Path = OURS) -> Iterator[Arena]:
    """Start a gateway with its tenants, their servers and keys; end all of it afterwards."""
    port, hostile, light = free_port(), free_port(), free_port()
    with (
        tempfile.TemporaryDirectory() as name,
        running(
            [OURS, "-m", "bench.workers.hostile_server", "http", hostile],
            f"http://127.0.0.1:{hostile}/mcp",
        ),
        running([OURS, WORKERS / "light_server.py", light], f"http://127.0.0.1:{light}/mcp"),
    ):
        folder = Path(name)
        os.mkfifo(folder / "orders")
        _write_config(folder, hostile, light)
        store = f"sqlite:///{folder}/store.db"
        kept = {it: value for it, value in os.environ.items() if not it.startswith("PEGBOARD_")}
        environ = {**kept, "HOME": name}
        made = subprocess.run(
            [python, "-c", _MAKE_KEYS, store],
            input=json.dumps(KEYS),
            env=environ,
            capture_output=True,
            check=True,
            encoding="utf-8",
        )
        command = [python, "-m", "pegboard.cli.main", "serve", "--config", folder / "mcp.json"]
        command += ["--store", store, "--port", str(port), "--drain", "1"]
        said = folder / "said.txt"
        with said.open("wb") as output:
            process = subprocess.Popen(
                command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, stdout=output,
                stderr=output,
            )  # fmt: skip
        resource.prlimit(process.pid, resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
        found = Arena(
            origin=f"http://127.0.0.1:{port}",
            keys=json.loads(made.stdout),
            process=process,
            folder=folder,
            hostile_port=hostile,
            said=said,
        )
        try:
            _wait_for(found)
            yield found
        finally:
            found.stop()


def _write_config(folder: Path, hostile: int, light: int) -> None:
    stdio = [str(OURS), "-m", "bench.workers.hostile_server", "stdio"]
    child: dict[str, Any] = {"command": stdio[0], "args": stdio[1:], "cwd": str(ROOT)}
    child["protocol"] = "legacy"
    tenants: dict[str, dict[str, Any]] = {
        "victim": {"near": {"url": f"http://127.0.0.1:{light}/mcp"}, "own": child},
        "attacker": {
            "bad": {"url": f"http://127.0.0.1:{hostile}/mcp"},
            "asks": {"url": f"http://127.0.0.1:{hostile}/asks", "protocol": "legacy"},
            "pipe": {**child, "env": {"HOSTILE_ORDERS": str(folder / "orders")}},
        },
    }
    for era in ("modern", "handshake"):
        for kind in ("hostile", "harmless"):
            tenants[f"starting-{era}-{kind}"] = {
                f"s{it}": {
                    "url": f"http://127.0.0.1:{hostile}/start/{era}/"
                    f"{'harmless' if kind == 'harmless' else it * 7}"
                }
                for it in range(START)
            }
    for tenant, servers in tenants.items():
        path = folder / f"{tenant}.mcp.json"
        path.write_text(json.dumps({"mcpServers": servers}), "utf-8")
    settings = {"auth": {"keys": True}, "tenants": {it: f"{it}.mcp.json" for it in tenants}}
    whole = {"mcpServers": {}, "gateway": settings}
    (folder / "mcp.json").write_text(json.dumps(whole), "utf-8")


def _wait_for(found: Arena) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and found.process.poll() is None:
        try:
            urllib.request.urlopen(f"{found.origin}/readyz", timeout=2).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit(f"The gateway did not start:\n{found.said.read_text('utf-8')[-3000:]}")
