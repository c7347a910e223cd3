"""Watching servers of the modern era that do not want to be watched."""

from typing import Any

import anyio
import anyio.lowlevel
import mcp_types as types
import pytest
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY

from tests.upstream.board_servers import Bench, hub_of, memory

LONG = 10.0
"""Seconds: no other task of a hub pauses for so long."""


async def end_at_once(
    context: Any, params: types.SubscriptionsListenRequestParams
) -> types.SubscriptionsListenResult:
    meta: Any = {SUBSCRIPTION_ID_META_KEY: context.request_id}
    granted = types.SubscriptionsAcknowledgedNotificationParams(
        notifications=params.notifications, _meta=meta
    )
    await context.session.send_notification(
        types.SubscriptionsAcknowledgedNotification(params=granted),
        related_request_id=context.request_id,
    )
    return types.SubscriptionsListenResult(_meta=meta)


@pytest.mark.parametrize("what", ["lists", "resource"])
async def test_a_server_that_ends_every_stream_at_once_is_asked_ever_more_rarely(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    left_alone = anyio.Event()

    async def pass_time(seconds: float) -> None:
        if seconds >= LONG:
            left_alone.set()
            await anyio.sleep_forever()
        await anyio.lowlevel.checkpoint()

    bench = Bench(one=lambda _: "1")
    if what == "lists":
        bench.server.add_request_handler(
            "subscriptions/listen", types.SubscriptionsListenRequestParams, end_at_once
        )
    async with hub_of(memory("calc", bench)) as hub:
        monkeypatch.setattr(anyio, "sleep", pass_time)
        with anyio.fail_after(5):
            if what == "resource":
                bench.server.add_request_handler(
                    "subscriptions/listen", types.SubscriptionsListenRequestParams, end_at_once
                )
                await hub.server("calc").subscribe("note://a")
            await left_alone.wait()
        monkeypatch.undo()
