"""Skills of servers on every wire and surface, in both eras of clients and servers."""

from typing import Any

import anyio
import pytest

from pegboard.gateway import Gateway
from pegboard.skills import digest_of, raw_content
from pegboard.upstream import Era
from tests.gateway.servers import hub
from tests.gateway.skill_servers import SKILLS, Publisher, published
from tests.journeys.test_extensions import SURFACES, WIRES, peer_of

HAS_SKILLS: dict[str, Any] = {"extensions": {SKILLS: {}}}
ROOT = "docs+skill://acme/refunds"
server_eras = pytest.mark.parametrize("server_era", ["modern", "legacy"])


@server_eras
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("wire", WIRES)
async def test_a_client_lists_gets_and_verifies_a_skill(
    wire: str, surface: str, server_era: Era
) -> None:
    docs = Publisher("skill://acme/refunds", directory_read=True)
    async with (
        published(docs, "docs", server_era) as config,
        hub(config) as it,
        Gateway(it) as gateway,
        peer_of(gateway, wire, surface) as peer,
    ):

        async def ask(method: str, **params: Any) -> dict[str, Any]:
            response = await peer.ask(method, HAS_SKILLS, **params)
            assert "error" not in response, response
            return response["result"]

        with anyio.fail_after(20):
            assert SKILLS in (await peer.introduction())["capabilities"]["extensions"]
            [entry] = (await ask("skills/list"))["skills"]
            assert entry["uri"] == f"{ROOT}/SKILL.md"
            assert (await ask("skills/get", uri=entry["uri"]))["skill"] == entry
            for file in entry["resources"]:
                [read] = (await ask("resources/read", uri=file["uri"]))["contents"]
                assert digest_of(raw_content(read) or b"") == file["digest"]
            inside = (await ask("resources/directory/read", uri=ROOT))["resources"]
            assert {child["name"] for child in inside} == {"SKILL.md", "refs"}
            assert (await ask("prompts/list"))["prompts"] == []


@server_eras
@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("wire", WIRES)
async def test_a_client_without_the_extension_sees_a_prompt_and_a_resource(
    wire: str, surface: str, server_era: Era
) -> None:
    docs = Publisher("skill://acme/refunds")
    async with (
        published(docs, "docs", server_era) as config,
        hub(config) as it,
        Gateway(it) as gateway,
        peer_of(gateway, wire, surface) as peer,
    ):
        with anyio.fail_after(20):
            [prompt] = (await peer.ask("prompts/list", {}))["result"]["prompts"]
            shown = (await peer.ask("prompts/get", {}, name=prompt["name"]))["result"]
            assert "# refunds" in shown["messages"][0]["content"]["text"]
            listed = (await peer.ask("resources/list", {}))["result"]["resources"]
            assert f"{ROOT}/SKILL.md" in {it["uri"] for it in listed}
