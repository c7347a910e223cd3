"""The official conformance suite: against a bare upstream, and against the gateway before it."""

import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.scenarios import BEYOND, REQUIRED
from tests.conformance.suite import Failures, run_suite
from tests.journeys.process import gateway_process, serving_process
from tests.tls import Authority

pytestmark = pytest.mark.timeout(180)

interop = pytest.mark.interop("node", "npm")
interop_full = pytest.mark.interop_full("node", "npm")

FIXTURE = (sys.executable, "-m", "tests.conformance.fixture_server")
MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"


@pytest.fixture(scope="module")
def upstream() -> Generator[str]:
    """The bare upstream behind HTTP."""
    with serving_process(*FIXTURE, "http") as process:
        yield f"http://127.0.0.1:{_port(process)}/mcp"


def _port(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return next(line.split()[-1] for line in process.stderr if "serving at port" in line)


@pytest.fixture(scope="module")
def through_gateway(upstream: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Failures]:
    """What the suite says about the gateway, by revision."""
    return _through({"url": upstream}, tmp_path_factory.mktemp("gateway"), MODERN, HANDSHAKE)


def _through(entry: dict[str, Any], folder: Path, *revisions: str) -> dict[str, Failures]:
    with gateway_process({"fixture": {"prefix": "", **entry}}, folder) as origin:
        return {it: run_suite(f"{origin}/mcp-full", it, folder / it) for it in revisions}


@interop
@pytest.mark.parametrize("scenario", REQUIRED[MODERN])
def test_the_gateway_conforms_to_the_modern_era(
    through_gateway: dict[str, Failures], scenario: str
) -> None:
    assert through_gateway[MODERN][scenario] == []


@interop
@pytest.mark.parametrize("scenario", REQUIRED[HANDSHAKE])
def test_the_gateway_conforms_to_the_handshake_era(
    through_gateway: dict[str, Failures], scenario: str
) -> None:
    assert through_gateway[HANDSHAKE][scenario] == []


@interop
@pytest.mark.parametrize(
    ("revision", "scenario"), [(it, name) for it, names in BEYOND.items() for name in names]
)
def test_the_gateway_passes_some_scenarios_that_do_not_count(
    through_gateway: dict[str, Failures], revision: str, scenario: str
) -> None:
    assert through_gateway[revision][scenario] == []


@interop_full
@pytest.mark.parametrize("revision", [MODERN, HANDSHAKE])
def test_the_bare_upstream_passes_too_so_that_what_fails_is_ours(
    upstream: str, revision: str, tmp_path: Path
) -> None:
    found = run_suite(upstream, revision, tmp_path)
    assert {name: found[name] for name in REQUIRED[revision] if found[name]} == {}


@interop_full
def test_an_upstream_of_the_handshake_era_serves_that_era_completely(
    upstream: str, tmp_path: Path
) -> None:
    found = _through({"url": upstream, "protocol": "legacy"}, tmp_path, HANDSHAKE)[HANDSHAKE]
    assert {name: found[name] for name in REQUIRED[HANDSHAKE] if found[name]} == {}


@interop_full
def test_an_upstream_over_stdio_serves_both_eras_completely(tmp_path: Path) -> None:
    entry = {"command": FIXTURE[0], "args": [*FIXTURE[1:], "stdio"]}
    for revision, found in _through(entry, tmp_path, MODERN, HANDSHAKE).items():
        assert {name: found[name] for name in REQUIRED[revision] if found[name]} == {}


@interop_full
def test_an_upstream_over_https_serves_both_eras_completely(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with serving_process(*FIXTURE, "https", str(authority.sign())) as process:
        entry = {"url": f"https://127.0.0.1:{_port(process)}/mcp", "tls": {"ca": str(authority.ca)}}
        for revision, found in _through(entry, tmp_path, MODERN, HANDSHAKE).items():
            assert {name: found[name] for name in REQUIRED[revision] if found[name]} == {}
