from typing import Any

import anyio
import pytest

from pegboard.gateway import Face, Gateway, GatewayOptions, RpcError
from pegboard.model.principal import Principal
from pegboard.upstream import Era
from tests.gateway.clients import Caller
from tests.gateway.servers import Stall, bench, hub

ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])
OWN = ["registry://categories", "registry://stats"]


async def uris_of(caller: Caller) -> list[str]:
    return [it["uri"] for it in (await caller.send("resources/list"))["resources"]]


@ERAS
async def test_resources_of_all_servers_are_listed_and_read(era: Era) -> None:
    one, other = Stall(), Stall()
    other.resources = {"note://one": "another", "file:///x y": "x"}
    async with hub(one.config("a_b"), other.config("z")) as it, Gateway(it) as gateway:
        caller = Caller(gateway, era)
        assert await uris_of(caller) == [
            *OWN,
            *("a.b+note://one", "a.b+note://two", "z+note://one", "z+file:///x y"),
        ]
        read = await caller.send("resources/read", uri="a.b+note://one")
        assert read["contents"] == [{"uri": "a.b+note://one", "text": "first"}]
        templates = await caller.send("resources/templates/list")
        assert [it["uriTemplate"] for it in templates["resourceTemplates"]] == [
            "a.b+note://{name}",
            "z+note://{name}",
        ]
        assert ("ttlMs" in templates) == (era == "modern")


async def test_an_address_that_one_server_offers_needs_no_name() -> None:
    one, other = Stall(), Stall()
    other.resources, other.templates = {"file:///x": "x"}, ["file:///{path}"]
    async with hub(one.config("a"), other.config("z")) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        read = await caller.send("resources/read", uri="file:///x")
        assert read["contents"] == [{"uri": "z+file:///x", "text": "x"}]
        one.resources["note://hidden"] = "by template"
        read = await caller.send("resources/read", uri="note://hidden")
        assert read["contents"][0]["text"] == "by template"
        other.resources["note://one"] = "twice"


@ERAS
async def test_a_resource_that_there_is_not_is_an_error_that_names_it(era: Era) -> None:
    async with hub(Stall().config("a"), Stall().config("b")) as it, Gateway(it) as gateway:
        caller = Caller(gateway, era)
        # Both servers have `note://one`, so without a prefix the URI names neither.
        for uri in ("a+note://nothing", "x://y", "note://one", "", "registry://nothing"):
            with pytest.raises(RpcError) as caught:
                await caller.send("resources/read", uri=uri)
            assert caught.value.data == {"uri": uri}
            assert caught.value.code == (-32602 if era == "modern" else -32002)
        for nonsense in (None, 5, ["a"]):
            with pytest.raises(RpcError) as caught:
                await caller.send("resources/read", uri=nonsense)
            assert caught.value.code == -32602


async def test_a_server_with_an_empty_prefix_keeps_its_addresses_and_names() -> None:
    async with hub(Stall().config("a", prefix="")) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        assert await uris_of(caller) == [*OWN, "note://one", "note://two"]
        read = await caller.send("resources/read", uri="note://two")
        assert read["contents"] == [{"uri": "note://two", "text": "second"}]
        assert (await caller.send("prompts/list"))["prompts"] == [
            {"name": "greet", "title": "Greets"}
        ]


@pytest.mark.covers("X-REG-2")
async def test_the_registry_in_numbers_is_a_resource(tmp_path: Any) -> None:
    configs = bench("disk", read=str, write=str)
    async with hub(configs, storage=tmp_path / "t.json") as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        await caller.call("call_tool", name="mcp_disk_read")
        stats = await caller.send("resources/read", uri="registry://stats")
        assert '"tools":2,"categories":1,"servers":1' in stats["contents"][0]["text"]
        categories = await caller.send("resources/read", uri="registry://categories")
        assert categories["contents"][0]["text"] == '{"categories":{"disk":2}}'
        limited = Principal(subject="s", scopes=frozenset({"read"}), tools=("nothing",))
        theirs = Caller(gateway, principal=limited)
        stats = await theirs.send("resources/read", uri="registry://stats")
        assert '"tools":0' in stats["contents"][0]["text"]


async def test_one_server_that_fails_hides_nothing_of_the_others() -> None:
    fine, broken = Stall(), Stall()
    broken.is_broken = True
    async with hub(fine.config("fine"), broken.config("broken")) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        assert await uris_of(caller) == [*OWN, "fine+note://one", "fine+note://two"]
        names = [it["name"] for it in (await caller.send("prompts/list"))["prompts"]]
        assert names == ["mcp_fine_greet"]


async def test_a_server_that_hangs_is_waited_for_once_and_not_long() -> None:
    fine, stuck = Stall(), Stall()
    stuck.is_stuck = True
    options = GatewayOptions(list_seconds=0.05)
    async with (
        hub(fine.config("fine"), stuck.config("stuck")) as it,
        Gateway(it, options) as gateway,
    ):
        caller = Caller(gateway)
        for _ in range(3):
            with anyio.fail_after(5):
                assert len(await uris_of(caller)) == 4
        assert stuck.lists == 1


async def test_a_list_that_comes_late_is_shown_and_the_clients_are_told() -> None:
    slow = Stall()
    slow.is_stuck = True
    async with (
        hub(slow.config("a")) as it,
        Gateway(it, GatewayOptions(list_seconds=0.05)) as gateway,
    ):
        caller = Caller(gateway, "legacy")
        gateway.connected(caller.client, caller.wire)
        assert await uris_of(caller) == OWN
        slow.go_on.set()
        await caller.wire.next("notifications/resources/list_changed")
        assert len(await uris_of(caller)) == 4


async def test_a_server_that_is_down_is_remembered() -> None:
    stall = Stall()
    async with hub(stall.config("a")) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        before = await caller.send("resources/list")
        await it.server("a").stop()
        assert await caller.send("resources/list") == before
        assert stall.lists == 1


async def test_lists_are_asked_for_again_when_a_server_says_that_they_changed() -> None:
    stall = Stall()
    async with hub(stall.config("a")) as it, Gateway(it) as gateway:
        caller = Caller(gateway, "legacy")
        gateway.connected(caller.client, caller.wire)
        await uris_of(caller)
        await uris_of(caller)
        assert stall.lists == 1
        stall.resources = {"note://three": "third"}
        await stall.change()
        await caller.wire.next("notifications/resources/list_changed")
        assert await uris_of(caller) == [*OWN, "a+note://three"]


@pytest.mark.covers("R-REG-39")
async def test_resources_of_others_do_not_exist() -> None:
    reader = Principal(subject="s", scopes=frozenset({"call"}), servers=("b",))
    async with hub(Stall().config("a"), Stall().config("b")) as it, Gateway(it) as gateway:
        caller = Caller(gateway, principal=reader)
        assert await uris_of(caller) == [*OWN, "b+note://one", "b+note://two"]
        with pytest.raises(RpcError):
            await caller.send("resources/read", uri="a+note://one")
        # For them it is the only one of that address.
        assert await caller.send("resources/read", uri="note://one")
        narrow = Caller(gateway, face=Face(group="a"))
        assert await uris_of(narrow) == [*OWN, "a+note://one", "a+note://two"]
        reader = Principal(subject="r", scopes=frozenset({"read"}))
        with pytest.raises(RpcError) as caught:
            await Caller(gateway, principal=reader).send("resources/read", uri="a+note://one")
        assert caught.value.data == {"code": "access_denied", "scope": "call"}
        with pytest.raises(RpcError) as caught:
            await uris_of(Caller(gateway, principal=Principal(subject="n")))
        assert caught.value.data == {"code": "access_denied", "scope": "read"}


@ERAS
async def test_prompts_have_the_names_that_tools_would_have(era: Era) -> None:
    async with hub(Stall().config("a"), Stall().config("b")) as it, Gateway(it) as gateway:
        caller = Caller(gateway, era)
        listed = (await caller.send("prompts/list"))["prompts"]
        assert listed == [
            {"name": "mcp_a_greet", "title": "Greets"},
            {"name": "mcp_b_greet", "title": "Greets"},
        ]
        got = await caller.send("prompts/get", name="mcp_b_greet", arguments={"who": "you"})
        said, link = (it["content"] for it in got["messages"])
        assert said["text"] == "greet you"
        assert link["uri"] == "b+note://one"
        for name in ("greet", "mcp_c_greet", None, 5):
            with pytest.raises(RpcError) as caught:
                await caller.send("prompts/get", name=name)
            assert caught.value.code == -32602


async def test_long_lists_come_in_pages() -> None:
    stall = Stall()
    stall.prompts = [f"prompt{number}" for number in range(5)]
    async with hub(stall.config("a")) as it, Gateway(it, GatewayOptions(page_size=2)) as gateway:
        caller = Caller(gateway)
        names: list[str] = []
        cursor: dict[str, Any] = {}
        for _ in range(3):
            page = await caller.send("prompts/list", **cursor)
            names += [prompt["name"] for prompt in page["prompts"]]
            cursor = {"cursor": page.get("nextCursor")}
        assert names == [f"mcp_a_prompt{number}" for number in range(5)]
        assert cursor == {"cursor": None}
        for bad in ("x", "LTE", 3):
            with pytest.raises(RpcError):
                await caller.send("resources/list", cursor=bad)


@ERAS
async def test_arguments_are_completed_by_the_server_they_belong_to(era: Era) -> None:
    async with hub(Stall().config("a"), Stall().config("b")) as it, Gateway(it) as gateway:
        caller = Caller(gateway, era)

        async def complete(**ref: Any) -> Any:
            argument = {"name": "who", "value": "y"}
            result = await caller.send("completion/complete", ref=ref, argument=argument)
            return result["completion"]["values"]

        assert await complete(type="ref/prompt", name="mcp_a_greet") == ["greet:y"]
        template = await complete(type="ref/resource", uri="b+note://{name}")
        assert template == ["note://{name}:y"]
        for nonsense in (
            {"type": "ref/prompt", "name": "nothing"},
            {"type": "ref/resource", "uri": "x://{y}"},
            {"type": "ref/other"},
            {},
        ):
            with pytest.raises(RpcError) as caught:
                await complete(**nonsense)
            assert caught.value.code == -32602


@ERAS
async def test_a_template_is_completed_by_its_own_address_too(era: Era) -> None:
    reader = Principal(
        subject="k", scopes=frozenset({"call"}), servers=("disk",), tools=("disk+*",)
    )
    async with hub(Stall().config("disk")) as it, Gateway(it) as gateway:
        caller = Caller(gateway, era, principal=reader)
        for uri in ("disk+note://{name}", "note://{name}"):
            ref, argument = {"type": "ref/resource", "uri": uri}, {"name": "name", "value": "y"}
            result = await caller.send("completion/complete", ref=ref, argument=argument)
            assert result["completion"]["values"] == ["note://{name}:y"]
