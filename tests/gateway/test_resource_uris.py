import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pegboard.gateway.resource_uris import ResourceUris, scheme_of, server_of
from tests.gateway.servers import Stall, hub

PATHS = st.text(max_size=40) | st.text(st.sampled_from("ui:/+.%2e?#{}x\u202e "), max_size=30)
NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=20)
ODD = st.text(st.sampled_from("a1-_.xA+:/ ä"), min_size=1, max_size=12)

PRINTABLE = (NAMES | ODD).filter(str.isprintable)


@given(NAMES | ODD)
def test_every_name_of_a_server_can_begin_an_address(name: str) -> None:
    scheme = scheme_of(name)
    assert re.fullmatch(r"[a-z][a-z0-9.-]*", scheme)
    assert server_of(scheme) == name


@given(NAMES | ODD, NAMES | ODD)
def test_no_two_servers_have_the_same(one: str, other: str) -> None:
    assert (scheme_of(one) == scheme_of(other)) == (one == other)


def test_usual_names_stay_readable() -> None:
    assert scheme_of("mcp-server-git") == "mcp-server-git"
    assert scheme_of("my_files") == "my.files"


@asynccontextmanager
async def some_uris(*names: str) -> AsyncGenerator[ResourceUris]:
    """Give the URIs of a hub with servers of these names, none of which is ever started."""
    stall = Stall()
    async with hub(*(stall.config(name, enabled=False) for name in names)) as it:
        yield ResourceUris(it)


@settings(deadline=None, max_examples=50)
@given(PRINTABLE, st.sampled_from(["", "ui://", "ui:", "UI://", "+", "ui://a+"]), PATHS)
async def test_every_uri_leads_back_to_its_server_and_to_itself(
    name: str, start: str, path: str
) -> None:
    uri = f"{start}{path}"
    async with some_uris(name) as uris:
        exposed = uris.exposed(name, uri)
        assert uris.origin(exposed) == (name, uri)
        assert exposed.startswith("ui://") == uri.startswith("ui://")


@settings(deadline=None, max_examples=50)
@given(PRINTABLE, PRINTABLE, PATHS, PATHS)
async def test_pages_of_two_servers_never_have_the_same_uri(
    one: str, other: str, path: str, other_path: str
) -> None:
    async with some_uris(*{one, other}) as uris:
        same = uris.exposed(one, f"ui://{path}") == uris.exposed(other, f"ui://{other_path}")
    assert same == ((one, path) == (other, other_path))


HOSTILE = [
    "ui://",
    "ui:///",
    "ui://git",
    "ui:///app.html",
    "ui://clock/../../git/app.html",
    "ui://clock/%2e%2e/%2Fgit//app.html?a=/b#c/d",
    "ui://user:word@clock:80/app.html",
    "ui://git/app.html",
    "ui://my.files/git/app.html",
    "ui://uhr.ä/日本/\U0001f550",
    f"ui://clock/{'a/' * 100_000}",
]


@pytest.mark.parametrize("uri", HOSTILE)
async def test_no_uri_of_a_page_leads_to_another_server(uri: str) -> None:
    async with some_uris("git", "my_files") as uris:
        for name in ("git", "my_files"):
            exposed = uris.exposed(name, uri)
            assert exposed.startswith(f"ui://{scheme_of(name)}/")
            assert uris.origin(exposed) == (name, uri)


@pytest.mark.parametrize(
    "uri", ["ui://", "ui:///git/x", "ui://git", "ui://other/x", "ui://git:80/x", "ui://%67it/x"]
)
async def test_a_page_of_no_server_is_nobodys(uri: str) -> None:
    async with some_uris("git", "my_files") as uris:
        assert uris.origin(uri) is None


@pytest.mark.parametrize("uri", ["ui://a/b", "file:///a"])
async def test_a_name_of_very_many_characters_is_not_read(uri: str) -> None:
    for name, is_read in (("_" * 9_000, True), ("_" * 11_000, False)):
        async with some_uris(name) as uris:
            found = uris.origin(uris.exposed(name, uri))
            assert found == ((name, uri) if is_read else None)


async def test_an_address_leads_back_to_its_server() -> None:
    stall = Stall()
    configs = [stall.config(name) for name in ("git", "my_Files", "3d")]
    async with hub(*configs, stall.config("plain", prefix="")) as it:
        uris = ResourceUris(it)
        for name in ("git", "my_Files", "3d"):
            for uri in ("file:///a b", "git+ssh://x", "nonsense", ""):
                assert uris.origin(uris.exposed(name, uri)) == (name, uri)
        assert uris.exposed("plain", "file:///a") == "file:///a"
        assert uris.exposed("plain", "ui://a/b") == "ui://a/b"
        assert uris.origin("ui://plain/b") is None
        for unknown in ("file:///a", "git+", "unknown+x://y", "plain+x://y", "+", "x-..+", "a:b+c"):
            assert uris.origin(unknown) in (None, ("git", ""))
