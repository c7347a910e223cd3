"""The registry: calls, validation, description, registration, import."""

import subprocess
import sys
import time
from pathlib import Path

from bench.commands import measure_commands
from bench.measure import Row, at_least, at_most, interleave, limit, run_worker
from bench.peers import python_of, versions

OURS = Path(sys.executable)


def measure() -> tuple[list[Row], dict[str, dict[str, str]]]:
    """Run every measurement of the registry."""
    fastmcp, jsonschema = python_of("fastmcp"), python_of("jsonschema")
    rows = [
        *_calls(fastmcp),
        *_validation(jsonschema),
        *_describe(),
        *_register(fastmcp),
        *_imports(),
        *measure_commands(),
    ]
    taking_part = {
        "pegboard": versions(OURS, ["pegboard", "jsonschema-rs", "msgspec", "pydantic", "anyio"]),
        "fastmcp": versions(fastmcp, ["fastmcp", "mcp", "pydantic"]),
        "jsonschema": versions(jsonschema, ["jsonschema"]),
    }
    return rows, taking_part


def _calls(fastmcp: Path) -> list[Row]:
    found = interleave(
        7,
        {
            "ours": lambda: run_worker(OURS, "ours", "calls"),
            "fastmcp": lambda: run_worker(fastmcp, "fastmcp_peer", "calls"),
        },
    )
    ours, peer = found["ours"], found["fastmcp"]["call"]
    call, floor = ours["echo_call"], ours["echo_floor"]
    return [
        at_least(
            "calls per second, FastMCP's in-memory client = 1",
            peer / call,
            20,
            f"{1 / call:,.0f} against {1 / peer:,.0f} a second",
        ),
        limit(
            "a call through every step",
            call * 1e6,
            6,
            " µs",
            f"`echo(text)`; validation and a bare await alone take {floor * 1e6:,.2f} µs",
        ),
        limit(
            "the same with an integer and a default",
            ours["add_call"] * 1e6,
            6,
            " µs",
            f"`add(a, b=1)`; alone {ours['add_floor'] * 1e6:,.2f} µs",
        ),
        limit(
            "the same for a tool object",
            ours["shout_call"] * 1e6,
            6,
            " µs",
            f"alone {ours['shout_floor'] * 1e6:,.2f} µs",
        ),
    ]


def _validation(jsonschema: Path) -> list[Row]:
    found = interleave(
        7,
        {
            "ours": lambda: run_worker(OURS, "ours", "validation"),
            "peer": lambda: run_worker(jsonschema, "jsonschema_peer", "validation"),
        },
    )
    ours, peer = found["ours"]["check"], found["peer"]["check"]
    size = found["ours"]["size"]
    return [
        at_least(
            "validations per second, python-jsonschema = 1",
            peer / ours,
            20,
            f"20 properties, {size:,.0f} bytes: {ours * 1e6:,.1f} µs against {peer * 1e6:,.0f} µs",
        )
    ]


def _describe() -> list[Row]:
    found = interleave(7, {"ours": lambda: run_worker(OURS, "ours", "describe")})["ours"]
    described, by_hand = found["describe"], found["by_hand"]
    return [
        at_most(
            "`describe()` of 10,000 tools, by hand = 1",
            described / by_hand,
            2,
            f"{described * 1e3:,.2f} ms against {by_hand * 1e3:,.2f} ms",
        )
    ]


def _register(fastmcp: Path) -> list[Row]:
    found = interleave(
        3,
        {
            "ours": lambda: run_worker(OURS, "ours", "register"),
            "fastmcp": lambda: run_worker(fastmcp, "fastmcp_peer", "register"),
        },
    )
    ours, peer = found["ours"], found["fastmcp"]
    return [
        at_least(
            "registering 10,000 functions, FastMCP's `add_tool` = 1",
            peer["seconds"] / ours["seconds"],
            5,
            f"{ours['seconds']:,.2f} s against {peer['seconds']:,.2f} s",
        ),
        Row(
            claim="memory per registered tool",
            measured=ours["bytes_per_tool"] / 1024,
            unit=" KB",
            detail=f"FastMCP: {peer['bytes_per_tool'] / 1024:,.1f} KB",
        ),
    ]


def _imports() -> list[Row]:
    command = OURS.with_name("pegboard")
    found = interleave(
        25,
        {
            "bare": lambda: _start([OURS, "-c", "pass"]),
            "`import pegboard`": lambda: _start([OURS, "-c", "import pegboard"]),
            "`pegboard --help`": lambda: _start([command, "--help"]),
            "`pegboard --version`": lambda: _start([command, "--version"]),
        },
    )
    bare = found.pop("bare")["seconds"]
    return [
        at_most(
            f"{name}, a bare interpreter start = 1",
            it["seconds"] / bare,
            3,
            f"{it['seconds'] * 1e3:,.1f} ms against {bare * 1e3:,.1f} ms",
        )
        for name, it in found.items()
    ]


def _start(command: list[str | Path]) -> dict[str, float]:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return {"seconds": time.perf_counter() - began}
