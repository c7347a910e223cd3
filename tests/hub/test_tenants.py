"""Hubs of several tenants on one storage."""

from pathlib import Path

import anyio.to_thread
import pytest

from pegboard import Tool
from tests.upstream.board_servers import hub_of


async def test_two_tenants_of_one_storage_see_only_their_own(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'tools.db'}"
    async with (
        hub_of(storage=url, tenant="red") as red,
        hub_of(storage=url, tenant="blue") as blue,
    ):
        paint = Tool(name="paint", description="Paints.", input_schema={})
        await anyio.to_thread.run_sync(red.registry.register, paint)
        assert (list(red.registry), list(blue.registry)) == (["paint"], [])
        assert red.registry.storage is not None
        assert red.registry.storage.tenant == "red"
    async with hub_of(storage=url, tenant="red") as again:
        assert list(again.registry) == ["paint"]


def test_a_tenant_needs_a_storage_that_is_not_open_yet() -> None:
    with pytest.raises(TypeError, match="URL or a path"):
        hub_of(tenant="red")
