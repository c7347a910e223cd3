"""The scenarios of the tasks extension (SEP-2663), against the gateway before a server of tasks."""

import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.conformance.suite import run_scenario
from tests.journeys.process import gateway_process

pytestmark = [pytest.mark.timeout(180), pytest.mark.interop("node", "npm")]

SCENARIOS = (
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-mrtr-composition",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
)
"""All but ``tasks-required-task-error``: no tool behind the gateway requires tasks of a client.

The gateway has them itself, and waits for a client that has none.
"""
FIXTURE = Path(__file__).with_name("task_server.py")


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    entry = {"command": sys.executable, "args": [str(FIXTURE)], "protocol": "2026-07-28"}
    folder = tmp_path_factory.mktemp("gateway")
    with gateway_process({"fixture": {"prefix": "", **entry}}, folder) as found:
        yield found


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_gateway_has_tasks(origin: str, scenario: str, tmp_path: Path) -> None:
    assert run_scenario(f"{origin}/mcp-full", scenario, "2026-07-28", tmp_path) == []
