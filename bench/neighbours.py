"""The victim's bench: does a tenant notice what another tenant does to the gateway?

`python -m bench.neighbours` starts a gateway. A victim pings and calls at a steady rate while an
attacker of another tenant first sends harmless requests and then hostile ones, case by case. A
case fails when the victim waits too long or is refused, or when the gateway is not at rest soon.
"""

import argparse
import fnmatch
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from bench.gateway_contenders import OURS
from bench.measure import ROOT
from bench.neighbours_attacks import Case, Phase, harmless, named_cases
from bench.neighbours_gateway import Arena, arena
from bench.neighbours_messages import field_cases
from bench.peers import versions
from bench.run import write_result

LEAST = 0.050
"""The victim's p99 may always be so many seconds."""
REST = 5.0
"""Seconds within which the gateway has to be at rest."""
ALLOWED = {"MiB": 100, "descriptors": 10, "tasks": 12, "sessions": 4, "running": 2, "loop": 0.3}
"""By how much each may have grown then."""
LARGEST = 5000
"""MiB after which the gateway is killed."""
RATE = 25.0
"""How often a second the victim pings, and how often it calls."""


@dataclass(kw_only=True)
class Found:
    """What came of a case."""

    case: str
    about: str = ""
    baseline: dict[str, Any] = field(default_factory=dict[str, Any])
    hostile: dict[str, Any] = field(default_factory=dict[str, Any])
    sent: int = 0
    mib: dict[str, float] = field(default_factory=dict[str, float])
    rest_seconds: float | None = None
    failures: list[str] = field(default_factory=list[str])
    attacker_waits: bool = False
    """The gateway reads what the attacker's server floods it with more slowly than it comes."""
    costly: dict[str, float] = field(default_factory=dict[str, float])
    """The messages that cost the event loop most, in milliseconds of CPU time."""
    stalls: list[str] = field(default_factory=list[str])
    """Places that the gateway's own watchdog reported for the first time."""
    answers: dict[str, str] = field(default_factory=dict[str, str])
    """What the gateway answered to those."""
    is_alive: bool = True


class Victim:
    """The process that notices."""

    def __init__(self, place: Arena, priority: int) -> None:
        command = [str(OURS), "-m", "bench.workers.neighbour_victim", place.origin]
        self._process = subprocess.Popen(
            [*command, place.keys["victim"], str(RATE)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for pid in (self._process.pid, place.pid):
            if priority:
                os.setpriority(os.PRIO_PROCESS, pid, priority)

    def cut(self) -> dict[str, Any]:
        """What the victim noticed since the last time."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


async def run_case(case: Case, place: Arena, victim: Victim, seconds: float) -> Found:
    """Run both halves of a case, and wait until the gateway is at rest."""
    found = Found(case=case.name, about=case.about)
    seconds = case.seconds or seconds
    said = place.said.stat().st_size
    await _settle(place, victim)
    await _phase(case, place, found, seconds=min(seconds, 4), hostile=False)
    found.baseline = victim.cut()
    try:
        before = await _calm(place)
    except OSError:
        found.failures.append("did not answer before the attack")
        found.is_alive = False
        return found
    found.mib["before"] = before["MiB"]
    victim.cut()
    await _phase(case, place, found, seconds=seconds, hostile=True)
    found.hostile = victim.cut()
    await _rest(place, found, before, case.holds)
    found.stalls = _stalls(place, said)
    allowed = max(LEAST, 2 * found.baseline["p99"])
    if found.hostile["p99"] > allowed:
        found.failures.append(f"p99 > {allowed * 1000:.0f} ms")
    if found.hostile["errors"]:
        found.failures.append(f"victim: {found.hostile['errors']} × {found.hostile['error']}")
    return found


async def _phase(case: Case, place: Arena, found: Found, *, seconds: float, hostile: bool) -> None:
    costs: dict[str, float] = {}
    said: dict[str, str] = {}
    ends = time.monotonic() + seconds
    phase = Phase(arena=place, hostile=hostile, ends=ends, costs=costs, said=said)
    peak = 0.0

    async def watch() -> None:
        nonlocal peak
        while True:
            now = place.resident_mib()
            peak = max(peak, now)
            if now > LARGEST:
                place.process.kill()
            await anyio.sleep(0.1)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        with anyio.move_on_after(seconds + case.lasts + 5) as scope, suppress(OSError):
            await case.run(phase)
        tasks.cancel_scope.cancel()
    place.close_connections()
    if hostile:
        found.sent, found.mib["peak"] = phase.sent, peak
        dear = sorted(costs.items(), key=lambda it: -it[1])[:8]
        found.costly = {name: round(spent * 1000, 1) for name, spent in dear}
        found.answers = {name: said.get(name, "no answer") for name, _ in dear}
        if phase.lost > phase.sent / 2:
            found.failures.append("the attack did not reach its server")
        found.attacker_waits = scope.cancelled_caught


async def _calm(place: Arena) -> dict[str, float]:
    """What the gateway holds when nothing is under way."""
    held = await anyio.to_thread.run_sync(place.held)
    for _ in range(6):
        now = await anyio.to_thread.run_sync(place.held)
        if all(now[it] >= held[it] for it in ("descriptors", "tasks", "sessions")):
            return held
        held = now
    return held


async def _settle(place: Arena, victim: Victim) -> None:
    """Wait until the victim notices nothing more of the case before, or of the start."""
    for _ in range(30):
        busy = place.loop_seconds()
        victim.cut()
        await anyio.sleep(0.4)
        if place.loop_seconds() - busy < 0.2 and victim.cut()["longest"] < LEAST * 2:
            return


def _stalls(place: Arena, start: int) -> list[str]:
    lines = place.said.read_bytes()[start:].decode(errors="replace").splitlines()
    return [it.partition("a stretch, at ")[2] for it in lines if "loop_stall" in it]


async def _rest(
    place: Arena, found: Found, before: dict[str, float], holds: frozenset[str]
) -> None:
    ended, left = time.monotonic(), {"metrics": 0.0}
    while time.monotonic() < ended + REST:
        try:
            now = await anyio.to_thread.run_sync(place.held)
        except OSError:
            left = {"metrics": 0.0}
            if place.process.poll() is not None:
                break
            continue
        found.mib["after"] = now["MiB"]
        now |= {it: before[it] for it in holds}
        left = {
            it: now[it] - before[it] for it, more in ALLOWED.items() if now[it] - before[it] > more
        }
        if not left:
            found.rest_seconds = round(time.monotonic() - ended, 2)
            return
        await anyio.sleep(0.2)
    if place.process.poll() is not None:
        found.failures.append(f"the gateway ended with {place.process.returncode}")
        found.is_alive = False
    elif "metrics" in left:
        found.failures.append(f"deaf for more than {REST:g} s")
        found.is_alive = False
    else:
        words = ", ".join(f"{name} +{more:.4g}" for name, more in left.items())
        found.failures.append(f"not at rest: {words}")


def builtin_tools(place: Arena) -> list[dict[str, Any]]:
    """The tools of the gateway itself, as it lists them."""

    async def ask() -> bytes:
        request = place.modern(harmless(0), method="tools/list", key="registrar", path="/mcp")
        _, body = await place.send(place.connection(), request)
        return body

    return json.loads(anyio.run(ask))["result"]["tools"]


@contextmanager
def neighbours(asked: argparse.Namespace) -> Iterator[tuple[Arena, Victim]]:
    """A gateway and its victim."""
    with arena(asked.gateway_python) as place:
        victim = Victim(place, asked.priority)
        try:
            time.sleep(2)  # the servers of the victim start with its first request
            victim.cut()
            yield place, victim
        finally:
            victim.stop()


def measure(asked: argparse.Namespace) -> list[Found]:
    """Run the cases that were asked for."""
    found: list[Found] = []
    with ExitStack() as stack:
        opened: list[tuple[Arena, Victim]] = []
        for case in _chosen(asked):
            for attempt in range(asked.attempts):
                if not opened:
                    opened.append(stack.enter_context(neighbours(asked)))
                it = anyio.run(run_case, case, *opened[0], asked.seconds)
                if case.leaves or not it.is_alive or any("rest" in why for why in it.failures):
                    stack.close()
                    opened.clear()
                if not it.failures or attempt + 1 == asked.attempts:
                    found.append(it)
                    break
            show(found[-1], answers=asked.answers)
    return found


def _chosen(asked: argparse.Namespace) -> list[Case]:
    with arena(asked.gateway_python) as place:
        known = [*named_cases(), *field_cases(builtin_tools(place))]
    if asked.list:
        print("\n".join(f"{it.name} {it.about}" for it in known))
        return []
    return [it for it in known if any(fnmatch.fnmatch(it.name, word) for word in asked.cases)]


def show(found: Found, *, answers: bool) -> None:
    """Print the line of a case, and what explains a failure."""
    print(line_of(found), flush=True)
    for place in found.stalls:
        print(f"      stall: {place}")
    for name, cost in found.costly.items():
        if answers or (found.failures and cost > 20):
            said = f" → {found.answers[name]}" if answers else ""
            print(f"      {cost:,.0f} ms of CPU: {name}{said}", flush=True)


HEAD = """| case | baseline p99 | hostile p99 | longest | sent | MiB, peak, after | rest | verdict |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |"""


def line_of(found: Found) -> str:
    """One line of the table."""
    ms = [
        f"{it.get(name, 0) * 1000:,.0f} ms"
        for it, name in (
            (found.baseline, "p99"),
            (found.hostile, "p99"),
            (found.hostile, "longest"),
        )
    ]
    mib = ", ".join(f"{found.mib.get(it, 0):,.0f}" for it in ("before", "peak", "after"))
    rest = "" if found.rest_seconds is None else f"{found.rest_seconds:g} s"
    verdict = f"FAILED: {'; '.join(found.failures)}" if found.failures else "ok"
    if found.attacker_waits:
        verdict += "; the attacker was still waiting"
    cells = [f"{found.case}{f' ({found.about})' if found.about else ''}", *ms, str(found.sent)]
    return f"| {' | '.join([*cells, mib, rest, verdict])} |"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.neighbours", description=__doc__)
    parser.add_argument("cases", nargs="*", default=["*"], help="patterns of the cases' names")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    parser.add_argument("--seconds", type=float, default=3, help="how long a half of a case takes")
    parser.add_argument("--attempts", type=int, default=2, help="how often a case may fail")
    parser.add_argument(
        "--gateway-python", type=Path, default=OURS, help="the interpreter of another checkout"
    )
    parser.add_argument(
        "--priority", type=int, default=0, help="nice value of the gateway and the victim"
    )
    parser.add_argument(
        "--answers", action="store_true", help="print the answers to the costliest messages"
    )
    parser.add_argument("--output", type=Path, help="write the result here")
    asked = parser.parse_args()
    # Whatever ends this program, it ends the gateway and the servers, too.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    asked.cases = asked.cases or ["*"]
    if not asked.list:
        print(HEAD, flush=True)
    began = time.monotonic()
    found = measure(asked)
    if asked.list:
        return 0
    failed = [it.case for it in found if it.failures]
    print(f"\n{len(found)} cases in {time.monotonic() - began:.0f} s, {len(failed)} failed.")
    rows = [vars(it) for it in found]
    packages = ["pegboard", "mcp", "uvicorn", "anyio", "msgspec", "jsonschema-rs"]
    of_gateway = {"gateway": versions(asked.gateway_python, packages)}
    if asked.output is not None:
        asked.output.write_text(json.dumps({"versions": of_gateway, "cases": rows}, indent=2))
    elif asked.cases == ["*"] and asked.gateway_python == OURS:
        path = write_result("neighbours", of_gateway, cases=rows)
        print(f"Written to {path.relative_to(ROOT)}.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
