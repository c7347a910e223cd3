"""The scenarios of the tasks extension (SEP-2663), against the gateway before a server of tasks."""

import sys
from collections.abc import Generator
from contextlib import AbstractContextManager
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
REFUSAL = "tasks-required-task-error"
"""A tool that needs tasks refuses a client without them: only if its server hears of the client's.

Otherwise no tool behind the gateway needs that of a client: the gateway waits for the client.
"""
FIXTURE = Path(__file__).with_name("task_server.py")


def _gateway(folder: Path, **more: str) -> AbstractContextManager[str]:
    entry = {"command": sys.executable, "args": [str(FIXTURE)], "protocol": "2026-07-28", **more}
    return gateway_process({"fixture": {"prefix": "", **entry}}, folder)


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    with _gateway(tmp_path_factory.mktemp("gateway")) as found:
        yield found


@pytest.fixture(scope="module")
def declared(tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The gateway before a server that hears of tasks only for clients that have them."""
    with _gateway(tmp_path_factory.mktemp("gateway"), tasks="declared") as found:
        yield found


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_gateway_has_tasks(origin: str, scenario: str, tmp_path: Path) -> None:
    assert run_scenario(f"{origin}/mcp-full", scenario, "2026-07-28", tmp_path) == []


@pytest.mark.parametrize("scenario", [*SCENARIOS, REFUSAL])
def test_the_gateway_may_leave_tasks_to_the_client(
    declared: str, scenario: str, tmp_path: Path
) -> None:
    assert run_scenario(f"{declared}/mcp-full", scenario, "2026-07-28", tmp_path) == []
