"""Connections: calls against the bare SDK and against peers, opening, stateless calls."""

import sys
from pathlib import Path
from typing import Any

from bench.measure import Row, at_most, interleave, limit, run_worker
from bench.peers import python_of, versions

OURS = Path(sys.executable)
OURSELVES = "upstream_ours"


def measure() -> tuple[list[Row], dict[str, dict[str, str]]]:
    """Run every measurement of the connections."""
    fastmcp, agentscope = python_of("fastmcp"), python_of("agentscope")
    rows = [
        *_calls("memory", "in memory", {}),
        *_calls("stdio", "over stdio", {"FastMCP": fastmcp, "AgentScope": agentscope}),
        *_calls("http", "over streamable HTTP", {"FastMCP": fastmcp, "AgentScope": agentscope}),
        *_stateless(agentscope),
        *_opening(),
    ]
    taking_part = {
        "pegboard": versions(OURS, ["pegboard", "mcp", "aiohttp", "httpx2", "anyio"]),
        "fastmcp": versions(fastmcp, ["fastmcp", "mcp"]),
        "agentscope": versions(agentscope, ["agentscope", "mcp"]),
    }
    return rows, taking_part


def _calls(transport: str, words: str, peers: dict[str, Path]) -> list[Row]:
    contenders: dict[str, Any] = {"ours": lambda: run_worker(OURS, OURSELVES, transport)}
    for name, python in peers.items():
        worker = f"upstream_{name.lower()}"
        contenders[name] = lambda python=python, worker=worker: run_worker(
            python, worker, transport
        )
    found = interleave(5, contenders)
    ours = found["ours"]
    goal = 1.1 if transport == "memory" else 1.15
    rows = [
        at_most(
            f"a call {words}, {'one at a time' if at_once == 1 else f'{at_once} at once'}, "
            "the SDK's bare client = 1",
            ours[f"ours_ratio_{at_once}"],
            goal,
            _against(ours[f"ours_{at_once}"], ours[f"bare_{at_once}"]),
        )
        for at_once in (1, 16)
    ]
    rows += [
        Row(
            claim=f"a call {words}, {name} = 1",
            measured=ours["ours_1"] / found[name]["call"],
            unit="×",
            detail=_against(ours["ours_1"], found[name]["call"]),
        )
        for name in peers
    ]
    return rows


def _stateless(agentscope: Path) -> list[Row]:
    found = interleave(
        3,
        {
            "ours": lambda: run_worker(OURS, OURSELVES, "stateless"),
            "agentscope": lambda: run_worker(agentscope, "upstream_agentscope", "http"),
        },
    )
    ours, peer = found["ours"], found["agentscope"]
    return [
        at_most(
            "a stateless call over HTTP, a stateful one = 1",
            ours["auto_stateless_ratio"],
            1.2,
            _against(ours["auto_stateless"], ours["auto_stateful"]),
        ),
        Row(
            claim="the same to a legacy server that insists on sessions",
            measured=ours["legacy_stateless_ratio"],
            unit="×",
            detail=f"AgentScope: {peer['stateless_ratio']:,.1f}×",
        ),
    ]


def _opening() -> list[Row]:
    found = interleave(
        5,
        {
            "lazy": lambda: run_worker(OURS, OURSELVES, "open_lazy"),
            "eager": lambda: run_worker(OURS, OURSELVES, "open_eager"),
        },
    )
    lazy, eager = found["lazy"], found["eager"]
    work = (lazy["hundred_work"] - lazy["empty_work"]) * 1e3
    return [
        limit(
            "opening 100 lazy servers from a warm catalogue, beyond an empty hub",
            work,
            100,
            " ms",
            f"{lazy['tools']:,.0f} tools; {lazy['hundred_seconds'] * 1e3:,.0f} ms on the clock",
        ),
        limit("processes started by that", lazy["processes"], 0, "", ""),
        limit(
            "processes started by 100 first calls at once to one server", lazy["spawns"], 1, "", ""
        ),
        limit(
            "opening 50 servers that take 0.5 s to start, 8 at a time",
            eager["seconds"],
            8,
            " s",
            f"{eager['ready']:.0f} ready; one after the other would be 25 s",
        ),
    ]


def _against(ours: float, other: float) -> str:
    return f"{ours * 1e3:,.2f} ms against {other * 1e3:,.2f} ms"
