"""MCP Apps through the gateway: pages, and tools that only apps call."""

from typing import Any

import anyio
import msgspec
import pytest

from pegboard.gateway import Face, Gateway, GatewayOptions, Profile, RpcError
from pegboard.model.principal import LOCAL, Principal
from pegboard.upstream import Era
from tests.gateway.app_servers import (
    ERAS,
    MARKS,
    MATRIX,
    NOT_FOUND,
    PAGE,
    SHOWS,
    AppServer,
    listed,
    place,
    refused,
    tool,
)
from tests.gateway.clients import FULL, Caller, text_of
from tests.gateway.servers import hub
from tests.upstream.hosted import HostedServer, config_of, listening, result, saying
from tests.upstream.http_servers import answer

JSON = {"content_type": "application/json"}


class Odd(HostedServer):
    """A server of the modern era with one tool, as the test writes it."""

    def __init__(self, say: Any, definition: dict[str, Any]) -> None:
        super().__init__(say)
        self.definition = definition

    def greet(self, request: dict[str, Any]) -> bytes:
        if request.get("method") != "tools/list":
            return super().greet(request)
        fields = result(request, tools=[self.definition], ttlMs=0, cacheScope="private")
        return answer("200 OK", fields, **JSON)


@MATRIX
async def test_a_page_has_one_uri_wherever_it_is_named(era: Era, server_era: Era) -> None:
    link = {"type": "resource_link", "uri": PAGE, "name": "page"}
    embedded = {"type": "resource", "resource": {"uri": PAGE, "text": "x", "_meta": MARKS}}
    meta = {"ui": {"resourceUri": PAGE, "more": 1}, "ui/resourceUri": PAGE, "kept": 1}
    async with place(server_era=server_era) as it:
        it.disk.results["show"] = {"content": [link, embedded], "_meta": meta}
        host, uri = it.host(era), "ui://disk/clock/app.html"
        tools = await listed(host)
        assert tools["mcp_disk_show"]["_meta"]["ui"] == {"resourceUri": uri}
        assert tools["mcp_disk_flat"]["_meta"] == {
            "ui": {},
            "ui/resourceUri": uri,
            "example.org/kept": 1,
        }
        pages = (await host.send("resources/list"))["resources"]
        [page] = [page for page in pages if page["uri"] == uri]
        templates = (await host.send("resources/templates/list"))["resourceTemplates"]
        assert templates[0]["uriTemplate"] == "ui://disk/{page}/view.html"
        result = await host.call("mcp_disk_show")
        assert [block.get("uri") for block in result["content"]] == [uri, None]
        assert result["content"][1]["resource"] == {"uri": uri, "text": "x", "_meta": MARKS}
        said = {key: result["_meta"][key] for key in meta}
        assert said == {"ui": {"resourceUri": uri, "more": 1}, "ui/resourceUri": uri, "kept": 1}
        [content] = (await host.send("resources/read", uri=uri))["contents"]
        assert content["uri"] == uri
        assert content["text"] == "<!doctype html> of disk"
        assert msgspec.json.encode(content["_meta"]) == msgspec.json.encode(MARKS)
        assert msgspec.json.encode(page["_meta"]) == msgspec.json.encode(MARKS)


@MATRIX
async def test_two_servers_with_the_same_page_live_side_by_side(era: Era, server_era: Era) -> None:
    async with place(server_era=server_era) as it:
        host = it.host(era)
        tools = await listed(host)
        texts: list[str] = []
        for name in ("disk", "other"):
            uri = tools[f"mcp_{name}_show"]["_meta"]["ui"]["resourceUri"]
            texts.append((await host.send("resources/read", uri=uri))["contents"][0]["text"])
        assert texts == ["<!doctype html> of disk", "<!doctype html> of other"]


@ERAS
async def test_a_page_that_its_server_calls_by_the_name_of_a_server_is_found(era: Era) -> None:
    async with place(prefix="") as it:
        it.disk.pages |= {"ui://other/own.html": "own", "ui://other/clock/app.html": "shadowed"}
        it.other.pages["ui://other/of-other.html"] = "its"
        host = it.host(era)
        for uri, text in {
            "ui://other/own.html": "own of disk",
            "ui://other/clock/app.html": "<!doctype html> of other",
            "ui://other/of-other.html": "its of other",
            "ui://other/other/of-other.html": "its of other",
        }.items():
            [content] = (await host.send("resources/read", uri=uri))["contents"]
            assert content["text"] == text
        assert await refused(host, "resources/read", uri="ui://other/none") == NOT_FOUND[era]


@ERAS
async def test_a_server_that_keeps_its_names_keeps_its_pages(era: Era) -> None:
    async with place(prefix="") as it:
        host = it.host(era)
        assert (await listed(host))["show"]["_meta"]["ui"] == {"resourceUri": PAGE}
        [content] = (await host.send("resources/read", uri=PAGE))["contents"]
        assert content["text"] == "<!doctype html> of disk"


@ERAS
async def test_what_a_definition_has_besides_its_page_passes_unchanged(era: Era) -> None:
    async with place() as it:
        shown, sent = (await listed(it.host(era)))["mcp_disk_show"], tool("show")
        same = {key: shown[key] for key in sent if key not in ("name", "_meta")}
        assert same == {key: sent[key] for key in sent if key not in ("name", "_meta")}
        assert shown["_meta"]["example.org/kept"] == 1


@MATRIX
async def test_only_a_client_that_shows_apps_sees_what_only_apps_call(
    era: Era, server_era: Era
) -> None:
    async with place(server_era=server_era) as it:
        host, plain = it.host(era), it.plain(era)
        assert "mcp_disk_tick" in await host.names()
        assert "mcp_disk_tick" not in await plain.names()
        assert "mcp_disk_tell" in await plain.names()
        assert text_of(await host.call("mcp_disk_tick")) == "disk tick"
        for name in ("mcp_disk_tick", "tick"):
            assert await refused(plain, "tools/call", name=name, arguments={}) == -32602
        with pytest.raises(RpcError) as caught:
            await host.call("mcp_disk_tic")
        assert "mcp_disk_tick" not in caught.value.message
        assert it.disk.called == ["tick"]


@ERAS
@pytest.mark.parametrize("shows", [True, False])
async def test_no_model_is_offered_what_only_apps_call(era: Era, shows: bool) -> None:
    async with place() as it:
        caller = (it.host if shows else it.plain)(era, face=Face())
        found = await caller.call("search_tools", query="shows the clock of tick", limit=100)
        named = await caller.call("search_tools", query="mcp_disk_tick")
        pattern = await caller.call("search_tools", query="tick", search_method="regex")
        listing = await caller.call("list_tools_by_category", category="disk")
        described = await caller.call("get_tool_definition", tool_name="mcp_disk_tick")
        near = await caller.call("get_tool_definition", tool_name="mcp_disk_tic")
        called = await caller.call("call_tool", name="mcp_disk_tick", arguments={})
        by_its_own_name = await caller.call("call_tool", name="tick", arguments={})
        for result in (found, named, pattern, listing, near):
            assert "tick" not in text_of(result).replace("mcp_disk_tic'", "")
        assert described["isError"]
        assert called["isError"]
        assert by_its_own_name["isError"]
        assert it.disk.called == []
        categories = await caller.send("resources/read", uri="registry://categories")
        assert '"disk":4' in categories["contents"][0]["text"]


@MATRIX
async def test_on_the_search_surface_an_app_calls_its_tools(era: Era, server_era: Era) -> None:
    async with place(server_era=server_era) as it:
        host = it.host(era, face=Face())
        assert "mcp_disk_tick" not in await host.names()
        assert text_of(await host.call("mcp_disk_tick")) == "disk tick"


@ERAS
async def test_an_app_calls_a_tool_by_the_name_that_its_server_gave(era: Era) -> None:
    async with place() as it:
        it.disk.listed.append(tool("alone", visibility=["app"]))
        await it.hub.server("disk").refresh()
        assert text_of(await it.host(era).call("alone")) == "disk alone"
        at_its_group = it.host(era, face=Face(surface="full", group="other"))
        assert text_of(await at_its_group.call("tick")) == "other tick"
        with pytest.raises(RpcError) as caught:
            await it.host(era).call("tick")
        assert "mcp_disk_tick" in caught.value.message
        assert "mcp_other_tick" in caught.value.message
        # That tool is for models alone.
        assert await refused(at_its_group, "tools/call", name="tell", arguments={}) == -32602
        assert await refused(it.plain(era), "tools/call", name="alone", arguments={}) == -32602


STRANGERS = {
    "another server's key": Principal(
        subject="k", scopes=frozenset({"call"}), servers=("other",), tools=("*",)
    ),
    "a key of other resources": Principal(
        subject="k", scopes=frozenset({"call"}), servers=("*",), tools=("disk+*",)
    ),
    "a key of other tools": Principal(
        subject="k", scopes=frozenset({"call"}), servers=("*",), tools=("mcp_other_*",)
    ),
}


@ERAS
@pytest.mark.parametrize("stranger", STRANGERS)
@pytest.mark.parametrize("surface", ["full", "search"])
async def test_no_page_and_no_app_of_a_server_is_reachable_for_a_stranger(
    era: Era, stranger: str, surface: Any
) -> None:
    async with place() as it:
        it.disk.listed.append(tool("alone", visibility=["app"]))
        it.disk.pages["ui://alone/app.html"] = ""
        await it.hub.server("disk").refresh()
        host = it.host(era, face=Face(surface=surface), principal=STRANGERS[stranger])
        for uri in (
            *("ui://disk/clock/app.html", "ui://alone/app.html", "ui://DISK/clock/app.html"),
            *("disk+ui://clock/app.html", "ui://disk/x/view.html", "ui://x-..disk/clock/app.html"),
            "ui://other/../disk/clock/app.html",
        ):
            assert await refused(host, "resources/read", uri=uri) == NOT_FOUND[era]
        for name in ("mcp_disk_tick", "mcp_disk_show", "alone"):
            assert await refused(host, "tools/call", name=name, arguments={}) == -32602
        assert it.disk.called == []
        pages = (await host.send("resources/list"))["resources"]
        assert [page for page in pages if page["uri"].startswith("ui://disk")] == []


@ERAS
async def test_a_key_that_may_only_read_neither_reads_a_page_nor_calls_for_an_app(era: Era) -> None:
    async with place() as it:
        reader = Principal(subject="r", scopes=frozenset({"read"}))
        host = it.host(era, principal=reader)
        assert "mcp_disk_tick" in await host.names()
        assert await refused(host, "resources/read", uri="ui://disk/clock/app.html") == -32600
        assert await refused(host, "tools/call", name="mcp_disk_tick", arguments={}) == -32600


async def test_a_tenant_reaches_no_app_of_another() -> None:
    disk, mine = AppServer(label="disk"), AppServer(label="mine")
    async with (
        hub(disk.config("disk")) as it,
        Gateway(it, open_tenant=lambda _: hub(mine.config("mine"))) as gateway,
    ):
        stranger = msgspec.structs.replace(LOCAL, tenant="acme")
        host = Caller(gateway, face=FULL, principal=stranger, **SHOWS)
        with anyio.fail_after(10):
            await host.names()
            assert await refused(host, "resources/read", uri="ui://disk/clock/app.html") == -32602
            assert await refused(host, "tools/call", name="mcp_disk_tick", arguments={}) == -32602
            assert text_of(await host.call("tick")) == "mine tick"
        assert disk.called == []


@ERAS
async def test_a_key_of_some_tools_needs_the_pages_as_well(era: Era) -> None:
    async with place() as it:
        tools = ("mcp_disk_*", "ui://disk/*")
        key = Principal(subject="k", scopes=frozenset({"call"}), servers=("*",), tools=tools)
        host, uri = it.host(era, principal=key), "ui://disk/clock/app.html"
        [content] = (await host.send("resources/read", uri=uri))["contents"]
        assert content["text"] == "<!doctype html> of disk"
        uri = "ui://other/clock/app.html"
        assert await refused(host, "resources/read", uri=uri) == NOT_FOUND[era]


ODD_MARKS: list[Any] = [
    *(None, [], "ui", {"ui": None}, {"ui": "ui://x"}, {"ui": []}, {"ui/resourceUri": 5}),
    {"ui": {"resourceUri": {"a": 1}, "visibility": "app"}},
    {"ui": {"resourceUri": "no uri", "visibility": {"app": True}}},
]


@ERAS
@pytest.mark.parametrize("marks", ODD_MARKS, ids=str)
async def test_marks_in_a_wrong_shape_break_nothing_and_hide_nothing(era: Era, marks: Any) -> None:
    odd = {"name": "odd", "description": "Is odd.", "inputSchema": {"type": "object"}}
    # Results with a text there are refused, whatever the text is.
    said = {} if isinstance(marks, str) else {"_meta": marks}
    say = saying(lambda request: answer("200 OK", result(request, **said), **JSON))
    async with (
        listening(Odd(say, {**odd, "_meta": marks})) as server,
        hub(config_of(server)) as it,
        Gateway(it) as gateway,
    ):
        with anyio.fail_after(20):
            for face in (FULL, Face()):
                host = Caller(gateway, era, face=face, **SHOWS)
                if face == FULL:
                    assert "mcp_it_odd" in await listed(host)
                    assert text_of(await host.call("mcp_it_odd")) == "done"
                found = await Caller(gateway, era).call("search_tools", query="is odd")
                assert "mcp_it_odd" in text_of(found)
                called = await Caller(gateway, era, **SHOWS).call("call_tool", name="mcp_it_odd")
                assert text_of(called) == "done"


@pytest.mark.parametrize("visibility", [[], ["app"], [None, 1], ["app", "APP"]])
async def test_a_tool_is_for_models_only_if_its_server_says_so(visibility: list[Any]) -> None:
    async with place() as it:
        it.disk.listed.append(tool("some", visibility=visibility))
        await it.hub.server("disk").refresh()
        assert it.hub.registry.get("mcp_disk_some").app_only
        assert "mcp_disk_some" not in await it.plain().names()


@ERAS
async def test_a_profile_shows_the_pages_of_its_servers_only(era: Era) -> None:
    options = GatewayOptions(profiles={"desk": Profile(servers=("other",))})
    async with place(options) as it:
        host = it.host(era, face=Face(surface="full", group="desk"))
        read = await host.send("resources/read", uri="ui://other/clock/app.html")
        assert read["contents"][0]["text"] == "<!doctype html> of other"
        uri = "ui://disk/clock/app.html"
        assert await refused(host, "resources/read", uri=uri) == NOT_FOUND[era]


@MATRIX
async def test_call_tool_tells_the_host_which_page_to_show(era: Era, server_era: Era) -> None:
    async with place(server_era=server_era) as it:
        uri, search = "ui://disk/clock/app.html", Face()
        it.disk.results["show"] = {
            "content": [{"type": "text", "text": "now"}],
            "structuredContent": {"time": 1},
            "_meta": {"ui": {"note": 1}, "kept": True},
        }
        host = it.host(era, face=search)
        result = await host.call("call_tool", name="mcp_disk_show", arguments={})
        assert result["_meta"]["ui"] == {"resourceUri": uri, "note": 1}
        assert result["_meta"]["kept"] is True
        assert result["structuredContent"] == {"time": 1}
        flat = await host.call("call_tool", name="mcp_disk_flat", arguments={})
        assert flat["_meta"]["ui/resourceUri"] == uri
        plain = await host.call("call_tool", name="mcp_disk_plain", arguments={})
        assert "ui" not in plain.get("_meta", {})
        others = it.plain(era, face=search)
        told = await others.call("call_tool", name="mcp_disk_flat", arguments={})
        assert "ui/resourceUri" not in told.get("_meta", {})


@ERAS
async def test_an_app_gets_the_whole_data_and_the_model_a_cut_text(era: Era) -> None:
    async with place() as it:
        data = {"values": list(range(5000))}
        text = {"content": [{"type": "text", "text": "long " * 2000}], "structuredContent": data}
        it.disk.results |= {"show": text, "tick": text, "plain": text}
        host = it.host(era, face=Face())
        shown = await host.call("call_tool", name="mcp_disk_show", arguments={})
        assert "[Cut: " in text_of(shown)
        assert shown["structuredContent"] == data
        ticked = await host.call("mcp_disk_tick")
        assert text_of(ticked) == "long " * 2000
        plain = await host.call("call_tool", name="mcp_disk_plain", arguments={})
        assert "structuredContent" not in plain


@MATRIX
async def test_a_server_hears_that_a_client_shows_apps(era: Era, server_era: Era) -> None:
    async with place(server_era=server_era) as it:
        await it.host(era).call("mcp_disk_show")
        [told] = it.disk.told
        assert told["extensions"].items() >= SHOWS["extensions"].items()


@ERAS
async def test_a_watched_page_is_told_of_by_its_uri_in_the_gateway(era: Era) -> None:
    async with place() as it:
        host, uri = it.host(era), "ui://disk/clock/app.html"
        async with anyio.create_task_group() as group:
            if era == "modern":
                asked = {"resourceSubscriptions": [uri]}
                group.start_soon(lambda: host.send("subscriptions/listen", notifications=asked))
                await host.wire.next("notifications/subscriptions/acknowledged")
            else:
                it.gateway.connected(host.client, host.wire)
                await host.send("resources/subscribe", uri=uri)
            await it.disk.update(PAGE)
            told = await host.wire.next("notifications/resources/updated")
            assert told["uri"] == uri
            group.cancel_scope.cancel()


@ERAS
async def test_only_hosts_are_told_of_a_change_of_what_only_apps_call(era: Era) -> None:
    async with place() as it:
        host, plain = it.host("legacy", session="h"), it.plain("legacy", session="p")
        it.gateway.connected(host.client, host.wire)
        it.gateway.connected(plain.client, plain.wire)
        for caller in (host, plain):
            await caller.names()
        it.disk.listed.append(tool("alone", visibility=["app"]))
        await it.hub.server("disk").refresh()
        await host.wire.next("notifications/tools/list_changed")
        assert [method for method, _ in plain.wire.sent] == []
