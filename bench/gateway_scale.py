"""The gateway at size: 100 upstreams with 100 tools each, and a thousand sessions that wait."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.gateway_catalogues import generated_tools
from bench.gateway_contenders import OURS, Contender, pegboard
from bench.measure import WORKERS, Row, at_most, limit

UPSTREAMS, TOOLS_EACH, SESSIONS = 100, 100, 1000
BOOTS = 5
METHODS = ("bm25", "hybrid")
SMALLEST = {"legacy": "ping", "modern": "server/discover"}
"""The least that can be asked in an era."""
QUERIES = ["create a pull request", "read the contents of a file", "what is the weather in Paris"]


def measure_scale() -> list[Row]:
    """Boot from a warm store, memory, lists, searches, and sessions."""
    with tempfile.TemporaryDirectory() as folder:
        servers = _servers(Path(folder))
        store = f"sqlite:///{folder}/store.db"
        _warm_up(servers, store)
        boots: list[dict[str, float]] = []
        empty: list[dict[str, float]] = []
        imports: list[float] = []
        for _ in range(BOOTS):  # in turn, because the machine has slow minutes
            boots.append(_boot(servers, store))
            empty.append(_boot({}, f"sqlite:///{folder}/empty.db"))
            imports.append(_cpu_of_import())
        with pegboard(servers, "--store", store) as gateway:
            resident = gateway.resident_mib()
            asked = _times(gateway)
            searched = gateway.resident_mib()
        with pegboard({}, "--store", f"sqlite:///{folder}/empty.db") as gateway:
            few = _times(gateway)
            before = gateway.resident_mib()
            with _sessions(gateway):
                more = gateway.resident_mib() - before
    importing = _median(imports)
    own = _median([boot["cpu"] - it for boot, it in zip(boots, imports, strict=True)])
    return [
        limit(
            "boot to ready with 100 upstreams × 100 tools from a warm store, "
            "beyond importing the SDK: CPU time",
            own,
            1.5,
            " s",
            f"{_median([it['seconds'] for it in boots]):.2f} s on the clock; importing the SDK "
            f"{importing:.2f} s; without any upstream {_median([it['cpu'] for it in empty]):.2f} s",
        ),
        limit("memory of it at rest", resident, 150, " MiB", f"{searched:,.0f} MiB after searches"),
        at_most(
            "`tools/list` (search surface) with 10,000 tools, with none = 1",
            asked["list"] / few["list"],
            1.2,
            f"{asked['list'] * 1e3:.2f} ms, {asked['list_bytes']:,.0f} bytes",
        ),
        *[_search_row(asked, method, era) for method in METHODS for era in SMALLEST],
        limit(f"memory for {SESSIONS:,} idle sessions of the handshake era", more, 100, " MiB"),
    ]


def _search_row(asked: dict[str, float], method: str, era: str) -> Row:
    slowest = max(asked[f"{method} {era} {query}"] for query in QUERIES)
    smallest = asked[era]
    return at_most(
        f"`search_tools` ({method}) with 10,000 tools, `{SMALLEST[era]}` on the same wire = 1",
        slowest / smallest,
        1.5,
        f"{slowest * 1e3:.2f} ms against {smallest * 1e3:.2f} ms, the slowest of {len(QUERIES)}",
    )


def _servers(folder: Path) -> dict[str, Any]:
    tools = generated_tools(UPSTREAMS * TOOLS_EACH)
    servers: dict[str, Any] = {}
    for number in range(UPSTREAMS):
        file = folder / f"tools-{number}.json"
        part = tools[number * TOOLS_EACH : (number + 1) * TOOLS_EACH]
        file.write_text(json.dumps(part), "utf-8")
        arguments = ["-S", "-E", str(WORKERS / "catalogue_server.py"), str(file)]
        servers[f"server-{number}"] = {
            "command": sys.executable,
            "args": arguments,
            "protocol": "legacy",
            "lazy": True,
        }
    return servers


def _warm_up(servers: dict[str, Any], store: str) -> None:
    """The run before: it starts every server once, and the store keeps what they offer."""
    with pegboard(servers, "--store", store) as gateway:
        deadline = time.monotonic() + 300
        while _known_tools(gateway) < UPSTREAMS * TOOLS_EACH:
            if time.monotonic() > deadline:
                raise SystemExit(f"Only {_known_tools(gateway)} tools are known.")
            time.sleep(0.5)


def _known_tools(gateway: Contender) -> int:
    params = {"uri": "registry://stats"}
    answer = _ask(gateway, {"method": "resources/read", "params": params})
    return json.loads(answer["contents"][0]["text"])["tools"]


def _boot(servers: dict[str, Any], store: str) -> dict[str, float]:
    began = time.perf_counter()
    with pegboard(servers, "--store", store) as gateway:
        return {"seconds": time.perf_counter() - began, "cpu": gateway.cpu_seconds()}


def _cpu_of_import() -> float:
    code = (
        "import time, mcp, mcp.server, uvicorn, starlette.applications; print(time.process_time())"
    )
    run = subprocess.run([OURS, "-c", code], capture_output=True, encoding="utf-8", check=True)
    return float(run.stdout)


def _times(gateway: Contender) -> dict[str, float]:
    requests: dict[str, Any] = {"list": {"method": "tools/list"}}
    for era, smallest in SMALLEST.items():
        requests[era] = {"method": smallest, "era": era}
        for method in METHODS:
            for query in QUERIES:
                params = {
                    "name": "search_tools",
                    "arguments": {"query": query, "search_method": method},
                }
                name = f"{method} {era} {query}"
                requests[name] = {"method": "tools/call", "params": params, "era": era}
    return _run("gateway_times", gateway, json.dumps(requests))


def _ask(gateway: Contender, request: dict[str, Any]) -> Any:
    return _run("gateway_ask", gateway, json.dumps(request))


def _run(worker: str, gateway: Contender, given: str) -> Any:
    run = subprocess.run(
        [OURS, WORKERS / f"{worker}.py", gateway.origin + "/mcp"],
        input=given,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=300,
    )
    if run.returncode != 0:
        raise SystemExit(f"{worker}.py failed:\n{run.stderr}")
    return json.loads(run.stdout.splitlines()[-1])


@contextmanager
def _sessions(gateway: Contender) -> Iterator[None]:
    command = [OURS, WORKERS / "gateway_sessions.py", gateway.origin + "/mcp", str(SESSIONS)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise SystemExit("The sessions could not be opened.")
        yield
        process.communicate("")


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
