"""The official conformance suite, from npm, run once against an address."""

import json
import re
import subprocess
from pathlib import Path

from tests.journeys.process import TOOLS

NODE = TOOLS / "node" / "bin" / "node"
SUITE = TOOLS / "npm/node_modules/@modelcontextprotocol/conformance/dist/index.js"
_WHEN = re.compile(r"-\d{4}-\d\d-\d\dT[\d-]+Z$")
_FAULTS = {"FAILURE", "WARNING"}
Failures = dict[str, list[str]]
"""By scenario, what went wrong in it; nothing for those that were passed."""


def run_suite(url: str, revision: str, folder: Path) -> Failures:
    """Return what every scenario that was run found fault with."""
    return _run(url, ["--requirements", revision], folder, counted=_FAULTS)


def run_scenario(url: str, scenario: str, revision: str, folder: Path) -> list[str]:
    """Return what one scenario of an extension found fault with, or could not check."""
    # Extensions are on no timeline, so the suite has to be forced to run them in an era.
    options = ["--scenario", scenario, "--spec-version", revision, "--force"]
    [found] = _run(url, options, folder, counted=_FAULTS | {"SKIPPED"}).values()
    return found


def run_client(command: str, scenario: str, folder: Path) -> dict[str, str]:
    """Return the status of each check of a scenario about a client, which a command starts."""
    words = [NODE, SUITE, "client", "--command", command, "--scenario", scenario, "-o", folder]
    run = subprocess.run(words, capture_output=True, encoding="utf-8", timeout=170, check=False)
    checks = [
        it for path in folder.rglob("checks.json") for it in json.loads(path.read_text("utf-8"))
    ]
    assert checks, run.stderr
    return {it["id"]: it["status"] for it in checks}


def _run(url: str, options: list[str], folder: Path, *, counted: set[str]) -> Failures:
    command = [NODE, SUITE, "server", "--url", url, *options, "-o", folder]
    run = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=170, check=False)
    found: Failures = {}
    for checks in folder.glob("server-*/checks.json"):
        name = _WHEN.sub("", checks.parent.name.removeprefix("server-"))
        found[name] = [
            f"{check['id']}: {check.get('errorMessage', '')}"
            for check in json.loads(checks.read_text("utf-8"))
            if check["status"] in counted
        ]
    assert found, run.stderr
    return found
