"""Gateways to measure, each a process of its own in front of the same upstream."""

import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.measure import ROOT, WORKERS, run_worker
from bench.peers import python_of, versions

OURS = Path(sys.executable)
UPSTREAM = WORKERS / "upstream_server.py"
TICKS = os.sysconf("SC_CLK_TCK")
_UNVERIFIED = ssl.create_default_context()
"""To see that a server of ours has started; what is measured verifies its certificate."""
_UNVERIFIED.check_hostname = False
_UNVERIFIED.verify_mode = ssl.CERT_NONE


@dataclass(frozen=True, kw_only=True)
class Contender:
    """A gateway that runs: where it is, what the echo is called there, and its process."""

    url: str
    tool: str
    pid: int
    eras: tuple[str, ...] = ("modern", "legacy")

    @property
    def origin(self) -> str:
        """The address without a path."""
        return self.url.rpartition("/")[0]

    def cpu_seconds(self) -> float:
        """What its process has worked so far; its children not included."""
        fields = Path(f"/proc/{self.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def load(self, era: str, connections: int, seconds: float) -> dict[str, float]:
        """Call its echo on some connections at once; gives its CPU time per call, and more."""
        before = self.cpu_seconds()
        found = run_worker(
            OURS, "gateway_load", self.url, era, self.tool, str(connections), str(seconds)
        )
        return {**found, "cpu_per_call": (self.cpu_seconds() - before) / found["calls"]}

    def resident_mib(self) -> float:
        """What its process holds in memory."""
        for line in Path(f"/proc/{self.pid}/status").read_text("ascii").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise SystemExit(f"Process {self.pid} is gone.")


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def running(
    command: list[Any],
    url: str,
    *,
    env: Mapping[str, str] | None = None,
    seconds: float = 120,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server until it has answered at a URL, whatever it answers; end it afterwards."""
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            [str(it) for it in command],
            cwd=ROOT,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
        )
        try:
            deadline = time.monotonic() + seconds
            while not _answers(url):
                if time.monotonic() > deadline or process.poll() is not None:
                    said.seek(0)
                    words = said.read().decode(errors="replace")[-3000:]
                    raise SystemExit(f"{command} did not start:\n{words}")
                time.sleep(0.01)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=5, context=_UNVERIFIED).close()
    except urllib.error.HTTPError as error:
        return error.code != 503
    except OSError:
        return False
    return True


@contextmanager
def upstream(certificate: Path | None = None) -> Iterator[Contender]:
    """The bare server that everybody stands in front of."""
    with _listening([OURS, UPSTREAM, "http"], certificate) as contender:
        yield contender


@contextmanager
def light_http(certificate: Path | None = None) -> Iterator[Contender]:
    """An upstream that takes next to no time."""
    with _listening([OURS, WORKERS / "light_server.py"], certificate) as contender:
        yield contender


@contextmanager
def _listening(command: list[Any], certificate: Path | None) -> Iterator[Contender]:
    port = free_port()
    url = f"{'https' if certificate else 'http'}://127.0.0.1:{port}/mcp"
    tls = [certificate] if certificate else []
    with running([*command, port, *tls], f"{url}/") as process:
        yield Contender(url=url, tool="echo", pid=process.pid)


@contextmanager
def pegboard(
    servers: Mapping[str, Any],
    *options: str,
    python: Path = OURS,
    env: Mapping[str, str] | None = None,
) -> Iterator[Contender]:
    """Our own gateway, as `pegboard serve` starts it, with nothing of this user's in reach."""
    port = free_port()
    origin = f"http://127.0.0.1:{port}"
    with (
        serve_command(servers, python=python) as command,
        running([*command, "--port", port, *options], f"{origin}/readyz", env=env) as process,
    ):
        yield Contender(url=f"{origin}/mcp-full", tool="echo", pid=process.pid)


@contextmanager
def serve_command(servers: Mapping[str, Any], *, python: Path = OURS) -> Iterator[list[str]]:
    """What starts our own gateway in front of some servers."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "mcp.json"
        config.write_text(json.dumps({"mcpServers": servers}), "utf-8")
        command = [str(python), "-m", "pegboard.cli.main", "serve", "--config", str(config)]
        yield [*command, "--store", f"sqlite:///{folder}/store.db"]


def echo_at(url: str) -> dict[str, Any]:
    """The upstream behind HTTP, as an entry of `mcp.json`."""
    return {"echo": {"url": url, "prefix": ""}}


STDIO = [str(OURS), str(UPSTREAM), "stdio"]
"""The upstream as a child."""


@contextmanager
def light_stdio() -> Iterator[list[str]]:
    """An upstream as a child that takes next to no time, so that only the gateway counts."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tools.json"
        echo = {"name": "echo", "description": "SearchResponse.", "inputSchema": {"type": "object"}}
        file.write_text(json.dumps([echo]), "utf-8")
        yield [str(OURS), "-S", "-E", str(WORKERS / "catalogue_server.py"), str(file)]


def echo_over_stdio(command: list[str] = STDIO) -> dict[str, Any]:
    """A child as an entry of `mcp.json`."""
    return {"echo": {"command": command[0], "args": command[1:], "prefix": ""}}


@contextmanager
def fastmcp(kind: str, url: str) -> Iterator[Contender]:
    """FastMCP's proxy: `default`, or with a client that stays `connected`."""
    port = free_port()
    command = [python_of("fastmcp"), WORKERS / "gateway_fastmcp.py", kind, url, port]
    address = f"http://127.0.0.1:{port}/mcp"
    with running(command, address) as process:
        yield Contender(url=address, tool="echo", pid=process.pid)


@contextmanager
def mcp_proxy(child: list[str] = STDIO) -> Iterator[Contender]:
    """`mcp-proxy`, which reaches a stdio upstream over HTTP; it knows the handshake era only."""
    port = free_port()
    binary = python_of("mcp-proxy").with_name("mcp-proxy")
    command = [binary, "--port", port, "--log-level", "CRITICAL", "--", *child]
    address = f"http://127.0.0.1:{port}/mcp"
    with running(command, f"http://127.0.0.1:{port}/status") as process:
        yield Contender(url=address, tool="echo", pid=process.pid, eras=("legacy",))


def mcp_proxy_to(url: str) -> AbstractContextManager[Contender]:
    """Two of them, one behind the other: each has HTTP on one side only."""
    binary = str(python_of("mcp-proxy").with_name("mcp-proxy"))
    quietly = ["--log-level", "CRITICAL"]
    return mcp_proxy([binary, "--transport", "streamablehttp", *quietly, url])


@contextmanager
def contextforge(url: str) -> Iterator[Contender]:
    """IBM ContextForge without authentication, limits and metrics, which would slow it down."""
    port = free_port()
    origin = f"http://127.0.0.1:{port}"
    binary = python_of("contextforge").with_name("mcpgateway")
    command = [binary, "mcpgateway.main:app", "--host", "127.0.0.1", "--port", port]
    with tempfile.TemporaryDirectory() as folder:
        env = {
            "DATABASE_URL": f"sqlite:///{folder}/mcp.db",
            "AUTH_REQUIRED": "false",
            "ALLOW_UNAUTHENTICATED_ADMIN": "true",
            "MCP_REQUIRE_AUTH": "false",
            "RATE_LIMITING_ENABLED": "false",
            "DB_METRICS_RECORDING_ENABLED": "false",
            "TOKEN_USAGE_LOGGING_ENABLED": "false",
            "MCPGATEWAY_UI_ENABLED": "false",
            "LOG_LEVEL": "CRITICAL",
            "ENVIRONMENT": "development",
            "JWT_SECRET_KEY": "only-for-this-measurement-0123456789",
            "AUTH_ENCRYPTION_SECRET": "only-for-this-measurement-0123456789",
            "PLATFORM_ADMIN_PASSWORD": "Only-for-this-measurement-1!",
            "DEFAULT_USER_PASSWORD": "Only-for-this-measurement-2!",
            "SSRF_ALLOW_LOCALHOST": "true",
            "SSRF_ALLOW_PRIVATE_NETWORKS": "true",
        }
        with running(command, f"{origin}/health", env=env) as process:
            peer = {"name": "peer", "url": url, "transport": "STREAMABLEHTTP"}
            request = urllib.request.Request(
                f"{origin}/gateways",
                json.dumps(peer).encode(),
                {"Content-Type": "application/json"},
            )
            urllib.request.urlopen(request, timeout=60).close()
            # Version 1.1 brought the SDK 2, and with it the modern era.
            sdk = versions(python_of("contextforge"), ["mcp"])["mcp"]
            eras = ("legacy",) if sdk.startswith("1.") else ("modern", "legacy")
            yield Contender(url=f"{origin}/mcp", tool="peer-echo", pid=process.pid, eras=eras)
