"""The gateway: calls through it against its peers, at size, and in tokens."""

from contextlib import ExitStack
from typing import Any

from bench import gateway_contenders as contenders
from bench.gateway_contenders import OURS, Contender
from bench.gateway_scale import measure_scale
from bench.gateway_tokens import measure_tokens
from bench.measure import Row, at_least, interleave, run_worker
from bench.peers import python_of, versions

SECONDS, CONNECTIONS = 4, 16
ROUNDS = 5


def measure() -> tuple[list[Row], dict[str, dict[str, str]]]:
    """Run every measurement of the gateway."""
    rows = [*_under_load(), *measure_scale(), *measure_tokens()]
    peers = {
        "fastmcp": ["fastmcp", "mcp"],
        "mcp-proxy": ["mcp-proxy", "mcp"],
        "contextforge": ["mcp-contextforge-gateway", "mcp"],
        "tokens": ["bpe-openai"],
    }
    taking_part = {it: versions(python_of(it), packages) for it, packages in peers.items()}
    return rows, {"pegboard": versions(OURS, ["pegboard", "mcp", "uvicorn"]), **taking_part}


def _under_load() -> list[Row]:
    ceiling = run_worker(OURS, "gateway_load", "ceiling")
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
            f"{name} ({era})": lambda it=it, era=era: it.load(era, CONNECTIONS, SECONDS)
            for name, it in entered.items()
            for era in it.eras
        }
        found = interleave(ROUNDS, loads)
        resting = {name: it.resident_mib() for name, it in entered.items()}
    return [*_load_rows(found, resting), _generator_row(ceiling, found)]


def _load_rows(found: dict[str, dict[str, float]], resting: dict[str, float]) -> list[Row]:
    rate = {name: it["calls_per_second"] for name, it in found.items()}
    bare, ours = rate["bare (modern)"], rate["ours (modern)"]
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
        "FastMCP's proxy": 20,
        "FastMCP's proxy, connected": 2,
        "ContextForge": 5,
        "mcp-proxy": 2,
    }
    for peer, goal in goals.items():
        best = max(value for name, value in rate.items() if name.startswith(f"{peer} ("))
        rows.append(
            at_least(
                f"calls/s, {peer} in its better era = 1",
                ours / best,
                goal,
                f"{ours:,.0f}/s against {best:,.0f}/s",
            )
        )
    light, peer = rate["ours, light upstream (modern)"], rate["mcp-proxy, light upstream (legacy)"]
    rows.append(
        Row(
            claim="calls/s, mcp-proxy = 1, where the stdio upstream takes next to no time itself",
            measured=light / peer,
            unit="×",
            detail=f"{light:,.0f}/s against {peer:,.0f}/s",
        )
    )
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
