"""The gateway: calls through it against direct ones, against its peers, at size, and in tokens."""

import json
import subprocess
from contextlib import ExitStack
from typing import Any

from bench import gateway_contenders as contenders
from bench.gateway_contenders import OURS, UPSTREAM, Contender
from bench.gateway_scale import measure_scale
from bench.gateway_tokens import measure_tokens
from bench.measure import WORKERS, Row, at_least, at_most, interleave
from bench.peers import python_of, versions

SECONDS, CONNECTIONS = 4, 16
ROUNDS = 5
_BY_ITSELF = "the stdio upstream by itself"


def measure() -> tuple[list[Row], dict[str, dict[str, str]]]:
    """Run every measurement of the gateway."""
    rows = [*_one_at_a_time(), *_under_load(), *measure_scale(), *measure_tokens()]
    peers = {
        "fastmcp": ["fastmcp", "mcp"],
        "mcp-proxy": ["mcp-proxy", "mcp"],
        "contextforge": ["mcp-contextforge-gateway", "mcp"],
        "tokens": ["bpe-openai"],
    }
    taking_part = {it: versions(python_of(it), packages) for it, packages in peers.items()}
    return rows, {"pegboard": versions(OURS, ["pegboard", "mcp", "uvicorn"]), **taking_part}


def _one_at_a_time() -> list[Row]:
    with ExitStack() as stack:
        bare = stack.enter_context(contenders.upstream())
        ours = stack.enter_context(contenders.pegboard(contenders.echo_at(bare.url)))
        over_stdio = stack.enter_context(contenders.pegboard(contenders.echo_over_stdio()))
        stdio_face = stack.enter_context(contenders.serve_command(contenders.echo_over_stdio()))
        http = {"bare": _target(bare), "gateway": _target(ours)}
        stdio = {
            "bare": {"command": [str(OURS), str(UPSTREAM), "stdio"], "tool": "echo"},
            "gateway": {"command": [*stdio_face, "--stdio", "--surface", "full"], "tool": "echo"},
            "http": _target(over_stdio),
        }
        found = interleave(
            ROUNDS,
            {
                "http": lambda: _worker("gateway_client", json.dumps(http)),
                "stdio": lambda: _worker("gateway_client", json.dumps(stdio)),
            },
        )
    http_found, stdio_found = found["http"], found["stdio"]
    return [
        at_most(
            "p50 of a call through the gateway to an HTTP upstream, the SDK's client; direct = 1",
            http_found["gateway_ratio"],
            1.8,
            _against(http_found["gateway"], http_found["bare"]),
        ),
        at_most(
            "p50 of a call through `serve --stdio` to a stdio upstream; the SDK direct = 1",
            stdio_found["gateway_ratio"],
            2,
            _against(stdio_found["gateway"], stdio_found["bare"]),
        ),
        Row(
            claim="the same from an HTTP client",
            measured=stdio_found["http_ratio"],
            unit="×",
            detail=_against(stdio_found["http"], stdio_found["bare"]),
        ),
    ]


def _under_load() -> list[Row]:
    ceiling = _worker("gateway_load", "ceiling")
    with ExitStack() as stack:
        bare = stack.enter_context(contenders.upstream())
        light = stack.enter_context(contenders.light_stdio())
        running = {
            "bare": bare,
            "ours": contenders.pegboard(contenders.echo_at(bare.url)),
            "ours, stdio upstream": contenders.pegboard(contenders.echo_over_stdio()),
            "FastMCP's proxy": contenders.fastmcp("default", bare.url),
            "FastMCP's proxy, connected": contenders.fastmcp("connected", bare.url),
            "mcp-proxy": contenders.mcp_proxy_to(bare.url),
            "mcp-proxy, stdio upstream": contenders.mcp_proxy(),
            "ours, light upstream": contenders.pegboard(contenders.echo_over_stdio(light)),
            "mcp-proxy, light upstream": contenders.mcp_proxy(light),
            "ContextForge": contenders.contextforge(bare.url),
        }
        entered = {
            name: it if isinstance(it, Contender) else stack.enter_context(it)
            for name, it in running.items()
        }
        loads = {
            f"{name} ({era})": lambda it=it, era=era: _load(it, era)
            for name, it in entered.items()
            for era in it.eras
        }
        found = interleave(ROUNDS, {**loads, _BY_ITSELF: _load_by_itself})
        by_itself = found.pop(_BY_ITSELF)
        resting = {name: it.resident_mib() for name, it in entered.items()}
    rows = _load_rows(found, resting, most_over_stdio=by_itself["calls_per_second"])
    return [*rows, _generator_row(ceiling, found)]


def _load_rows(
    found: dict[str, dict[str, float]], resting: dict[str, float], *, most_over_stdio: float
) -> list[Row]:
    rate = {name: it["calls_per_second"] for name, it in found.items()}
    bare, ours = rate["bare (modern)"], rate["ours (modern)"]
    stdio = rate["ours, stdio upstream (modern)"]
    rows = [
        at_least(
            f"calls/s through the gateway, {CONNECTIONS} connections; the bare upstream = 1",
            ours / bare,
            0.35,
            f"{ours:,.0f}/s against {bare:,.0f}/s",
        ),
        Row(
            claim="the same in the handshake era",
            measured=rate["ours (legacy)"] / rate["bare (legacy)"],
            unit="×",
            detail=f"{rate['ours (legacy)']:,.0f}/s against {rate['bare (legacy)']:,.0f}/s",
        ),
    ]
    goals = {
        "FastMCP's proxy": (ours, 20),
        "FastMCP's proxy, connected": (ours, 2),
        "ContextForge": (ours, 5),
        "mcp-proxy": (ours, 2),
        "mcp-proxy, stdio upstream": (stdio, 2),
    }
    for peer, (mine, goal) in goals.items():
        best = max(value for name, value in rate.items() if name.startswith(f"{peer} ("))
        rows.append(
            at_least(
                f"calls/s, {peer} in its better era = 1",
                mine / best,
                goal,
                f"{mine:,.0f}/s against {best:,.0f}/s",
            )
        )
    stated = {
        "the most that any gateway could reach there: that upstream with nobody between": (
            most_over_stdio,
            rate["mcp-proxy, stdio upstream (legacy)"],
        ),
        "calls/s, mcp-proxy = 1, where the stdio upstream takes next to no time itself": (
            rate["ours, light upstream (modern)"],
            rate["mcp-proxy, light upstream (legacy)"],
        ),
    }
    rows += [
        Row(
            claim=claim,
            measured=mine / peer,
            unit="×",
            detail=f"{mine:,.0f}/s against {peer:,.0f}/s",
        )
        for claim, (mine, peer) in stated.items()
    ]
    rows += [
        Row(
            claim=f"CPU time per call in the process: {name}",
            measured=it["cpu_per_call"] * 1e3,
            unit=" ms",
            detail=f"{it['calls_per_second']:,.0f}/s, p50 {it['p50'] * 1e3:,.1f} ms, "
            f"p99 {it['p99'] * 1e3:,.1f} ms, {resting[name.rpartition(' (')[0]]:,.0f} MiB",
        )
        for name, it in found.items()
    ]
    return rows


def _generator_row(ceiling: dict[str, Any], found: dict[str, dict[str, float]]) -> Row:
    ours = found["ours (modern)"]["load_cpu_per_call"]
    return Row(
        claim="what the load generator can do, against a server that does next to nothing",
        measured=ceiling["calls_per_second"],
        unit=" calls/s",
        detail=f"{ours * 1e3:.2f} ms of CPU per call while it measures ours",
    )


def _load(contender: Contender, era: str) -> dict[str, float]:
    before = contender.cpu_seconds()
    found = _worker(
        "gateway_load", contender.url, era, contender.tool, str(CONNECTIONS), str(SECONDS)
    )
    return {**found, "cpu_per_call": (contender.cpu_seconds() - before) / found["calls"]}


def _load_by_itself() -> dict[str, float]:
    return _worker("gateway_stdio", str(CONNECTIONS), str(SECONDS), *contenders.STDIO)


def _worker(worker: str, *arguments: str) -> dict[str, Any]:
    run = subprocess.run(
        [OURS, WORKERS / f"{worker}.py", *arguments],
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    if run.returncode != 0:
        raise SystemExit(f"{worker}.py {arguments} failed:\n{run.stderr}")
    return json.loads(run.stdout.splitlines()[-1])


def _target(contender: Contender) -> dict[str, str]:
    return {"url": contender.url, "tool": contender.tool}


def _against(ours: float, other: float) -> str:
    return f"{ours * 1e3:,.2f} ms against {other * 1e3:,.2f} ms"
