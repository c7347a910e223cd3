"""One call: its CPU time against an earlier commit, and its time against a direct call."""

import json
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import gateway_contenders as contenders
from bench.gateway_contenders import OURS, STDIO, Contender
from bench.measure import (
    WORKERS,
    Figures,
    Rounds,
    Row,
    at_least,
    at_most,
    limit,
    median_of,
    median_ratio,
    not_measured,
    run_worker,
    take_turns,
)
from bench.peers import BEFORE, python_before, python_of, versions
from bench.sdk_names import SOURCE, lines_in, private_sdk_names
from bench.tls import certificate

ROUNDS, RUNS, BLOCKS = 5, 3, 30
CONNECTIONS = 16
COMMIT = f"commit {BEFORE[:7]}"
NO_COMMIT = f"this checkout, perhaps a shallow clone, does not have {COMMIT}"


def measure(only: Iterable[str] = ()) -> tuple[list[Row], dict[str, dict[str, str]]]:
    """Run every measurement of a call, or the groups that are named."""
    rows = [row for name in only or GROUPS for row in GROUPS[name]()]
    packages = ["pegboard", "mcp", "aiohttp", "httpx2", "uvicorn", "anyio"]
    taking_part = {
        "pegboard": versions(OURS, packages),
        "mcp-proxy": versions(python_of("mcp-proxy"), ["mcp-proxy", "mcp"]),
    }
    if (before := python_before()) is not None:
        taking_part[COMMIT] = {"commit": BEFORE, **versions(before, packages)}
    return rows, taking_part


def _hub() -> list[Row]:
    """CPU time of `Hub.call` in the process that calls; the upstream takes next to none."""
    found: list[Mapping[str, Figures]] = []
    with ExitStack() as stack:
        made = stack.enter_context(certificate())
        plain = stack.enter_context(contenders.light_http())
        tls = stack.enter_context(contenders.light_http(made.server))
        addresses = {"http": plain.url, "https": tls.url}
        for _ in range(RUNS):
            with ExitStack() as running:
                blocks: dict[str, Callable[[], Figures]] = {}
                for name, python in _pythons().items():
                    ask = running.enter_context(_hub_worker(python, addresses, made.trust))
                    blocks |= {
                        f"{name}, {scheme}": lambda ask=ask, scheme=scheme: ask(scheme)
                        for scheme in addresses
                    }
                found += take_turns(BLOCKS, blocks)
    return [
        _cpu_of_call(found, "https", "HTTPS", 2),
        _cpu_of_call(found, "http", "plain HTTP", 1.4),
    ]


@contextmanager
def _hub_worker(
    python: Path, addresses: Mapping[str, str], env: Mapping[str, str]
) -> Iterator[Callable[[str], Figures]]:
    """A process with a hub that stays open, so that two versions can take turns block by block."""
    with subprocess.Popen(
        [python, WORKERS / "hub_calls.py", json.dumps(addresses)],
        env={**os.environ, **env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, said = process.stdin, process.stdout

        def answer() -> Figures:
            if not (line := said.readline()):
                raise SystemExit(f"hub_calls.py ended with {process.wait()}.")
            return json.loads(line)

        def ask(name: str) -> Figures:
            asked.write(f"{name}\n")
            asked.flush()
            return answer()

        answer()
        yield ask
        asked.close()


def _cpu_of_call(found: Rounds, scheme: str, words: str, goal: float) -> Row:
    claim = f"CPU time of `Hub.call` over {words}; plain HTTP of {COMMIT} = 1"
    now = median_of(found, f"now, {scheme}", "cpu")
    if "before, http" not in found[0]:
        return not_measured(at_most(claim, now, goal, ""), NO_COMMIT)
    detail = _against(now, median_of(found, "before, http", "cpu"))
    if scheme == "https":
        before = median_of(found, "before, https", "cpu")
        detail += f"; {COMMIT} over HTTPS: {before * 1e3:,.2f} ms"
    ratio = median_ratio(found, f"now, {scheme}", "before, http", "cpu")
    return at_most(claim, ratio, goal, detail)


def _gateway() -> list[Row]:
    """CPU time of the gateway's process per call, under load."""
    with ExitStack() as stack:
        made = stack.enter_context(certificate())
        servers = {
            "http": {"url": stack.enter_context(contenders.light_http()).url},
            "https": {"url": stack.enter_context(contenders.light_http(made.server)).url},
        }
        loads: dict[str, Callable[[], Figures]] = {}
        for name, python in _pythons().items():
            gateway = stack.enter_context(
                contenders.pegboard(servers, python=python, env=made.trust)
            )
            loads |= {
                f"{name}, {scheme}, {era}": _load(gateway, scheme, era)
                for scheme, era in (("http", "modern"), ("https", "modern"), ("http", "declaring"))
            }
        found = take_turns(ROUNDS, loads)
    return _gateway_rows(found)


def _load(gateway: Contender, scheme: str, era: str) -> Callable[[], Figures]:
    contender = replace(gateway, tool=f"mcp_{scheme}_echo")
    return lambda: contender.load(era, CONNECTIONS, 2.5)


def _gateway_rows(found: Rounds) -> list[Row]:
    modern, figure = "now, http, modern", "cpu_per_call"
    now = median_of(found, modern, figure)
    more = limit(
        f"CPU time of the gateway per call to an HTTP upstream, beyond that of {COMMIT}",
        0,
        0.1,
        " ms",
    )
    if "before, http, modern" in found[0]:
        before = median_of(found, "before, http, modern", figure)
        ratio = median_ratio(found, modern, "before, http, modern", figure)
        more = limit(more.claim, before * (ratio - 1) * 1e3, 0.1, " ms", _against(now, before))
    else:
        more = not_measured(more, NO_COMMIT)
    dearer = {
        "now, https, modern": "the same to an HTTPS upstream; HTTP upstream = 1",
        "now, http, declaring": "the same for a handshake client that declares elicitation, "
        "sampling and roots; modern client = 1",
    }
    rows = [more]
    for name, claim in dearer.items():
        detail = _against(median_of(found, name, figure), now)
        earlier = name.replace("now", "before")
        if earlier in found[0]:
            detail += f"; {COMMIT}: {median_of(found, earlier, figure) * 1e3:,.2f} ms"
        rows.append(at_most(claim, median_ratio(found, name, modern, figure), 1.3, detail))
    return rows


def _direct() -> list[Row]:
    """The time of one call after the other, through the gateway and past it."""
    with ExitStack() as stack:
        made = stack.enter_context(certificate())
        targets = {
            "http": _with_gateway(stack, stack.enter_context(contenders.upstream()), {}),
            "https": _with_gateway(
                stack, stack.enter_context(contenders.upstream(made.server)), made.trust
            ),
            "stdio": _over_stdio(stack),
        }
        found = take_turns(
            RUNS,
            {
                name: lambda it=it: run_worker(
                    OURS, "gateway_client", json.dumps(it), env=made.trust
                )
                for name, it in targets.items()
            },
        )
    through = "p50 of a call through the gateway to an"
    rows = [
        _direct_row(found, "http", f"{through} HTTP upstream, the SDK's client; direct = 1", 1.4),
        _direct_row(found, "https", f"{through} HTTPS upstream, the SDK's client; direct = 1", 1.5),
        _direct_row(
            found,
            "stdio",
            "p50 of a call through `serve --stdio` to a stdio upstream; the SDK direct = 1",
            1.5,
        ),
    ]
    over_http = median_of(found, "stdio", "http"), median_of(found, "stdio", "bare")
    return [
        *rows,
        Row(
            claim="the same from an HTTP client",
            measured=median_of(found, "stdio", "http_ratio"),
            unit="×",
            detail=_against(*over_http),
        ),
    ]


def _direct_row(found: Rounds, name: str, claim: str, goal: float) -> Row:
    detail = _against(median_of(found, name, "gateway"), median_of(found, name, "bare"))
    return at_most(claim, median_of(found, name, "gateway_ratio"), goal, detail)


def _with_gateway(
    stack: ExitStack, bare: Contender, trust: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    ours = stack.enter_context(contenders.pegboard(contenders.echo_at(bare.url), env=trust))
    return {"bare": _target(bare), "gateway": _target(ours)}


def _over_stdio(stack: ExitStack) -> dict[str, dict[str, Any]]:
    child = contenders.echo_over_stdio()
    command = stack.enter_context(contenders.serve_command(child))
    return {
        "bare": {"command": STDIO, "tool": "echo"},
        "gateway": {"command": [*command, "--stdio", "--surface", "full"], "tool": "echo"},
        "http": _target(stack.enter_context(contenders.pegboard(child))),
    }


def _proxy() -> list[Row]:
    """Calls per second beside mcp-proxy, the SDK's server as a child of both."""
    child = contenders.echo_over_stdio()
    with ExitStack() as stack:
        ours = stack.enter_context(contenders.pegboard(child))
        same_era = stack.enter_context(
            contenders.pegboard({"echo": {**child["echo"], "protocol": "legacy"}})
        )
        peer = stack.enter_context(contenders.mcp_proxy())
        alone = ["gateway_stdio", str(CONNECTIONS), "4", *STDIO]
        found = take_turns(
            RUNS,
            {
                "ours": lambda: ours.load("modern", CONNECTIONS, 4),
                "same era": lambda: same_era.load("modern", CONNECTIONS, 4),
                "peer": lambda: peer.load("legacy", CONNECTIONS, 4),
                "alone": lambda: run_worker(OURS, *alone),
            },
        )
    rate = {name: median_of(found, name, "calls_per_second") for name in found[0]}
    each = ", ".join(
        f"{it['ours']['calls_per_second'] / it['peer']['calls_per_second']:.2f}" for it in found
    )
    return [
        at_least(
            "calls/s through the gateway, the SDK's server on stdio behind both; mcp-proxy = 1",
            median_ratio(found, "ours", "peer", "calls_per_second"),
            1.05,
            f"{rate['ours']:,.0f}/s against {rate['peer']:,.0f}/s; the runs: {each}",
        ),
        Row(
            claim="the same, the handshake era between the gateway and that server, which costs "
            "the server less",
            measured=median_ratio(found, "same era", "peer", "calls_per_second"),
            unit="×",
            detail=f"{rate['same era']:,.0f}/s against {rate['peer']:,.0f}/s",
        ),
        Row(
            claim="the most that any gateway could reach there: that server with nothing between",
            measured=median_ratio(found, "alone", "peer", "calls_per_second"),
            unit="×",
            detail=f"{rate['alone']:,.0f}/s against {rate['peer']:,.0f}/s",
        ),
    ]


def _source() -> list[Row]:
    """What is counted, not timed."""
    private = private_sdk_names()
    return [
        limit(
            "private names of the MCP SDK in `src`",
            len(private),
            0,
            "",
            ", ".join(f"`{name}`" for name in sorted(private)),
        ),
        limit("lines in `src/pegboard/upstream`", lines_in(SOURCE / "upstream"), 9000, ""),
    ]


GROUPS: Mapping[str, Callable[[], list[Row]]] = {
    "hub": _hub,
    "gateway": _gateway,
    "direct": _direct,
    "proxy": _proxy,
    "source": _source,
}
"""What `--only` chooses from."""


def _pythons() -> dict[str, Path]:
    before = python_before()
    return {"now": OURS} if before is None else {"before": before, "now": OURS}


def _target(contender: Contender) -> dict[str, str]:
    return {"url": contender.url, "tool": contender.tool}


def _against(ours: float, other: float) -> str:
    return f"{ours * 1e3:,.2f} ms against {other * 1e3:,.2f} ms"
