"""`pegboard find`, and the search of a registry behind it."""

import json
import threading
from collections.abc import Generator
from pathlib import Path

import pytest
from anyio import to_thread

from pegboard.directory import ResponseCache, ServerDirectory
from pegboard.errors import (
    ConfigError,
    DirectoryEntryNotFoundError,
    DirectoryResponseError,
    DirectoryUnavailableError,
)
from tests.cli.own_machine import Run, in_process
from tests.config.own_folders import use_own_folders
from tests.directory.registry_server import Registry, documents, serving

ABSENT = "http://127.0.0.1:9"  # the discard port: no program listens there


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PEGBOARD_REGISTRY", raising=False)
    return use_own_folders(tmp_path, monkeypatch)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    return in_process(capsys)


@pytest.fixture
def registry() -> Generator[Registry]:
    with serving(Registry(documents())) as running:
        yield running


@pytest.fixture
def cache(tmp_path: Path) -> ResponseCache:
    return ResponseCache(tmp_path / "cache")


def page(*servers: object, **metadata: object) -> tuple[int, dict[str, str], bytes]:
    return 200, {}, json.dumps({"servers": servers, "metadata": metadata}).encode()


def test_the_latest_version_of_each_server_is_listed_once(run: Run, registry: Registry) -> None:
    older = {**documents("weather")[0], "version": "0.4.0"}
    registry.servers.insert(0, older)
    said = run("find", "weather", "--registry", registry.url)
    assert said.code == 0
    assert said.out.splitlines()[1].split() == [
        *("io.github.example/weather", "0.5.0", "pypi", "Forecasts", "for", "any", "place."),
    ]
    assert "pegboard add io.github.example/weather" in said.err
    (asked,) = registry.asked
    assert asked == "/v0.1/servers?search=weather&version=latest&limit=20"


def test_a_registry_that_lists_every_version_is_read_for_the_latest(
    run: Run, registry: Registry
) -> None:
    servers = [{**documents("weather")[0], "version": it} for it in ("0.9.0", "0.10.0", "0.1.0")]
    registry.answer = lambda _: page(*({"server": it} for it in servers))
    said = run("find", "weather", "--registry", registry.url, "--json")
    assert [it["version"] for it in json.loads(said.out)] == ["0.10.0"]


def test_json_has_what_the_entry_tells(run: Run, registry: Registry) -> None:
    said = run("find", "weather", "--registry", registry.url, "--json")
    assert json.loads(said.out) == [
        {
            "name": "io.github.example/weather",
            "version": "0.5.0",
            "title": "",
            "description": "Forecasts for any place.",
            "kinds": ["pypi"],
            "repository": "https://github.com/example/weather",
            "website": "https://weather.example.com",
            "licence": "MIT",
            "status": "active",
            "published_at": "2026-03-04T05:06:07Z",
            "cached_at": None,
        }
    ]


def test_the_registry_is_that_of_option_environment_and_file(
    run: Run, registry: Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    content = {"mcpServers": {}, "registry": {"url": registry.url}}
    (tmp_path / "mcp.json").write_text(json.dumps(content), "utf-8")
    assert run("find", "weather").code == 0
    monkeypatch.setenv("PEGBOARD_REGISTRY", ABSENT)
    assert ABSENT in run("find", "dotnet").err
    assert run("find", "dotnet", "--registry", registry.url).code == 0
    assert len(registry.asked) == 2


def test_without_the_network_the_cache_answers_and_says_so(run: Run, registry: Registry) -> None:
    assert run("find", "--registry", registry.url).code == 0
    asked = len(registry.asked)
    said = run("find", "prices weather", "--registry", registry.url, "--offline")
    assert said.code == 0
    assert "io.github.example/weather" in said.out
    assert "This is from the cache of 20" in said.err
    assert len(registry.asked) == asked
    registry.answer = lambda _: (503, {}, b"")
    said = run("find", "weather", "--registry", registry.url)
    assert (said.code, "status 503" in said.err, "from the cache" in said.err) == (0, True, True)
    said = run("find", "nothing-like-it", "--registry", registry.url)
    assert said.code == 3


def test_with_neither_network_nor_cache_the_error_says_both(run: Run) -> None:
    said = run("find", "weather", "--registry", ABSENT)
    assert said.code == 1
    assert f"{ABSENT} cannot be reached" in said.err
    assert "Nothing that answers this is cached." in said.err
    assert "nothing listens at 127.0.0.1:9 (" in said.err
    assert "ssl:" not in said.err  # the inner names of the HTTP library


def test_the_hint_leads_to_the_registry_and_the_configuration_that_were_named(
    run: Run, registry: Registry, tmp_path: Path
) -> None:
    file = tmp_path / "my servers.json"
    said = run("find", "weather", "--registry", registry.url, "--config", str(file))
    hint = f"`pegboard add io.github.example/weather --registry {registry.url} --config '{file}'`"
    assert hint in " ".join(said.err.split())


def test_several_words_find_what_has_most_of_them(run: Run, registry: Registry) -> None:
    said = run("find", "postgres", "database", "--registry", registry.url)
    assert said.code == 0
    assert said.out.splitlines()[1].split()[0] == "com.example/postgres"


def test_control_characters_of_a_registry_are_shown_as_escapes(
    run: Run, registry: Registry
) -> None:
    hostile = {
        **documents("weather")[0],
        "description": "fine\x1b[2J\u202etxt.exe\x07",
        "name": "io.github.example/hostile",
    }
    registry.servers = [hostile]
    said = run("find", "--registry", registry.url)
    assert said.code == 0
    assert "\x1b" not in said.out
    assert r"fine\u001b[2J\u202etxt.exe\u0007" in said.out


async def test_an_entry_has_no_hidden_characters_for_programs_either(
    registry: Registry, cache: ResponseCache
) -> None:
    hostile = {**documents("weather")[0], "description": "a\x1b[2J\u202eb", "title": "c\u200bd"}
    registry.servers = [hostile]
    async with ServerDirectory.open(registry.url, cache=cache) as directory:
        (entry,) = (await directory.search()).entries
    assert (entry.description, entry.title) == (r"a\u001b[2J\u202eb", r"c\u200bd")


def test_entries_of_a_wrong_shape_are_left_out_and_counted(run: Run, registry: Registry) -> None:
    good = {"server": documents("weather")[0]}
    bad = [
        7,
        {"server": {"name": "io.github.example/x"}},
        {"server": {**documents("weather")[0], "name": "a/b\x1b"}},
        {"server": {**documents("weather")[0], "version": "--flag"}},
        {"server": {**documents("weather")[0], "description": "x" * 5000}},
        {"server": {**documents("weather")[0], "packages": [{}] * 65}},
    ]
    registry.answer = lambda _: page(*bad, good)
    said = run("find", "--registry", registry.url)
    assert said.code == 0
    assert len(said.out.splitlines()) == 2
    assert "cannot be read: 6." in said.err


async def test_pages_are_bounded_although_the_registry_never_ends(
    registry: Registry, cache: ResponseCache
) -> None:
    registry.answer = lambda target: page(nextCursor=f"{len(registry.asked)}")
    async with ServerDirectory.open(registry.url, cache=cache) as directory:
        found = await directory.search("x")
    assert (found.entries, found.is_cut, len(registry.asked)) == ((), True, 10)
    registry.asked.clear()
    registry.answer = lambda target: page(nextCursor="the same")
    async with ServerDirectory.open(registry.url, cache=cache) as directory:
        await directory.search("x")
    assert len(registry.asked) == 2


async def test_more_pages_are_asked_for_until_the_limit(
    registry: Registry, cache: ResponseCache
) -> None:
    registry.page = 2
    async with ServerDirectory.open(registry.url, cache=cache) as directory:
        found = await directory.search("", limit=5)
        assert (len(found.entries), found.is_cut) == (5, True)
        everything = await directory.search("", limit=50)
        assert (len(everything.entries), everything.is_cut) == (len(registry.servers), False)


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"[]",
        b'{"servers": {}}',
        b"[" * 5000 + b"]" * 5000,
        b'{"servers": [' + b"0," * 200_000 + b"0]}",
        b'{"servers": [], "x": "' + b"x" * 5_000_000 + b'"}',
    ],
    ids=["html", "list", "object", "deep", "many", "large"],
)
async def test_an_answer_that_is_no_listing_is_a_typed_error(
    registry: Registry, cache: ResponseCache, body: bytes
) -> None:
    registry.answer = lambda _: (200, {}, body)
    async with ServerDirectory.open(registry.url, cache=cache) as directory:
        with pytest.raises(DirectoryResponseError):
            await directory.search("x")
    assert await to_thread.run_sync(lambda: list(cache.all_of(registry.url))) == []


async def test_no_redirect_to_another_host_is_followed(
    registry: Registry, cache: ResponseCache
) -> None:
    with serving(Registry(documents())) as other:
        port = registry.url.rpartition(":")[2]
        for target in (other.url, f"http://localhost:{port}", "file:///etc/passwd", "//x@y/"):
            registry.answer = lambda _, target=target: (302, {"Location": target}, b"")
            async with ServerDirectory.open(registry.url, cache=cache) as directory:
                with pytest.raises(DirectoryResponseError, match="redirects to"):
                    await directory.search("x")
        assert other.asked == []


async def test_a_redirect_on_the_same_host_is_followed_a_few_times(
    registry: Registry, cache: ResponseCache
) -> None:
    def moved(target: str) -> tuple[int, dict[str, str], bytes] | None:
        return None if "&moved" in target else (307, {"Location": f"{target}&moved=1"}, b"")

    registry.answer = moved
    async with ServerDirectory.open(registry.url, cache=cache) as directory:
        assert (await directory.search("weather")).entries
        registry.answer = lambda target: (302, {"Location": target}, b"")
        with pytest.raises(DirectoryResponseError, match="too often"):
            await directory.search("weather")


async def test_a_server_is_looked_up_in_a_version(registry: Registry, cache: ResponseCache) -> None:
    registry.servers.insert(0, {**documents("weather")[0], "version": "0.4.0"})
    name = "io.github.example/weather"
    async with ServerDirectory.open(registry.url, cache=cache) as directory:
        assert (await directory.look_up(name)).entry.version == "0.5.0"
        assert (await directory.look_up(name, "0.4.0")).entry.version == "0.4.0"
        assert [it.version for it in (await directory.versions(name)).entries] == ["0.4.0", "0.5.0"]
        for wrong, version in (("a/b", "latest"), (name, "9.9.9"), ("../x", "1"), (name, "a/../b")):
            with pytest.raises(DirectoryEntryNotFoundError):
                await directory.look_up(wrong, version)
    async with ServerDirectory.open(registry.url, cache=cache, offline=True) as directory:
        looked = await directory.look_up(name, "0.4.0")
        assert looked.entry.version == "0.4.0"
        assert looked.cached_at is not None
        assert (await directory.look_up(name)).entry.version == "0.5.0"
        with pytest.raises(DirectoryUnavailableError, match="Nothing"):
            await directory.look_up("com.example/postgres")


async def test_an_answer_about_another_server_is_refused(
    registry: Registry, cache: ResponseCache
) -> None:
    body = json.dumps({"server": documents("search")[0]}).encode()
    registry.answer = lambda _: (200, {}, body)
    async with ServerDirectory.open(registry.url, cache=cache) as directory:
        with pytest.raises(DirectoryResponseError, match="answered with"):
            await directory.look_up("io.github.example/weather")


@pytest.mark.parametrize(
    "url",
    [
        *("http://registry.example.com", "ftp://x", "https://a:b@example.com", "x", ""),
        *("https://example.com/?a=b", "https://exa mple.com", "https://example.com:0"),
    ],
)
async def test_a_url_that_is_none_or_would_be_in_the_clear_is_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        async with ServerDirectory.open(url):
            pass


async def test_http_is_for_this_machine_unless_the_operator_says_so(cache: ResponseCache) -> None:
    for url in ("http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1"):
        async with ServerDirectory.open(url, cache=cache) as directory:
            assert directory.url == url
    url = "http://registry.example.com/base/v0.1/"
    async with ServerDirectory.open(url, allow_http=True, offline=True, cache=cache) as directory:
        assert directory.url == "http://registry.example.com/base"


async def test_a_registry_that_does_not_answer_is_waited_for_once(
    registry: Registry, cache: ResponseCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pegboard.directory.registry_client._SECONDS", 0.2)
    done = threading.Event()

    def stall(_: str) -> None:
        done.wait(20)

    registry.answer = stall
    try:
        async with ServerDirectory.open(registry.url, cache=cache) as directory:
            for _ in range(3):
                with pytest.raises(DirectoryUnavailableError, match="did not answer"):
                    await directory.look_up("io.github.example/weather")
    finally:
        done.set()
    assert len(registry.asked) == 1


def test_the_cache_is_bounded_and_survives_what_is_damaged(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    cache = ResponseCache(folder, files=3, size=10_000)
    for number in range(6):
        cache.put("https://r", f"/{number}", b'{"servers": []}')
    assert len(list(folder.iterdir())) == 3
    assert cache.get("https://r", "/0") is None
    kept = cache.get("https://r", "/5")
    assert kept is not None
    assert bytes(kept.body) == b'{"servers": []}'
    cache.put("https://r", "/large", json.dumps("x" * 9_800).encode())
    assert cache.get("https://r", "/large") is not None
    assert sum(it.stat().st_size for it in folder.iterdir()) <= 10_000
    assert len(list(folder.iterdir())) < 3
    for path in folder.iterdir():
        path.write_bytes(b"{")
    assert cache.get("https://r", "/large") is None
    assert list(cache.all_of("https://r")) == []


def test_the_section_is_checked_and_a_list_that_is_none_allows_nothing(
    run: Run, tmp_path: Path
) -> None:
    for section in ({"allow": "io.github.acme/*"}, {"url": 7}, {"alow": []}, []):
        (tmp_path / "mcp.json").write_text(json.dumps({"registry": section}), "utf-8")
        said = run("find", "x")
        assert said.code == 1
        assert "`registry" in said.err
