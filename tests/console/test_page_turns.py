"""Whose pages wait, and whose do not."""

import anyio
from anyio.lowlevel import checkpoint

from pegboard.console.page_turns import PageTurns


async def test_a_tenant_with_many_pages_waits_for_itself_only() -> None:
    turns, made, let = PageTurns(), list[str](), anyio.Event()

    async def make(tenant: str) -> None:
        async with turns.take(tenant):
            made.append(tenant)
            await let.wait()

    async with anyio.create_task_group() as group:
        for tenant in (*["loud"] * 50, "quiet"):
            group.start_soon(make, tenant)
        await anyio.wait_all_tasks_blocked()
        assert sorted(made) == ["loud", "loud", "quiet"]
        let.set()
    assert made.count("loud") == 50


async def test_few_pages_are_made_at_once_and_each_tenant_gets_its_turn() -> None:
    turns, at_once, most = PageTurns(), 0, 0

    async def make(tenant: str) -> None:
        nonlocal at_once, most
        async with turns.take(tenant):
            at_once += 1
            most = max(most, at_once)
            await checkpoint()
            at_once -= 1

    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            for number in range(100):
                group.start_soon(make, f"tenant{number % 20}")
    assert (at_once, most) == (0, 4)
