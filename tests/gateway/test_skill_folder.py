"""The folder of skills of this machine, through the gateway."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pegboard.gateway import Face, Gateway, GatewayOptions, RpcError
from pegboard.gateway.options import Profile
from pegboard.gateway.skills import listings
from pegboard.hub import Hub
from pegboard.model.principal import Principal
from pegboard.skills import digest_of, raw_content
from pegboard.skills import folder as folder_module
from pegboard.upstream import Era
from tests.gateway.clients import Caller, text_of
from tests.gateway.skill_servers import Publisher
from tests.gateway.test_skills import ERAS, all_skills
from tests.skills.test_folder import write


@asynccontextmanager
async def serving(
    root: Path, options: GatewayOptions | None = None, **servers: Publisher
) -> AsyncGenerator[Gateway]:
    """Run a gateway whose file names a folder of skills beside it."""
    file = root / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {}, "skills": "./skills"}), "utf-8")
    (root / "skills").mkdir(exist_ok=True)
    own = {name: it.server for name, it in servers.items()}
    async with Hub.open(file, servers=own, relays_questions=True) as it, Gateway(it, options) as on:
        yield on


@ERAS
async def test_a_folder_beside_the_file_is_served_with_digests(era: Era, tmp_path: Path) -> None:
    write(
        tmp_path / "skills", "acme/refunds", files={"refs/A.md": b"More.\n", "x.png": b"\xff\x00"}
    )
    async with serving(tmp_path) as gateway:
        caller = Caller(gateway, era)
        [entry] = await all_skills(caller)
        assert entry["uri"] == "skill://acme/refunds/SKILL.md"
        assert (await caller.send("skills/get", uri=entry["uri"]))["skill"] == entry
        for file in entry["resources"]:
            read = await caller.send("resources/read", uri=file["uri"])
            content = raw_content(read["contents"][0])
            assert content is not None
            assert digest_of(content) == file["digest"]
        top = await caller.send("resources/directory/read", uri="skill://acme")
        assert [it["uri"] for it in top["resources"]] == ["skill://acme/refunds"]
        inner = await caller.send("resources/directory/read", uri="skill://acme/refunds")
        assert [it["name"] for it in inner["resources"]] == ["SKILL.md", "refs", "x.png"]
        for uri in ("skill://acme/refunds/SKILL.md", "skill://none"):
            with pytest.raises(RpcError):
                await caller.send("resources/directory/read", uri=uri)
        with pytest.raises(RpcError):
            await caller.send("resources/read", uri="skill://acme/refunds/../../mcp.json")


async def test_a_change_needs_no_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "LOOK_AGAIN", 0.0)
    monkeypatch.setattr(folder_module, "_SHARE", 0.0)
    monkeypatch.setattr(listings, "_LEAST_FRESH", 0.0)
    write(tmp_path / "skills", "one")
    async with serving(tmp_path) as gateway:
        caller = Caller(gateway)
        assert len(await all_skills(caller)) == 1
        write(tmp_path / "skills", "two")
        assert [it["frontmatter"]["name"] for it in await all_skills(caller)] == ["one", "two"]
        got = await caller.send("skills/get", uri="skill://two/SKILL.md")
        assert got["skill"]["frontmatter"]["description"] == "About two"
        (tmp_path / "skills/one/SKILL.md").unlink()
        with pytest.raises(RpcError):
            await caller.send("skills/get", uri="skill://one/SKILL.md")


async def test_the_skill_of_a_server_with_the_same_uri_does_not_replace_ours(
    tmp_path: Path,
) -> None:
    write(tmp_path / "skills", "git", "name: git\ndescription: Ours")
    theirs = Publisher("skill://git")
    config = theirs.config("bare", prefix="")
    source = {"mcpServers": {}, "skills": str(tmp_path / "skills")}
    async with (
        Hub.open(source, servers={"bare": config}, relays_questions=True) as it,
        Gateway(it) as gateway,
    ):
        caller = Caller(gateway)
        [entry] = await all_skills(caller)
        assert entry["frontmatter"]["description"] == "Ours"
        read = await caller.send("resources/read", uri="skill://git/SKILL.md")
        assert "Ours" in read["contents"][0]["text"]


async def test_skills_of_this_machine_belong_to_no_server(tmp_path: Path) -> None:
    write(tmp_path / "skills", "git")
    options = GatewayOptions(profiles={"narrow": Profile(servers=("docs",))})
    async with serving(tmp_path, options, docs=Publisher("skill://a")) as gateway:
        scopes: Any = frozenset({"read", "call"})
        outsiders = [
            Caller(gateway, principal=Principal(subject="k", scopes=scopes, servers=("docs",))),
            Caller(gateway, principal=Principal(subject="k", scopes=scopes, tools=("docs+*",))),
            Caller(gateway, face=Face(group="narrow")),
            Caller(gateway, face=Face(group="docs")),
        ]
        for caller in outsiders:
            assert [it["uri"] for it in await all_skills(caller)] == ["docs+skill://a/SKILL.md"]
            for method in ("skills/get", "resources/read"):
                with pytest.raises(RpcError):
                    await caller.send(method, uri="skill://git/SKILL.md")
            with pytest.raises(RpcError):
                await caller.send("resources/directory/read", uri="skill://git")
            assert (await caller.call("get_skill", name="git"))["isError"] is True
        insider = Caller(gateway, principal=Principal(subject="k", scopes=scopes))
        for name in ("git", "skill:git", "skill://git/SKILL.md"):
            assert "About git" in text_of(await insider.call("get_skill", name=name))


async def test_another_tenant_has_another_folder(tmp_path: Path) -> None:
    write(tmp_path / "skills", "git")
    write(tmp_path / "theirs", "other")

    def opens(name: str) -> Hub | None:
        source = {"mcpServers": {}, "skills": str(tmp_path / "theirs")}
        return Hub.open(source, relays_questions=True) if name == "t" else None

    source = {"mcpServers": {}, "skills": str(tmp_path / "skills")}
    async with (
        Hub.open(source, relays_questions=True) as it,
        Gateway(it, open_tenant=opens) as gateway,
    ):
        stranger = Principal(
            tenant="t", subject="k", scopes=frozenset({"read", "call", "register", "admin"})
        )
        caller = Caller(gateway, principal=stranger)
        assert [it["uri"] for it in await all_skills(caller)] == ["skill://other/SKILL.md"]
        for method in ("skills/get", "resources/read"):
            with pytest.raises(RpcError):
                await caller.send(method, uri="skill://git/SKILL.md")
        found = await caller.call("search_tools", query="git")
        assert "git" not in str(found["structuredContent"]["tools"])
        assert [it["uri"] for it in await all_skills(Caller(gateway))] == ["skill://git/SKILL.md"]


@pytest.mark.parametrize("said", [5, "", [], {}, "a\nb"])
async def test_a_setting_that_is_no_path_is_a_problem_of_the_file(said: Any) -> None:
    async with Hub.open({"mcpServers": {}, "skills": said}) as it, Gateway(it) as gateway:
        assert [problem.severity for problem in it.loaded.problems] == ["error"]
        assert await all_skills(Caller(gateway)) == []


async def test_a_folder_that_the_file_no_longer_names_is_gone(tmp_path: Path) -> None:
    write(tmp_path / "skills", "git")
    write(tmp_path / "others", "other")
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {}, "skills": "skills"}', "utf-8")
    async with Hub.open(file) as it, Gateway(it) as gateway:
        caller = Caller(gateway)
        assert [it["uri"] for it in await all_skills(caller)] == ["skill://git/SKILL.md"]
        file.write_text('{"mcpServers": {}, "skills": "others"}', "utf-8")
        await it.reload()
        assert [it["uri"] for it in await all_skills(caller)] == ["skill://other/SKILL.md"]
        file.write_text('{"mcpServers": {}}', "utf-8")
        await it.reload()
        assert await all_skills(caller) == []
        assert "get_skill" not in await caller.names()
        with pytest.raises(RpcError):
            await caller.send("resources/read", uri="skill://other/SKILL.md")
