"""The setting `apps` of the gateway, what it announces, and pinned tools."""

import pytest

from pegboard.gateway import Face, GatewayOptions
from pegboard.upstream import Era
from tests.gateway.app_servers import (
    ERAS,
    MATRIX,
    NOT_FOUND,
    PAGE,
    UI,
    listed,
    place,
    refused,
    tool,
)
from tests.gateway.clients import FULL


@MATRIX
async def test_without_apps_no_trace_of_them_is_left(era: Era, server_era: Era) -> None:
    async with place(GatewayOptions(apps=False), server_era=server_era) as it:
        it.disk.results["show"] = {
            "content": [{"type": "text", "text": "now"}],
            "_meta": {"ui": {"resourceUri": PAGE}, "ui/resourceUri": PAGE, "kept": 1},
        }
        host = it.host(era)
        assert UI not in it.gateway.capabilities("2025-11-25").get("extensions", {})
        tools = await listed(host)
        assert tools["mcp_disk_show"]["_meta"] == {"example.org/kept": 1}
        assert tools["mcp_disk_flat"]["_meta"] == {"example.org/kept": 1}
        assert "mcp_disk_tick" not in tools
        for name in ("mcp_disk_tick", "tick"):
            assert await refused(host, "tools/call", name=name, arguments={}) == -32602
        pages = (await host.send("resources/list"))["resources"]
        templates = (await host.send("resources/templates/list"))["resourceTemplates"]
        named = [*(it["uri"] for it in pages), *(it["uriTemplate"] for it in templates)]
        assert [uri for uri in named if "ui://" in uri] == []
        for uri in ("ui://disk/clock/app.html", PAGE, "ui://disk/x/view.html"):
            assert await refused(host, "resources/read", uri=uri) == NOT_FOUND[era]
        for caller in (host, it.host(era, face=Face())):
            result = await caller.call(
                *(["mcp_disk_show"] if caller is host else ["call_tool"]),
                **({} if caller is host else {"name": "mcp_disk_show"}),
            )
            assert not {"ui", "ui/resourceUri"} & result["_meta"].keys()
            assert result["_meta"]["kept"] == 1
        assert all(UI not in told.get("extensions", {}) for told in it.disk.told)


@ERAS
async def test_without_apps_a_server_that_keeps_its_names_hides_its_pages_too(era: Era) -> None:
    async with place(GatewayOptions(apps=False), prefix="") as it:
        host = it.host(era)
        assert (await listed(host))["show"]["_meta"] == {"example.org/kept": 1}
        assert await refused(host, "resources/read", uri=PAGE) == NOT_FOUND[era]
        [content] = (await host.send("resources/read", uri="note://one"))["contents"]
        assert content["text"] == "first"


@ERAS
@pytest.mark.parametrize("apps", [True, False])
async def test_a_template_of_pages_is_completed_by_its_uri_in_the_gateway(
    era: Era, apps: bool
) -> None:
    async with place(GatewayOptions(apps=apps)) as it:
        reference = {"type": "ref/resource", "uri": "ui://disk/{page}/view.html"}
        asked = {"ref": reference, "argument": {"name": "page", "value": "c"}}
        if not apps:
            assert await refused(it.host(era), "completion/complete", **asked) == -32602
            return
        completed = await it.host(era).send("completion/complete", **asked)
        assert completed["completion"]["values"] == ["ui://{page}/view.html:c"]


async def test_the_gateway_announces_apps() -> None:
    async with place() as it:
        assert it.gateway.capabilities("2025-11-25")["extensions"][UI] == {}


@ERAS
async def test_pinned_tools_are_always_loaded_and_others_as_before(era: Era) -> None:
    async with place(GatewayOptions(pinned=("mcp_disk_show", "mcp_disk_plain"))) as it:
        for face in (FULL, Face()):
            tools = await listed(it.host(era, face=face))
            assert tools["mcp_disk_plain"]["_meta"] == {"anthropic/alwaysLoad": True}
            meta = tools["mcp_disk_show"]["_meta"]
            assert meta["anthropic/alwaysLoad"] is True
            assert meta["ui"] == {"resourceUri": "ui://disk/clock/app.html"}
            assert tools["mcp_disk_show"]["icons"] == tool("show")["icons"]
            others = [
                it for name, it in tools.items() if name not in ("mcp_disk_show", "mcp_disk_plain")
            ]
            assert [it for it in others if "anthropic/alwaysLoad" in it.get("_meta", {})] == []
