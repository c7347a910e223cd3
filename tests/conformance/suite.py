"""The official conformance suite, from npm, run once against an address."""

import json
import re
import subprocess
from pathlib import Path

from tests.journeys.process import TOOLS

NODE = TOOLS / "node" / "bin" / "node"
SUITE = TOOLS / "npm/node_modules/@modelcontextprotocol/conformance/dist/index.js"
_WHEN = re.compile(r"-\d{4}-\d\d-\d\dT[\d-]+Z$")
Failures = dict[str, list[str]]
"""By scenario, what went wrong in it; nothing for those that were passed."""


def run_suite(url: str, revision: str, folder: Path) -> Failures:
    """Return what every scenario that was run found fault with."""
    command = [NODE, SUITE, "server", "--url", url, "--requirements", revision, "-o", folder]
    run = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=170, check=False)
    found: Failures = {}
    for checks in folder.glob("server-*/checks.json"):
        name = _WHEN.sub("", checks.parent.name.removeprefix("server-"))
        found[name] = [
            f"{check['id']}: {check.get('errorMessage', '')}"
            for check in json.loads(checks.read_text("utf-8"))
            if check["status"] in {"FAILURE", "WARNING"}
        ]
    assert found, run.stderr
    return found


def run_scenario(url: str, scenario: str, folder: Path) -> dict[str, str]:
    """Return the outcome of each check of a scenario of an extension of the modern era."""
    revision = ["--spec-version", "2026-07-28", "--force"]
    command = [NODE, SUITE, "server", "--url", url, "--scenario", scenario, *revision, "-o", folder]
    run = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120, check=False)
    [checks] = folder.glob("*/checks.json")
    found = json.loads(checks.read_text("utf-8"))
    assert found, run.stderr
    return {
        check["id"]: f"{check['status']}: {check['errorMessage']}"
        if check.get("errorMessage")
        else check["status"]
        for check in found
    }
