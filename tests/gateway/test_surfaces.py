import json

import msgspec
import pytest
from msgspec.structs import replace

from pegboard import Registry
from pegboard.gateway import Face, Gateway, GatewayOptions, Profile, RpcError
from pegboard.gateway.tools.register_tool import REGISTER
from pegboard.model import Tool
from pegboard.model.principal import LOCAL, Principal
from pegboard.upstream import Era
from tests.gateway.clients import FULL, Caller, text_of
from tests.gateway.servers import bench, hub
from tests.upstream.board_servers import Bench, memory, until

SIX = [
    *("search_tools", "get_tool_definition", "list_tools_by_category"),
    *("register_tool", "unregister_tool", "call_tool", "read_result"),
]


def echo(arguments: dict[str, object]) -> str:
    return str(arguments)


@pytest.mark.covers("R-REG-1", "R-REG-3")
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_the_search_surface_is_the_same_whatever_the_catalogue(era: Era) -> None:
    lists: list[bytes] = []
    for tools in ({}, {f"tool{number}": echo for number in range(300)}):
        async with hub(bench("many", **tools)) as it, Gateway(it) as gateway:
            caller = Caller(gateway, era)
            assert await caller.names() == SIX
            lists.append(msgspec.json.encode(await caller.send("tools/list")))
    assert lists[0] == lists[1]


@pytest.mark.covers("R-REG-37", "R-REG-38")
async def test_what_a_credential_may_not_use_is_not_listed_for_it() -> None:
    async with hub() as it, Gateway(it) as gateway:
        reader = Caller(gateway, principal=Principal(subject="r", scopes=frozenset({"read"})))
        assert await reader.names() == SIX[:3]
        with pytest.raises(RpcError) as caught:
            await reader.call("register_tool", name="x", description="x")
        assert caught.value.data == {"code": "access_denied", "scope": "register"}
        with pytest.raises(RpcError) as caught:
            await Caller(gateway, principal=Principal(subject="n")).names()
        assert caught.value.data == {"code": "access_denied", "scope": "read"}


async def test_the_full_surface_has_every_tool_in_pages_in_the_order_of_names() -> None:
    tools = {f"tool{number:03}": echo for number in range(250)}
    async with hub(bench("many", **tools)) as it, Gateway(it) as gateway:
        caller = Caller(gateway, face=FULL)
        first = await caller.send("tools/list")
        assert len(first["tools"]) == 200
        assert await caller.names() == [f"mcp_many_{name}" for name in tools]
        for bad in ("?", 5, {}, "é", "A"):
            with pytest.raises(RpcError) as caught:
                await caller.send("tools/list", cursor=bad)
            assert caught.value.code == -32602


async def test_pages_survive_tools_that_come_and_go_between_them() -> None:
    registry = Registry()
    registry.register_many([Tool(name=f"tool{number}") for number in range(10, 20)])
    async with hub(registry=registry) as it, Gateway(it, GatewayOptions(page_size=3)) as gateway:
        caller = Caller(gateway, face=FULL)
        page = await caller.send("tools/list")
        registry.unregister("tool12")
        registry.register(Tool(name="aaa"))
        rest = await caller.send("tools/list", cursor=page["nextCursor"])
        assert [tool["name"] for tool in rest["tools"]] == ["tool13", "tool14", "tool15"]


async def test_the_list_is_the_same_byte_for_byte_after_a_restart_and_without_the_servers() -> None:
    lists: list[bytes] = []
    for order in (("a", "b"), ("b", "a")):
        configs = [bench(name, one=echo, two=echo) for name in order]
        async with hub(*configs) as it, Gateway(it) as gateway:
            caller = Caller(gateway, "legacy", face=FULL)
            lists.append(msgspec.json.encode(await caller.send("tools/list")))
            await it.server("a").stop()
            lists.append(msgspec.json.encode(await caller.send("tools/list")))
    assert len(set(lists)) == 1


async def test_pinned_tools_are_listed_beside_those_that_search() -> None:
    options = GatewayOptions(pinned=("*_echo",))
    async with hub(bench("calc", echo=echo, other=echo)) as it, Gateway(it, options) as gateway:
        caller = Caller(gateway)
        assert await caller.names() == [*SIX, "mcp_calc_echo"]
        assert (await caller.call("mcp_calc_echo", a=1))["content"][0]["text"] == "{'a': 1}"


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_name_of_the_gateways_own_tools_means_the_same_for_every_caller(era: Era) -> None:
    """Of a server's tool of that name, search and call_tool tell; the full surface has it."""
    made = Bench(register_tool=lambda _: "of a server")
    limited = Principal(subject="c", scopes=frozenset({"call"}))
    options = GatewayOptions(pinned=("*",))
    async with hub(memory("bare", made, prefix="")) as it, Gateway(it, options) as gateway:
        search, full = (
            Caller(gateway, era, principal=limited, face=face) for face in (Face(), FULL)
        )
        assert "register_tool" not in await search.names()
        with pytest.raises(RpcError) as caught:
            await search.call("register_tool", name="x", description="x")
        assert caught.value.data == {"code": "access_denied", "scope": "register"}
        found = await search.call("search_tools", query="register tool")
        assert [tool["name"] for tool in found["structuredContent"]["tools"]] == ["register_tool"]
        shown = await search.call("get_tool_definition", tool_name="register_tool")
        assert json.loads(text_of(shown))["server"] == "bare"
        for result in (
            await search.call("call_tool", name="register_tool", arguments={}),
            await full.call("register_tool"),
        ):
            assert text_of(result) == "of a server"
        assert await full.names() == ["register_tool"]
        local = Caller(gateway, era)
        assert (await local.names()).count("register_tool") == 1
        result = await local.call("register_tool", name="sow_seeds", description="Sow seeds.")
        assert result["structuredContent"] == {"name": "sow_seeds"}


async def test_on_the_full_surface_read_result_is_listed_once() -> None:
    made = Bench(read_result=lambda _: "of a server", other=lambda _: "x" * 100)
    options = GatewayOptions(result_cache_on_full=True)
    config = memory("bare", made, prefix="", max_result_chars=10)
    reader = Principal(subject="r", scopes=frozenset({"read"}))
    async with hub(config) as it, Gateway(it, options) as gateway:
        caller = Caller(gateway, face=FULL)
        assert await caller.names() == ["read_result", "other"]
        assert (await caller.call("read_result", handle="none"))["isError"]
        assert made.calls == []
        assert await Caller(gateway, face=FULL, principal=reader).names() == ["other"]
        with pytest.raises(RpcError) as caught:
            await Caller(gateway, face=FULL, principal=reader).call("read_result", handle="none")
        assert caught.value.data == {"code": "access_denied", "scope": "call"}


async def test_an_address_narrows_everything_to_a_server_a_tag_or_a_profile() -> None:
    configs = (
        memory("git", Bench(log=echo), tags=("code",)),
        memory("disk", Bench(read=echo, write=echo)),
    )
    profile = Profile(servers=("disk",), tools=("*_read",))
    options = GatewayOptions(profiles={"readers": profile})
    async with hub(*configs) as it, Gateway(it, options) as gateway:
        for group, names in {
            "git": ["mcp_git_log"],
            "code": ["mcp_git_log"],
            "disk": ["mcp_disk_read", "mcp_disk_write"],
            "readers": ["mcp_disk_read"],
        }.items():
            assert await Caller(gateway, face=Face(surface="full", group=group)).names() == names
        narrow = Caller(gateway, face=Face(group="readers"))
        refused = await narrow.call("call_tool", name="mcp_disk_write", arguments={})
        assert refused["isError"]
        found = await narrow.call("search_tools", query="git log")
        assert found["structuredContent"]["tools"] == []
        with pytest.raises(RpcError) as caught:
            await Caller(gateway, face=Face(group="unknown")).names()
        assert caught.value.code == -32602


async def test_definitions_keep_all_that_a_server_said_of_its_tools() -> None:
    async with hub(bench("calc", echo=echo)) as it, Gateway(it) as gateway:
        [tool] = (await Caller(gateway, face=FULL).send("tools/list"))["tools"]
        assert tool == {
            "name": "mcp_calc_echo",
            "description": "Does echo.",
            "inputSchema": {"type": "object"},
        }


async def test_a_transport_can_check_the_tool_that_a_name_means_before_it_runs() -> None:
    ran: list[str] = []
    bare = memory("bare", Bench(register_tool=lambda _: ran.append("theirs") or ""), prefix="")
    meant: list[Tool] = []

    def refuse(tool: Tool) -> None:
        meant.append(tool)
        raise RpcError(-32020, "The headers differ.")

    async with hub(bare) as it, Gateway(it) as gateway:
        for face in (FULL, Face()):
            exchange = Caller(gateway, face=face).exchange("tools/call", name="register_tool")
            with pytest.raises(RpcError) as caught:
                await gateway.respond(replace(exchange, on_tool=refuse))
            assert caught.value.code == -32020
    assert (meant[0].server, meant[1], ran) == ("bare", REGISTER, [])


async def test_new_tools_are_listed_at_once_and_from_any_thread() -> None:
    async with hub() as it, Gateway(it) as gateway:
        caller = Caller(gateway, face=FULL)
        assert await caller.names() == []
        it.registry.register(Tool(name="late"))
        await until(lambda: "late" in it.registry)
        assert await caller.names() == ["late"]


async def test_a_group_that_holds_nothing_for_a_caller_does_not_exist_for_it() -> None:
    tagged = memory("tagged", Bench(wipe=str), tags=("danger",))
    profiles = {"crew": Profile(servers=("secret",))}
    by_server = Principal(subject="s", scopes=frozenset({"call"}), servers=("disk",))
    by_tool = Principal(subject="t", scopes=frozenset({"call"}), tools=("mcp_disk_*",))
    scopeless = Principal(subject="n")
    reader = Principal(subject="e", scopes=frozenset({"read"}))
    registrar = Principal(subject="r", scopes=frozenset({"register"}))
    configs = (bench("disk", read=str), bench("secret", peek=str), tagged)
    options = GatewayOptions(profiles=profiles)
    async with hub(*configs) as it, Gateway(it, options) as gateway:

        async def told(principal: Principal, group: str) -> str:
            caller = Caller(gateway, principal=principal, face=Face(group=group))
            said: list[tuple[int, str]] = []
            for ask in (lambda: gateway.admit(caller.client), caller.names):
                try:
                    await ask()
                    said.append((0, "welcome"))
                except RpcError as error:
                    said.append((error.code, error.message.replace(group, "GROUP")))
            assert said[0] == said[1]
            assert said[0][0] in (0, -32602)
            return said[0][1]

        for principal in (by_server, by_tool):
            assert await told(principal, "disk") == "welcome"
            said = {await told(principal, it) for it in ("secret", "crew", "danger", "nothing")}
            assert said == {
                "There is no group 'GROUP' here: a group is a server, a tag or a profile."
            }
        for principal in (LOCAL, reader, registrar):
            for group in ("disk", "secret", "crew", "danger"):
                assert await told(principal, group) == "welcome"
        assert await told(scopeless, "disk") != "welcome"


@pytest.mark.parametrize("cursor", ["bm90IG91cnM", "?", 1234, ["a"]])
@pytest.mark.parametrize("face", [Face(), FULL])
async def test_a_cursor_that_was_never_given_is_refused(cursor: object, face: Face) -> None:
    async with hub(bench("disk", read=str)) as it, Gateway(it) as gateway:
        caller = Caller(gateway, face=face)
        if face == FULL and cursor == "bm90IG91cnM":
            # It could be one of ours: a place between two names.
            await caller.send("tools/list", cursor=cursor)
            return
        with pytest.raises(RpcError) as caught:
            await caller.send("tools/list", cursor=cursor)
        assert caught.value.code == -32602
