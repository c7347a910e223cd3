"""The gateway as an MCP registry: who sees which servers, and in what form."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import anyio.to_thread
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from pegboard.auth import ApiKeys, AuthSettings, KeyGrant, TokenIssuer
from pegboard.errors import ConfigError
from pegboard.gateway import GatewayOptions
from pegboard.gateway.catalog.group_addresses import ApprovedServer
from pegboard.model.principal import OPERATOR
from pegboard.server.http.discovery.mcp_registry import UNKNOWN_VERSION, ListedServer, McpRegistry
from pegboard.server.http.discovery.public_address import PublicAddress
from pegboard.storage import open_store
from tests.server.processes import serving as serving_process
from tests.server.processes import write
from tests.server.registries import NOWHERE, OFFICIAL, RESPONSE, check, names_in, published
from tests.upstream.late_servers import light

LIST = "/v0.1/servers"
TWO: dict[str, Any] = {"mail": NOWHERE, "wiki": NOWHERE}
PAGE_OF_EDITOR = {"origin": "vscode-file://vscode-app"}
SECRETS: dict[str, Any] = {
    "web": {
        "url": "http://user:hunter2@127.0.0.1:9/s3cret-path?token=s3cret-token",
        "headers": {"X-Key": "s3cret-header"},
    },
    "tool": {
        "command": "/s3cret-folder/absent",
        "args": ["--token", "s3cret-argument"],
        "env": {"KEY": "s3cret-variable"},
    },
}


def key(path: Path, **grant: Any) -> str:
    with open_store(path, tenant=OPERATOR) as store:
        return ApiKeys(store).create(KeyGrant(name="me", **grant)).secret


async def make_key(path: Path, **grant: Any) -> dict[str, str]:
    """Return the header with a new key."""
    secret = await anyio.to_thread.run_sync(lambda: key(path, **grant))
    return {"authorization": f"Bearer {secret}"}


async def test_without_the_setting_there_is_no_registry_and_no_card() -> None:
    async with published(TWO) as (client, _):
        for path in (LIST, f"{LIST}/a%2Fb/versions", "/.well-known/mcp/server-card.json"):
            assert (await client.get(path)).status_code == 404


async def test_an_editor_without_a_credential_installs_a_server_of_a_public_registry() -> None:
    async with published({"light": light()}, registry="public", name="tools") as (client, _):
        # What VS Code asks: whether there is a registry, its first page, and one server by name.
        probe = await client.get(LIST, params={"limit": 1}, headers=PAGE_OF_EDITOR)
        assert probe.headers["access-control-allow-origin"] == "*"
        found = await client.get(LIST, params={"limit": 50, "version": "latest"})
        assert names_in(found) == ["light", "tools"]
        # Its addresses are those of `Host`, so no cache keeps them for another client.
        assert found.headers["cache-control"] == "private, max-age=60"
        (entry, own) = found.json()["servers"]
        path = f"{LIST}/{quote('local.tools/light', safe='')}/versions"
        latest = await client.get(f"{path}/latest", headers=PAGE_OF_EDITOR)
        check(latest.json(), RESPONSE)
        assert latest.json() == entry
        assert (await client.get(path)).json() == {"servers": [entry], "metadata": {"count": 1}}
        version = entry["server"]["version"]
        assert (await client.get(f"{path}/{quote(version)}")).json() == entry
        assert version != UNKNOWN_VERSION
        assert entry["_meta"][OFFICIAL]["isLatest"] is True

        # Its address is one of the gateway, where the tools of this server are.
        (remote,) = entry["server"]["remotes"]
        assert remote == {
            "type": "streamable-http",
            "url": f"{str(client.base_url).rstrip('/')}/mcp-full/light",
        }
        assert own["server"]["remotes"][0]["url"].endswith("/mcp")
        with anyio.fail_after(10):
            async with Client(streamable_http_client(remote["url"])) as session:
                tools = await session.list_tools()
        assert "mcp_light_echo" in [tool.name for tool in tools.tools]


async def test_a_shared_cache_keeps_only_what_does_not_depend_on_the_host(tmp_path: Path) -> None:
    auth = AuthSettings(keys=True, resource="https://tools.example.com/mcp")
    async with published(TWO, registry="public", auth=auth, storage=str(tmp_path / "a.db")) as (
        client,
        _,
    ):
        found = await client.get(LIST)
        assert found.headers["cache-control"] == "public, max-age=60"
        assert str(client.base_url) not in found.text


async def test_a_page_of_any_site_may_read_a_public_registry_and_only_that() -> None:
    page = {"origin": "https://pages.example.com"}
    asks = {**page, "access-control-request-method": "GET"}
    async with published(TWO, registry="public") as (client, _):
        assert (await client.options(LIST, headers=asks)).status_code == 204
        read = await client.get(LIST, headers=page)
        assert read.headers.get_list("access-control-allow-origin") == ["*"]
        assert (await client.options("/mcp", headers=asks)).status_code == 403
        assert (await client.get(LIST, headers={"host": "evil.example.com"})).status_code == 421
    async with published(TWO, registry="on") as (client, _):
        assert (await client.get(LIST, headers=page)).status_code == 403
        assert (await client.get(LIST, headers={"origin": "http://localhost:3"})).status_code == 200


async def test_each_key_sees_its_servers_only(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    kitchen = tmp_path / "kitchen.json"
    kitchen.write_text('{"mcpServers": {"stove": {"url": "http://127.0.0.1:9/mcp"}}}', "utf-8")
    matrix: list[tuple[dict[str, Any], list[str]]] = [
        ({}, ["light", "mail", "pegboard", "wiki"]),
        ({"scopes": ("read",)}, ["light", "mail", "pegboard", "wiki"]),
        ({"scopes": ("read",), "servers": ("wiki",)}, ["pegboard", "wiki"]),
        ({"servers": ("w*", "m*")}, ["mail", "pegboard", "wiki"]),
        ({"servers": ("stove",)}, ["pegboard"]),
        ({"tools": ("mcp_light_*",)}, ["light", "pegboard"]),
        ({"tools": ("mcp_wiki_*",)}, ["pegboard"]),
        ({"tenant": "kitchen"}, ["pegboard", "stove"]),
        ({"tenant": "kitchen", "servers": ("wiki",)}, ["pegboard"]),
    ]
    keys = [(await make_key(path, **grant), names) for grant, names in matrix]
    limited = await make_key(path, scopes=("register",))
    async with published(
        {**TWO, "light": light(), "off": {**NOWHERE, "enabled": False}},
        auth=AuthSettings(keys=True),
        storage=str(path),
        tenants={"kitchen": str(kitchen)},
        registry="on",
    ) as (client, _):
        for headers, names in keys:
            found = await client.get(LIST, headers=headers)
            assert names_in(found) == names
            assert found.headers["cache-control"] == "private, max-age=60"
            assert "authorization" in found.headers["vary"]
            for name in ("light", "mail", "wiki", "stove", "off"):
                one = await client.get(
                    f"{LIST}/local.pegboard/{name}/versions/latest", headers=headers
                )
                assert one.status_code == (200 if name in names else 404)
        assert (await client.get(LIST)).status_code == 401
        assert (await client.get(f"{LIST}/a/b/versions")).status_code == 401
        assert (await client.get(LIST, headers={"x-api-key": "pb_no"})).status_code == 401
        assert (await client.get(LIST, headers=limited)).status_code == 403


async def test_a_public_registry_shows_a_key_its_own_tenant(tmp_path: Path) -> None:
    path, kitchen = tmp_path / "keys.db", tmp_path / "kitchen.json"
    kitchen.write_text('{"mcpServers": {"stove": {"url": "http://127.0.0.1:9/mcp"}}}', "utf-8")
    cook = await make_key(path, tenant="kitchen")
    async with published(
        TWO,
        auth=AuthSettings(keys=True),
        storage=str(path),
        tenants={"kitchen": str(kitchen)},
        registry="public",
    ) as (client, _):
        assert names_in(await client.get(LIST)) == ["mail", "pegboard", "wiki"]
        assert names_in(await client.get(LIST, headers=cook)) == ["pegboard", "stove"]
        assert (await client.get(LIST, headers={"x-api-key": "pb_no"})).status_code == 401
        # Only the list is public.
        assert (await client.post("/mcp", json={})).status_code == 401


async def test_a_person_is_asked_for_a_key_where_keys_are_needed(tmp_path: Path) -> None:
    auth = AuthSettings(keys=True)
    async with published(TWO, auth=auth, storage=str(tmp_path / "keys.db"), registry="public") as (
        client,
        _,
    ):
        found = (await client.get(LIST)).json()["servers"][0]["server"]["remotes"][0]["headers"]
    assert [(it["name"], it["value"], it["isSecret"]) for it in found] == [
        ("Authorization", "Bearer {key}", True)
    ]


async def test_nothing_of_the_configuration_but_names_is_told() -> None:
    async with published(SECRETS, registry="public", server_card=True) as (client, _):
        found = await client.get(LIST)
        assert names_in(found) == ["pegboard", "tool", "web"]
        card = await client.get("/mcp/server-card")
        told = found.text + card.text
    for secret in ("s3cret", "hunter2", "user", "KEY", "X-Key", "127.0.0.1:9", "absent"):
        assert secret not in told


HOSTILE = {
    "my server": "my-server-",
    "日本": "server-",
    '"><script>': "script-",
    "{url}": "url-",
    "a b%2F": "a-b-2F-",
    "x" * 150: "x" * 90 + "-",
    "pegboard": "pegboard-",
}


async def test_hostile_names_become_legal_ones_that_lead_to_their_server() -> None:
    servers = dict.fromkeys((*HOSTILE, "a/b", "..", ".", "y" * 300, "boss"), NOWHERE)
    profiles = {"boss": {"servers": ["x*"]}}
    async with published(servers, registry="on", profiles=profiles) as (client, _):
        # The last ones have no address of their own: a path cannot name them, or a profile has it.
        found = names_in(await client.get(LIST))
        assert "pegboard" in found
        assert len(found) == len(set(found)) == len(HOSTILE) + 1
        for start in HOSTILE.values():
            assert [it for it in found if it.startswith(start)], start
        again = await client.get(LIST, params={"limit": 100})
        for entry in again.json()["servers"]:
            server = entry["server"]
            one = await client.get(f"{LIST}/{quote(server['name'], safe='')}/versions/latest")
            assert one.json() == entry
            # A server that is down, not one that is unknown.
            said = (
                await client.post(server["remotes"][0]["url"], json=INITIALIZE, headers=BOTH)
            ).text
            assert "There is no group" not in said
            assert "serverInfo" in said


BOTH = {"accept": "application/json, text/event-stream"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "editor", "version": "1"},
    },
}


async def test_pages_search_and_moments() -> None:
    servers = {f"s{number:03}": NOWHERE for number in range(130)}
    async with published(servers, registry="on", name="zz") as (client, _):
        assert len(names_in(await client.get(LIST))) == 30
        assert len(names_in(await client.get(LIST, params={"limit": 1000}))) == 100
        seen: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            page = await client.get(LIST, params={"limit": 47, "cursor": cursor})
            seen += names_in(page)
            cursor = page.json()["metadata"].get("nextCursor")
        assert seen == [*servers, "zz"]
        assert names_in(await client.get(LIST, params={"search": "S01", "limit": 3})) == [
            *("s010", "s011", "s012")
        ]
        assert names_in(await client.get(LIST, params={"search": "local.zz/s12"}))[0] == "s120"
        assert names_in(await client.get(LIST, params={"search": "nothing"})) == []
        assert len(names_in(await client.get(LIST, params={"version": UNKNOWN_VERSION}))) == 30
        assert names_in(await client.get(LIST, params={"version": "9"})) == []
        shown = await client.get(LIST)
        moment = shown.json()["servers"][0]["_meta"][OFFICIAL]["updatedAt"]
        assert names_in(await client.get(LIST, params={"updated_since": moment})) != []
        later = {"updated_since": "2999-01-01T00:00:00+02:00"}
        assert names_in(await client.get(LIST, params=later)) == []
        unencoded = f"{LIST}?updated_since=2999-01-01T00:00:00+02:00"
        assert names_in(await client.get(unencoded)) == []


@pytest.mark.parametrize(
    "query",
    [
        *("limit=0", "limit=-1", "limit=x", "limit=%D9%A3", "limit=1e3", "limit=+5"),
        *("cursor=%F0", "cursor=a", "updated_since=soon", "updated_since=2026-13-01T00:00:00Z"),
        "&".join(f"a{number}=1" for number in range(50)),
    ],
)
async def test_a_query_that_cannot_be_used_is_refused_in_words(query: str) -> None:
    async with published(TWO, registry="on") as (client, _):
        found = await client.get(f"{LIST}?{query}")
        assert found.status_code == 400
        assert set(found.json()) == {"error"}


async def test_other_paths_and_methods_lead_nowhere() -> None:
    async with published(TWO, registry="on") as (client, _):
        for path in (
            *("/v0.1", "/v0.1/", "/v0.1/publish", f"{LIST}/", f"{LIST}/local.pegboard/mail"),
            *(f"{LIST}/mail/versions", f"{LIST}/local.pegboard/mail/versions/1/status"),
            *(f"{LIST}/local.pegboard/mail/versions/9.9", f"{LIST}/x/../../mcp/versions"),
        ):
            assert (await client.get(path)).status_code == 404, path
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            refused = await client.request(method, LIST)
            assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
        head = await client.head(LIST)
        assert (head.status_code, head.content) == (200, b"")


async def test_a_client_that_has_the_list_already_gets_no_second_copy() -> None:
    async with published(TWO, registry="public") as (client, _):
        first = await client.get(LIST)
        tag = first.headers["etag"]
        for condition in (tag, f"W/{tag}", f'"x", {tag}', "*"):
            again = await client.get(LIST, headers={"if-none-match": condition})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
        assert (await client.get(LIST, headers={"if-none-match": '"x"'})).status_code == 200
        other = await client.get(LIST, params={"search": "wiki"}, headers={"if-none-match": tag})
        assert other.status_code == 200


async def test_a_server_that_is_added_is_listed_and_one_that_is_removed_is_not(
    tmp_path: Path,
) -> None:
    path = tmp_path / "mcp.json"
    gateway = {"registry": "on"}
    write(path, {"mcpServers": TWO, "gateway": gateway})
    async with published(path) as (client, serving):
        first = await client.get(LIST)
        seen = first.json()["servers"][-1]["_meta"][OFFICIAL]["updatedAt"]
        added = {"mail": NOWHERE, "files": NOWHERE}
        await anyio.to_thread.run_sync(write, path, {"mcpServers": added, "gateway": gateway})
        await serving.hub.reload()
        again = await client.get(LIST, headers={"if-none-match": first.headers["etag"]})
        assert names_in(first) == ["mail", "pegboard", "wiki"]
        assert names_in(again) == ["files", "mail", "pegboard"]
        since = await client.get(LIST, params={"updated_since": seen})
        assert "files" in names_in(since)
        assert "mail" not in names_in(since)
        assert (await client.get(f"{LIST}/local.pegboard/wiki/versions")).status_code == 404


async def test_a_gateway_that_shuts_down_says_so() -> None:
    async with published(TWO, registry="on") as (client, serving):
        await serving.gateway.drain(0)
        refused = await client.get(LIST)
        assert (refused.status_code, set(refused.json())) == (503, {"error"})


async def test_a_flood_is_stopped_and_uses_up_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "keys.db"
    ann, bob = await make_key(path), await make_key(path)
    auth = AuthSettings(keys=True)
    async with published(
        TWO, auth=auth, storage=str(path), registry="public", registry_requests=3
    ) as (client, _):
        for headers in ({}, ann):
            for _ in range(3):
                assert (await client.get(LIST, headers=headers)).status_code == 200
            refused = await client.get(LIST, headers=headers)
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) >= 1
        assert (await client.get(LIST, headers=bob)).status_code == 200


@pytest.mark.parametrize(
    ("resource", "namespace", "name", "url"),
    [
        (
            "https://tools.example.com/mcp",
            "",
            "com.example.tools/mail",
            "https://tools.example.com/mcp-full/mail",
        ),
        (
            "https://example.com/team/a/",
            "org.example",
            "org.example/mail",
            "https://example.com/team/a/mcp-full/mail",
        ),
        ("https://10.0.0.1/mcp-full", "", "local.pegboard/mail", "https://10.0.0.1/mcp-full/mail"),
        ("https://localhost/mcp", "", "local.pegboard/mail", "https://localhost/mcp-full/mail"),
    ],
)
async def test_the_address_and_the_names_follow_the_settings(
    resource: str, namespace: str, name: str, url: str
) -> None:
    auth = AuthSettings(resource=resource)
    async with published(TWO, auth=auth, registry="on", registry_namespace=namespace) as (
        client,
        _,
    ):
        server = (await client.get(LIST)).json()["servers"][0]["server"]
    assert (server["name"], server["remotes"][0]["url"]) == (name, url)


async def test_a_login_by_oauth_asks_a_person_for_no_header(tmp_path: Path) -> None:
    issuer = TokenIssuer(issuer="https://login.example.com")
    auth = AuthSettings(keys=True, issuers=(issuer,), resource="https://tools.example.com/mcp")
    async with published(TWO, auth=auth, storage=str(tmp_path / "keys.db"), registry="public") as (
        client,
        _,
    ):
        assert "headers" not in (await client.get(LIST)).text


@pytest.mark.parametrize("namespace", ["a b", "com.example/x", ".com", "com..x", "x" * 101, "ü.de"])
def test_a_namespace_that_the_schema_forbids_is_refused(namespace: str) -> None:
    with pytest.raises(ConfigError, match="registry_namespace"):
        GatewayOptions(registry_namespace=namespace)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        *(("1.2.3", "1.2.3"), ("2026.1+b.7", "2026.1+b.7"), ("v2", "v2"), ("dev", "dev")),
        *(("", UNKNOWN_VERSION), ("latest", UNKNOWN_VERSION), ("^1.2", UNKNOWN_VERSION)),
        *((">=1", UNKNOWN_VERSION), ("1.x", UNKNOWN_VERSION), ("1.*", UNKNOWN_VERSION)),
        *(("a/b", UNKNOWN_VERSION), ("1 2", UNKNOWN_VERSION), ("9" * 101, UNKNOWN_VERSION)),
    ],
)
def test_a_version_is_told_if_the_schema_has_it(said: str, told: str) -> None:
    entry = entry_of(registry(), said)
    check(entry.value(), RESPONSE)
    assert (entry.version, entry.value()["server"]["version"]) == (told, told)


def test_a_new_version_of_a_server_is_an_update_and_not_another_server() -> None:
    shown = registry()
    first, again = entry_of(shown, "1.0"), entry_of(shown, "1.0")
    assert again == first
    second = entry_of(shown, "1.1")
    assert second.updated > first.updated
    published, before = (it.value()["_meta"][OFFICIAL]["publishedAt"] for it in (second, first))
    assert published == before


def registry() -> McpRegistry:
    return McpRegistry(PublicAddress(AuthSettings(), name="pegboard"), "pegboard")


def entry_of(shown: McpRegistry, version: str) -> ListedServer:
    servers = [ApprovedServer(name="light", version=version)]
    found = shown.entries(servers, tenant="default", base="http://127.0.0.1:8765")
    return found["local.pegboard/light"]


async def test_the_command_serves_the_registry_of_its_configuration(tmp_path: Path) -> None:
    absent = {"command": "/absent/program"}
    section = {"registry": "public", "server_card": True}
    config = {"mcpServers": {"mail": absent, "wiki": absent}, "gateway": section}
    async with serving_process(tmp_path, config=config) as place:
        await place.hears("For the file of your client")
        async with httpx2.AsyncClient(base_url=place.url) as client:
            assert names_in(await client.get(LIST)) == ["mail", "pegboard", "wiki"]
            assert (await client.get("/mcp/server-card")).status_code == 200
