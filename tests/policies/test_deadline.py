import subprocess
import sys
import threading
from typing import Any

import anyio
import pytest

from pegboard import CallRecord, Deadline, Registry, ToolTimeoutError

FOREVER = 3600


@pytest.mark.covers("R-SAGE-36")
async def test_an_asynchronous_tool_is_cancelled_at_its_deadline(records: list[CallRecord]) -> None:
    ended: list[str] = []

    async def stuck() -> None:
        try:
            await anyio.sleep(FOREVER)
        finally:
            ended.append("cancelled")

    registry = Registry(deadline=Deadline(0.01), observers=[records.append])
    registry.register(stuck)
    with pytest.raises(ToolTimeoutError) as late:
        await registry.acall("stuck")
    assert ended == ["cancelled"]
    assert isinstance(late.value, TimeoutError)
    assert (late.value.tool, late.value.seconds, late.value.sent) == ("stuck", 0.01, True)
    assert [(it.outcome, it.error_code, it.attempts) for it in records] == [
        ("timeout", "timeout", 1)
    ]


@pytest.mark.covers("R-SAGE-36")
@pytest.mark.parametrize("how", ["call", "acall"])
async def test_a_synchronous_tool_that_never_returns_is_abandoned(how: str) -> None:
    release = threading.Event()

    def stuck() -> None:
        release.wait(FOREVER)

    registry = Registry()
    registry.register(stuck, deadline=Deadline(0.01))
    registry.register(release.is_set)
    with pytest.raises(ToolTimeoutError):
        if how == "call":
            registry.call("stuck")
        else:
            await registry.acall("stuck")
    assert await registry.acall("is_set") is False
    release.set()


def test_an_abandoned_tool_does_not_keep_the_process_from_ending() -> None:
    code = (
        "import threading, anyio\n"
        "from pegboard import Registry, Deadline, ToolTimeoutError\n"
        "def stuck(): threading.Event().wait()\n"
        "registry = Registry(deadline=Deadline(0.01))\n"
        "registry.register(stuck)\n"
        "for run in (lambda: registry.call('stuck'), lambda: anyio.run(registry.acall, 'stuck')):\n"
        "    try: run()\n"
        "    except ToolTimeoutError: print('late')\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=15, check=True
    )
    assert run.stdout.split() == ["late", "late"]


async def test_a_tool_that_shrugs_off_its_cancellation_is_late_all_the_same() -> None:
    async def stubborn() -> str:
        try:
            await anyio.sleep(FOREVER)
        except BaseException:  # noqa: BLE001
            return "I do not care"
        return ""

    registry = Registry(deadline=Deadline(0.01))
    registry.register(stubborn)
    with pytest.raises(ToolTimeoutError):
        await registry.acall("stubborn")


async def test_a_timeout_error_of_the_tools_own_is_not_mistaken_for_the_deadline() -> None:
    error = TimeoutError("mine")

    async def impatient() -> None:
        raise error

    registry = Registry(deadline=Deadline(FOREVER))
    registry.register(impatient)
    with pytest.raises(TimeoutError) as raised:
        await registry.acall("impatient")
    assert raised.value is error


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "3", None])
def test_a_deadline_is_a_positive_number(seconds: Any) -> None:
    with pytest.raises(ValueError, match="positive"):
        Deadline(seconds)
