import re

from hypothesis import given
from hypothesis import strategies as st

from pegboard.gateway.resource_uris import ResourceUris, scheme_of, server_of
from tests.gateway.servers import Stall, hub

NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=20)
ODD = st.text(st.sampled_from("a1-_.xA+:/ ä"), min_size=1, max_size=12)


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


async def test_an_address_leads_back_to_its_server() -> None:
    stall = Stall()
    configs = [stall.config(name) for name in ("git", "my_Files", "3d")]
    async with hub(*configs, stall.config("plain", prefix="")) as it:
        uris = ResourceUris(it)
        for name in ("git", "my_Files", "3d"):
            for uri in ("file:///a b", "git+ssh://x", "nonsense", ""):
                assert uris.origin(uris.exposed(name, uri)) == (name, uri)
        assert uris.exposed("plain", "file:///a") == "file:///a"
        for unknown in ("file:///a", "git+", "unknown+x://y", "plain+x://y", "+", "x-..+", "a:b+c"):
            assert uris.origin(unknown) in (None, ("git", ""))
