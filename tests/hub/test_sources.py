"""Where a hub finds its servers, and what it says when there are none."""

import logging
from pathlib import Path
from typing import Any

import pytest

from pegboard import Hub, ServerNotFoundError
from pegboard.upstream import NoCatalogCache
from tests.upstream.board_servers import Bench, hub_of, memory


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place where no file is found."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PEGBOARD_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [it.getMessage() for it in caplog.records if it.levelno >= logging.WARNING]


async def test_a_hub_that_finds_no_file_says_where_it_looked(
    nowhere: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Hub.open(catalog_cache=NoCatalogCache()):
        (said,) = warnings(caplog)
    assert said.startswith("config_not_found: looked for the variable PEGBOARD_CONFIG, ")
    for place in (nowhere / "mcp.json", nowhere / ".pegboard/mcp.json"):
        assert str(place) in said
    assert said.count("mcp.json") == 3


@pytest.mark.parametrize("config", [None, {}])
async def test_a_hub_that_needs_no_file_says_nothing(
    nowhere: Path, caplog: pytest.LogCaptureFixture, config: Any
) -> None:
    servers = {"calc": Bench().server} if config is None else {}
    async with Hub.open(config, servers=servers, catalog_cache=NoCatalogCache()):
        assert warnings(caplog) == []


@pytest.mark.parametrize("config", [3, b"mcp.json", object()])
def test_what_no_hub_can_be_opened_with_is_refused_at_once(config: Any) -> None:
    with pytest.raises(TypeError, match="path of a file") as caught:
        Hub.open(config)
    assert type(config).__name__ in str(caught.value)


async def test_a_wrong_name_of_a_server_lists_the_right_ones() -> None:
    async with hub_of(memory("time", Bench())) as hub:
        with pytest.raises(ServerNotFoundError, match="known: 'time'"):
            _ = hub.servers["tmie"]
        assert hub.servers.get("tmie") is None
        assert "tmie" not in hub.servers
