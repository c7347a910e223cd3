"""What callers hear of a configured server without any known tool."""

import sys
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters

from pegboard import Hub, Registry
from pegboard.errors import ServerUnavailableError
from pegboard.errors.servers import without_name
from pegboard.gateway import Face, Gateway, GatewayOptions, Profile, RpcError
from pegboard.gateway.catalog.unavailable import Unavailable
from pegboard.hub import UnavailableServer
from pegboard.model import Tool
from pegboard.model.principal import ANONYMOUS, LOCAL, Principal
from pegboard.server import App, HttpAuthenticator, RequestPipeline
from pegboard.upstream import Era, NoCatalogCache, ServerState
from tests.auth.test_matrix_of_wires import wires
from tests.gateway.clients import FULL, Caller, text_of
from tests.gateway.servers import bench, hub
from tests.server.processes import ROOT
from tests.server.serving import served
from tests.upstream.late_servers import LateBench

SECRET = "s3cr3t-t0ken-of-a-server"
FILE: dict[str, Any] = {
    "mcpServers": {
        "time": {
            "command": "no-such-uvx",
            "args": ["mcp-server-clock", "--api-key", SECRET],
            "env": {"TOKEN": SECRET},
        },
        "github": {"command": "npx", "args": ["x"], "env": {"TOKEN": "${PEGBOARD_NOT_SET}"}},
        "my-notes": {"command": "notes", "disabled": True},
    }
}
DOWN = "Server 'time' is configured but not running"
WHY = f"{DOWN}: the command 'no-such-uvx' was not found."
READER = Principal(subject="r", scopes=frozenset({"read"}))
CALLER = Principal(subject="c", scopes=frozenset({"call"}))
ADMIN = Principal(subject="a", scopes=frozenset({"admin"}))
ERAS = pytest.mark.parametrize("era", ["modern", "legacy"])


def board(config: Any = None, **options: Any) -> Hub:
    return Hub.open(config or FILE, catalog_cache=NoCatalogCache(), **options)


def with_clock_tool() -> Registry:
    registry = Registry()
    registry.register(Tool(name="sundial", description="Tells the time by the sun."))
    return registry


@ERAS
@pytest.mark.parametrize("owner", [LOCAL, ANONYMOUS, ADMIN])
async def test_the_operator_learns_why_a_server_that_a_question_names_is_down(
    era: Era, owner: Principal
) -> None:
    async with board(registry=with_clock_tool()) as it, Gateway(it) as gateway:
        caller = Caller(gateway, era, principal=owner)
        found = await caller.call("search_tools", query="what time is it in Oslo")
        assert "sundial" in text_of(found)
        assert WHY in text_of(found)
        [down] = found["structuredContent"]["unavailable"]
        assert (down["server"], down["state"]) == ("time", "down")
        assert down["reason"].startswith("the command 'no-such-uvx' was not found")
        for query, reason in {
            "an issue on githb": "The environment variable PEGBOARD_NOT_SET is not set.",
            "open my notes": "'my-notes' is switched off: its entry in the configuration says so.",
        }.items():
            assert reason in text_of(await caller.call("search_tools", query=query))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Server 'a' cannot be started: no file.", "no file."),
        ("Server 'a' could not be started: exited with code 1", "exited with code 1"),
        ("Server 'a', `env.X`: It is not set.", "`env.X`: It is not set."),
        ("Server 'a' (http://h:1/) was not reached: no.", "http://h:1/ was not reached: no."),
        ("Server 'a' (run (1) x) exited (code 1) early.", "run (1) x exited (code 1) early."),
        ("Server 'a' (cut", "Server 'a' (cut"),
        ("Server 'ab': no.", "Server 'ab': no."),
        ("exited with code 1", "exited with code 1"),
    ],
)
def test_what_is_said_of_a_server_does_not_name_it_again(text: str, said: str) -> None:
    assert without_name("a", text) == said


@pytest.mark.parametrize(
    ("state", "reason", "said"),
    [
        ("cold", "", "is configured but not running."),
        ("down", "exited with code 1", "is configured but not running: exited with code 1."),
        ("tripped", "no. Really?", "is configured but not running: no. Really?"),
        ("unusable", "too long…", "is configured but not running: too long…"),
        ("disabled", "", "is switched off."),
        ("starting", "", "is still starting; try again in a moment."),
    ],
)
def test_each_state_is_told_in_one_plain_sentence(state: str, reason: str, said: str) -> None:
    assert str(Unavailable(server="it", state=state, reason=reason)) == f"Server 'it' {said}"


@ERAS
@pytest.mark.parametrize("principal", [READER, CALLER])
async def test_other_callers_learn_only_that_the_server_is_down(
    era: Era, principal: Principal
) -> None:
    async with board() as it, Gateway(it) as gateway:
        caller = Caller(gateway, era, principal=principal)
        found = await caller.call("search_tools", query="what time is it in Oslo")
        assert f"{DOWN}." in text_of(found)
        assert found["structuredContent"]["unavailable"] == [{"server": "time", "state": "down"}]
        listed = await caller.call("list_tools_by_category", category="time")
        assert f"{DOWN}." in text_of(listed)
        assert listed["structuredContent"]["unavailable"] == [{"server": "time", "state": "down"}]
        every = await caller.call("list_tools_by_category", category="all")
        names = [down["server"] for down in every["structuredContent"]["unavailable"]]
        assert sorted(names) == ["github", "my-notes", "time"]
        for said in (found, listed, every):
            assert "no-such-uvx" not in str(said)
            assert "PEGBOARD_NOT_SET" not in str(said)


@ERAS
@pytest.mark.parametrize(
    "name", ["mcp_time_now", "time_now", "mcp_tiem_now", "TimeNow", "mcp_time_"]
)
async def test_a_name_that_begins_like_those_of_a_server_points_to_it(era: Era, name: str) -> None:
    async with board() as it, Gateway(it) as gateway:
        caller = Caller(gateway, era)
        for called in (
            await caller.call("call_tool", name=name),
            await caller.call("get_tool_definition", tool_name=name),
        ):
            assert called["isError"]
            assert WHY in text_of(called)
            assert called["structuredContent"]["unavailable"][0]["server"] == "time"
        with pytest.raises(RpcError, match="is configured but not running") as caught:
            await Caller(gateway, era, face=FULL).call(name)
        assert "'unavailable': [{'server': 'time'" in str(caught.value.data)


async def test_a_prefix_of_its_own_points_to_a_server() -> None:
    entry = {**FILE["mcpServers"]["time"], "prefix": "tick_"}
    async with board({"mcpServers": {"sidereal": entry}}) as it, Gateway(it) as gateway:
        called = await Caller(gateway, principal=CALLER).call("call_tool", name="tick_now")
    assert "Server 'sidereal' is configured but not running." in text_of(called)


async def test_the_package_of_a_server_points_to_it_for_the_operator_alone() -> None:
    async with board() as it, Gateway(it) as gateway:
        for principal, is_told in ((LOCAL, True), (READER, False)):
            caller = Caller(gateway, principal=principal)
            found = await caller.call("search_tools", query="wind the clock")
            assert ("time" in str(found["structuredContent"].get("unavailable"))) is is_told


@pytest.mark.parametrize("query", ["zzz", "bake a cake", "list the servers", "run the mcp tool"])
async def test_a_question_about_something_else_tells_of_no_server(query: str) -> None:
    async with board() as it, Gateway(it) as gateway:
        found = await Caller(gateway).call("search_tools", query=query)
        assert "not running" not in text_of(found)
        assert "unavailable" not in found["structuredContent"]


async def test_no_answer_contains_a_secret() -> None:
    async with board() as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        said = [
            await caller.call("search_tools", query=f"time {SECRET}"),
            await caller.call("call_tool", name="mcp_time_now"),
            await caller.call("list_tools_by_category", category="all"),
        ]
        assert SECRET not in str(said[1:])
        assert SECRET not in str([it.target for it in it.unavailable_servers()])
        assert SECRET not in text_of(said[0])


@pytest.mark.parametrize(
    "principal",
    [
        Principal(subject="k", scopes=frozenset({"admin"}), servers=("calc",)),
        Principal(subject="k", scopes=frozenset({"call"}), servers=("git*",), tools=("*",)),
        Principal(subject="k", scopes=frozenset({"call"}), tools=("mcp_calc_*",)),
    ],
)
async def test_a_server_that_a_caller_may_not_see_is_not_named(principal: Principal) -> None:
    async with board() as it, Gateway(it) as gateway:
        caller = Caller(gateway, principal=principal)
        said = [
            await caller.call("search_tools", query="what time is it"),
            await caller.call("call_tool", name="mcp_time_now"),
            await caller.call("get_tool_definition", tool_name="mcp_time_now"),
            await caller.call("list_tools_by_category", category="all"),
            await caller.call("list_tools_by_category", category="time"),
        ]
        assert "Server 'time'" not in str(said)
        assert "'server': 'time'" not in str(said)


async def test_an_address_tells_only_of_the_servers_that_belong_to_it() -> None:
    options = GatewayOptions(profiles={"clocks": Profile(servers=("time", "calc"))})
    async with board() as it, Gateway(it, options) as gateway:
        caller = Caller(gateway, face=Face(surface="search", group="clocks"))
        every = await caller.call("list_tools_by_category", category="all")
    assert [down["server"] for down in every["structuredContent"]["unavailable"]] == ["time"]


async def test_a_server_that_is_still_starting_is_said_to_be_so_beside_other_hits() -> None:
    late = LateBench(sow=str)
    it = hub(late.config("late"), registry=with_clock_tool())
    async with Gateway(it) as gateway:
        await it.start(wait=False)
        with anyio.fail_after(5):
            await late.asked.wait()
            found = await Caller(gateway, principal=READER).call(
                "search_tools", query="is it late, tell the time by the sun"
            )
        assert "Server 'late' is still starting; try again in a moment." in text_of(found)
        starting = {"server": "late", "state": "starting"}
        assert found["structuredContent"]["unavailable"] == [starting]
        late.let.set()
        with anyio.fail_after(5):
            await it.started()
        found = await Caller(gateway).call("search_tools", query="late sow")
        assert "unavailable" not in found["structuredContent"]
        await it.close()


async def test_a_server_with_cached_tools_is_not_said_to_be_missing() -> None:
    async with hub(bench("time", now=str)) as it, Gateway(it) as gateway:
        await it.server("time").stop()
        assert it.unavailable_servers() == []
        found = await Caller(gateway).call("search_tools", query="time now")
        assert "not running" not in text_of(found)


async def test_the_hub_lists_its_unavailable_servers() -> None:
    async with board() as it:
        found = {it.name: it for it in it.unavailable_servers()}
    assert found["my-notes"] == UnavailableServer(
        name="my-notes",
        state=ServerState.DISABLED,
        reason="its entry in the configuration says so.",
        prefix="mcp_my_notes_",
        target=found["my-notes"].target,
    )
    assert {name: it.state for name, it in found.items()} == {
        "time": "down",
        "github": "unusable",
        "my-notes": "disabled",
    }


async def test_a_tripped_server_is_said_not_to_run() -> None:
    async with board() as it, Gateway(it) as gateway:
        time = it.server("time")
        while time.status.state != ServerState.TRIPPED:
            with pytest.raises(ServerUnavailableError):
                await time.start()
        found = await Caller(gateway, principal=READER).call("search_tools", query="time in Oslo")
        assert f"{DOWN}." in text_of(found)
        assert found["structuredContent"]["unavailable"] == [{"server": "time", "state": "tripped"}]
        assert f"{DOWN}: it failed 5 times" in await told_by_a_call(it)


async def told_by_a_call(hub: Hub) -> str:
    """Return the error of a call to a server that cannot be used."""
    with pytest.raises(ServerUnavailableError) as caught:
        await hub.server("time").request("ping")
    return str(caught.value)


class ByScope:
    """Knows callers by their credential."""

    async def authenticate(self, credential: str | None) -> Principal:
        held = {"reader": READER, "admin": ADMIN}
        other = Principal(subject="o", scopes=frozenset({"call"}), servers=("calc",))
        return held.get(str(credential), other)


async def test_each_client_over_http_hears_what_its_credential_allows() -> None:
    async with (
        board() as it,
        Gateway(it) as gateway,
        served(App(RequestPipeline(gateway), authenticator=HttpAuthenticator(ByScope()))) as url,
    ):
        search = {"name": "search_tools", "arguments": {"query": "time in Oslo"}}
        for credential, expected in (("reader", f"{DOWN}."), ("admin", WHY), ("other", None)):
            with anyio.fail_after(20):
                async with wires(url, credential, "search") as connected:
                    for wire in connected.values():
                        said = text_of((await wire.send("tools/call", search))["result"])
                        if expected is None:
                            assert "time" not in said
                        else:
                            assert expected in said


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_owner_over_stdio_learns_why(tmp_path: Any, mode: Any) -> None:
    (tmp_path / "mcp.json").write_text(
        '{"mcpServers": {"time": {"command": "no-such-uvx"}}}', "utf-8"
    )
    command = StdioServerParameters(
        command=sys.executable,
        args=["-m", "pegboard.cli.main", "serve", "--stdio", "--config", "mcp.json"],
        env={"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
    )
    with anyio.fail_after(30):
        async with Client(command, mode=mode) as client:
            found = await client.call_tool("search_tools", {"query": "what time is it"})
    assert WHY in str(found.content[0].text)  # pyright: ignore[reportAttributeAccessIssue]
