"""What whoever runs the process may ask it, and nobody else."""

import httpx2
import pytest

from pegboard.server import App, FrontDesk
from pegboard.server.authentication import Reception
from pegboard.server.opening import Opening
from pegboard.server.owner import Owner
from pegboard.server.owners_desk import OwnersDesk
from tests.gateway.servers import bench, hub
from tests.server.fake_gateway import FakeGateway
from tests.server.serving import served


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'{"text": "\xff\xfe"}',
        b'{"text": 5}',
        b'{"text": "\\ud800"}',
        b"[" * 60000,
    ],
)
async def test_a_search_that_cannot_be_read_is_a_bad_request(body: bytes) -> None:
    owner = Owner()
    headers = {"authorization": f"Bearer {owner.token}"}
    async with hub(bench("calc", add=str)) as it:
        opening = Opening(it)
        await opening.run()
        desk = OwnersDesk(it, opening=opening, owner=owner)
        app = App(FrontDesk(FakeGateway()), reception=Reception(owner=owner), owners_desk=desk)
        async with served(app) as url, httpx2.AsyncClient(headers=headers) as client:
            refused = await client.post(f"{url}/owner/search", content=body)
            assert (refused.status_code, "error" in refused.json()) == (400, True)
            found = await client.post(f"{url}/owner/search", json={"text": "add"})
            assert found.status_code == 200
