"""The table of permissions, through the gateway, for clients of both eras."""

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from anyio.to_thread import run_sync
from mcp.server.mcpserver import MCPServer
from mcp_types import Completion
from msgspec.structs import replace

from pegboard import Hub, Tool
from pegboard.gateway import Face, Gateway, RpcError
from pegboard.model.principal import Principal
from pegboard.server import App, HttpAuthenticator, RequestPipeline
from pegboard.upstream import Era, NoCatalogCache
from tests.auth.matrix import CELLS, PATHS, PRINCIPALS, SERVER, TOOL, Verdict
from tests.gateway.clients import Caller, text_of
from tests.server.asgi import ask
from tests.server.serving import modern_headers, modern_request

CANARY = "canary"
"""A word of every description and every result: nobody who may not know it is told."""
PROMPT = "mcp_vault_greet"
URI = "vault+vault://readme"
LARGE = 20_000


def server(name: str) -> MCPServer:
    """Make a server with a tool, a prompt with an argument, and a resource."""
    made = MCPServer(name, log_level="CRITICAL")

    @made.tool(name="open", description=f"Open the {name}; {CANARY}.")
    async def opened(size: int = 10) -> str:
        return f"{CANARY} " * (size // 7 + 1)

    @made.prompt(name="greet", description=CANARY)
    async def greet(person: str) -> str:
        return f"{CANARY}, {person}"

    @made.resource(f"{name}://readme", name="readme", description=CANARY)
    async def readme() -> str:
        return CANARY

    @made.completion()
    async def complete(ref: object, argument: object, context: object) -> Completion:
        return Completion(values=[CANARY])

    return made


@asynccontextmanager
async def opened_gateway() -> AsyncGenerator[Gateway]:
    """Serve a vault and a shop to the default tenant, and nothing at all to the other one."""
    servers = {name: server(name) for name in (SERVER, "shop")}
    hub = Hub.open([], servers=servers, catalog_cache=NoCatalogCache(), relays_questions=True)

    def open_tenant(name: str) -> Hub | None:
        return Hub.open([], catalog_cache=NoCatalogCache()) if name == "other" else None

    async with hub:
        made = Tool(name="vault_made", description=CANARY, server=SERVER)
        await run_sync(hub.registry.register, made)
        async with Gateway(hub, open_tenant=open_tenant) as gateway:
            yield gateway


class RequestRouting:
    """One principal on one wire, who tries a path and is told a verdict."""

    def __init__(
        self, gateway: Gateway, era: Era, principal: Principal, *, caller: type[Caller] = Caller
    ) -> None:
        self.search = caller(gateway, era, principal=principal, session=principal.subject)
        full = Face(surface="full")
        self.full = caller(gateway, era, principal=principal, session=principal.subject, face=full)
        owner = Principal(subject="owner", scopes=PRINCIPALS["caller"].scopes)
        self.others = Caller(gateway, era, principal=owner, session="owner")
        self.era = era
        self.told = ""

    async def verdict(self, path: str) -> Verdict:
        """Try it."""
        attempt = getattr(self, f"try_{path}")
        try:
            found = await attempt()
        except RpcError as error:
            self.told = f"{error.message} {error.data}"
            code = error.data.get("code") if isinstance(error.data, dict) else None
            return "denied" if code == "access_denied" else "absent"
        self.told = str(found)
        if isinstance(found, bool):
            return "yes" if found else "absent"
        if not found.get("isError"):
            return "yes"
        said = text_of(found)
        return (
            "denied"
            if re.search(r"may not|lacks the scope|cannot be removed|already (exists|runs)", said)
            else "absent"
        )

    async def try_list(self) -> bool:
        return TOOL in await self.full.names()

    async def try_search(self) -> dict[str, Any] | bool:
        found = await self.search.call("search_tools", query="open the vault", limit=20)
        return found if found.get("isError") else TOOL in text_of(found)

    async def try_describe(self) -> dict[str, Any]:
        return await self.search.call("get_tool_definition", tool_name=TOOL)

    async def try_category(self) -> dict[str, Any] | bool:
        found = await self.search.call("list_tools_by_category", category="all")
        return found if found.get("isError") else TOOL in text_of(found) or SERVER in text_of(found)

    async def try_call(self) -> dict[str, Any]:
        return await self.full.call(TOOL)

    async def try_call_tool(self) -> dict[str, Any]:
        return await self.search.call("call_tool", name=TOOL)

    async def try_result(self) -> dict[str, Any]:
        return await self._read_result(self.search)

    async def try_others(self) -> dict[str, Any]:
        return await self._read_result(self.others)

    async def _read_result(self, owner: Caller) -> dict[str, Any]:
        large = await owner.call("call_tool", name=TOOL, arguments={"size": LARGE})
        handle = re.search(r"handle\W+([\w-]+)", text_of(large))
        return await self.search.call("read_result", handle=handle[1] if handle else "none")

    async def try_resources(self) -> bool:
        listed = await self.search.send("resources/list")
        return URI in [it["uri"] for it in listed["resources"]]

    async def try_read(self) -> dict[str, Any]:
        return await self.search.send("resources/read", uri=URI)

    async def try_watch(self) -> dict[str, Any]:
        if self.era == "legacy":
            return await self.search.send("resources/subscribe", uri=URI)
        wanted = {"resourceSubscriptions": [URI]}
        exchange = self.search.exchange("subscriptions/listen", notifications=wanted)
        errors: list[BaseException] = []

        def note(uri: str, error: BaseException | None) -> None:
            errors.extend([] if error is None else [error])

        async def listen(scope: anyio.CancelScope) -> None:
            try:
                await self.search.gateway.respond(replace(exchange, on_watched=note))
            except RpcError as error:
                errors.append(error)
                scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(listen, group.cancel_scope)
            granted = await self.search.wire.next("notifications/subscriptions/acknowledged")
            assert bool(granted["notifications"]) is not bool(errors)
            group.cancel_scope.cancel()
        for error in errors:
            raise error
        return {}

    async def try_prompts(self) -> bool:
        listed = await self.search.send("prompts/list")
        return PROMPT in [it["name"] for it in listed["prompts"]]

    async def try_prompt(self) -> dict[str, Any]:
        return await self.search.send("prompts/get", name=PROMPT, arguments={"person": "x"})

    async def try_complete(self) -> dict[str, Any]:
        return await self.search.send(
            "completion/complete",
            ref={"type": "ref/prompt", "name": PROMPT},
            argument={"name": "person", "value": ""},
        )

    async def try_register(self) -> dict[str, Any]:
        return await self.search.call(
            "register_tool", name="vault_new", description="New.", mcp_server=SERVER
        )

    async def try_replace(self) -> dict[str, Any]:
        return await self.search.call(
            "register_tool", name=TOOL, description="Mine.", mcp_server=SERVER
        )

    async def try_remove(self) -> dict[str, Any]:
        return await self.search.call("unregister_tool", tool_name="vault_made")

    async def try_steal(self) -> dict[str, Any]:
        return await self.search.call("unregister_tool", tool_name=TOOL)

    async def try_own(self) -> bool:
        return bool(await self.search.names())

    async def try_stats(self) -> dict[str, Any]:
        return await self.search.send("resources/read", uri="registry://stats")


class OverHttp(Caller):
    """The same in the modern era, through everything that stands before the gateway."""

    async def send(self, method: str, /, **params: Any) -> dict[str, Any]:
        app = App(RequestPipeline(self.gateway), authenticator=HttpAuthenticator(self))
        body = modern_request(method, params)
        path = "/mcp-full" if self.client.face.surface == "full" else "/mcp"
        headers = {"host": "127.0.0.1", **modern_headers(body)}.items()
        async with app.open():
            response = await ask(app, json.dumps(body).encode(), path=path, headers=headers)
        if response.error is None:
            return json.loads(response.body)["result"]
        error = response.error[1]
        raise RpcError(error["code"], error["message"], error.get("data"))

    async def authenticate(self, credential: str | None) -> Principal:
        return self.client.principal


@pytest.mark.covers("R-REG-39")
@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("name", PRINCIPALS)
async def test_every_path_gives_the_verdict_of_the_table(name: str, era: Era) -> None:
    found: dict[str, Verdict] = {}
    leaks: dict[str, str] = {}
    async with opened_gateway() as gateway:
        asking = RequestRouting(gateway, era, PRINCIPALS[name])
        for path in PATHS:
            found[path] = await asking.verdict(path)
            if found[path] != "yes" and CANARY in asking.told:
                leaks[path] = asking.told
    assert found == {path: CELLS[name, path] for path in PATHS}
    assert leaks == {}


@pytest.mark.covers("R-REG-39")
@pytest.mark.parametrize("name", PRINCIPALS)
async def test_over_http_every_path_gives_the_verdict_of_the_table(name: str) -> None:
    async with opened_gateway() as gateway:
        asking = RequestRouting(gateway, "modern", PRINCIPALS[name], caller=OverHttp)
        found = {path: await asking.verdict(path) for path in PATHS}
    assert found == {path: CELLS[name, path] for path in PATHS}


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_what_may_not_be_known_is_answered_as_what_does_not_exist(era: Era) -> None:
    """Word for word: else a name could be guessed."""
    strange = {TOOL: "mcp_qqqqq_zzzz", PROMPT: "mcp_qqqqq_zzzzz", URI: "qqqqq+qqqqq://zzzzzz"}

    async def answers(method: str, params: dict[str, Any], name: str) -> list[str]:
        told: list[str] = []
        for asked in (name, strange[name]):
            filled = {key: asked if it is None else it for key, it in params.items()}
            filled = {
                key: {part: asked if x is None else x for part, x in it.items()}
                if isinstance(it, dict)
                else it
                for key, it in filled.items()
            }
            try:
                found = str(await client.send(method, **filled))
            except RpcError as error:
                found = f"{error.code} {error.message} {error.data}"
            told.append(found.replace(asked, "…"))
        return told

    own = {"call_tool": "name", "get_tool_definition": "tool_name"}
    async with opened_gateway() as gateway:
        blind = PRINCIPALS["caller"]
        blind = Principal(subject="blind", scopes=blind.scopes, servers=("nothing",))
        client = Caller(gateway, era, principal=blind, face=Face(surface="full"))
        for method, params, name in (
            ("tools/call", {"name": None}, TOOL),
            ("prompts/get", {"name": None}, PROMPT),
            ("resources/read", {"uri": None}, URI),
            ("completion/complete", {"ref": {"type": "ref/prompt", "name": None}}, PROMPT),
        ):
            known, unknown = await answers(method, params, name)
            assert known == unknown
        client = Caller(gateway, era, principal=blind)
        for tool, argument in own.items():
            params = {"name": tool, "arguments": {argument: None}}
            known, unknown = await answers("tools/call", params, TOOL)
            assert known == unknown
