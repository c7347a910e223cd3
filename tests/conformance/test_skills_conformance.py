"""The scenarios of the official suite about skills (SEP-2640), against a server and the gateway."""

import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.conformance.suite import run_client, run_scenario
from tests.journeys.process import ROOT, gateway_process, serve_command, serving, serving_process
from tests.skills.test_folder import write

pytestmark = [pytest.mark.timeout(180), pytest.mark.interop("node", "npm")]

MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"
SCENARIOS = ("sep-2640-skills-directory", "sep-2640-skills-enumeration", "sep-2640-skills-manifest")
EVERY = pytest.mark.parametrize("scenario", SCENARIOS)
ERAS = pytest.mark.parametrize("revision", [MODERN, HANDSHAKE])
NOT_APPLICABLE = "sep-2640-skills-list-cache-attributes", "sep-2640-skills-get-cache-attributes"
"""Checks that the suite skips in the handshake era, which has no such fields."""


@pytest.fixture(scope="module")
def upstream() -> Generator[str]:
    with serving_process(sys.executable, "-m", "tests.conformance.skills_server") as process:
        yield f"http://127.0.0.1:{_port(process)}/mcp"


@pytest.fixture(scope="module")
def gateway(upstream: str, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The gateway before the server, whose URIs it keeps."""
    entry = {"fixture": {"url": upstream, "prefix": ""}}
    with gateway_process(entry, tmp_path_factory.mktemp("gateway")) as origin:
        yield f"{origin}/mcp-full"


@pytest.fixture(scope="module")
def folder_gateway(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The gateway with nothing but a folder of skills."""
    folder = tmp_path_factory.mktemp("folder")
    for place in ("acme/refunds", "git-workflow"):
        write(folder / "skills", place, files={"references/A.md": b"More.\n"})
    command = [*serve_command({}, folder), "--port", "0"]
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {}, "skills": "./skills"}), "utf-8")
    with serving(command, at=ROOT) as origin:
        yield f"{origin}/mcp-full"


def _port(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return next(line.split()[-1] for line in process.stderr if "serving at port" in line)


def faults(url: str, scenario: str, revision: str, folder: Path) -> list[str]:
    found = run_scenario(url, scenario, revision, folder)
    skipped = NOT_APPLICABLE if revision == HANDSHAKE else ()
    return [it for it in found if not it.startswith(skipped)]


@EVERY
def test_the_server_passes_by_itself_so_that_what_fails_is_ours(
    upstream: str, scenario: str, tmp_path: Path
) -> None:
    assert faults(upstream, scenario, MODERN, tmp_path) == []


@EVERY
@ERAS
def test_the_gateway_conforms_as_the_server_does_in_both_eras(
    gateway: str, scenario: str, revision: str, tmp_path: Path
) -> None:
    assert faults(gateway, scenario, revision, tmp_path) == []


@EVERY
@ERAS
def test_a_folder_of_skills_conforms_in_both_eras(
    folder_gateway: str, scenario: str, revision: str, tmp_path: Path
) -> None:
    assert faults(folder_gateway, scenario, revision, tmp_path) == []


@pytest.mark.parametrize(
    "what", ["no-prefetch", "verify-digest", "verify-size", "verify-frontmatter"]
)
def test_a_model_at_the_gateway_gets_only_what_is_verified(what: str, tmp_path: Path) -> None:
    load = "" if what == "no-prefetch" else " --load"
    command = f"{sys.executable} -m tests.conformance.skills_host{load}"
    statuses = run_client(command, f"sep-2640-client-{what}", tmp_path)
    assert set(statuses.values()) == {"SUCCESS"}, statuses
