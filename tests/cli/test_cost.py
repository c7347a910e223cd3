"""`pegboard cost`."""

import json
import sys

import pytest

from pegboard.reports.cost import estimated
from tests.cli.handy import Home, Terminal


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("home"))
    small = home.entry(allow=["draw"])
    home.configure({"handy": home.entry(), "small": small}, gateway={"pinned": ["mcp_small_*"]})
    return home


def test_every_server_tool_and_surface_has_its_cost(home: Home) -> None:
    told = json.loads(home.main("cost", "--json").stdout)
    assert [it["server"] for it in told["servers"]] == ["handy", "small"]
    assert [it["tools"] for it in told["servers"]] == [9, 1]
    by_tool = {it["name"]: it["tokens"] for it in told["tools"]}
    assert next(iter(by_tool)) == "mcp_handy_echo"
    surfaces = {it["address"]: it for it in told["surfaces"]}
    assert surfaces["/mcp-full"]["tokens"] == sum(by_tool.values())
    assert surfaces["/mcp-full/small"]["tokens"] == by_tool["mcp_small_draw"]
    assert surfaces["/mcp-full/small"]["tools"] == 1
    # The gateway's own, and the one that is pinned.
    assert surfaces["/mcp-search"]["tools"] > 5
    # Over stdio, a client may also register tools and take them back.
    assert surfaces["--stdio"]["tools"] == surfaces["/mcp-search"]["tools"] + 2
    assert surfaces["--stdio"]["tokens"] > surfaces["/mcp-search"]["tokens"]
    shown = json.loads(home.main("show", "mcp_small_draw", "--dialect", "mcp").stdout)
    assert by_tool["mcp_small_draw"] == estimated(shown)


def test_bars_show_who_costs_most_and_it_is_said_how_it_was_counted(home: Home) -> None:
    ran = home.main("cost", "--tools", "1")
    lines = [it for it in ran.stdout.splitlines() if "█" in it]
    assert lines[0].count("█") == 30
    assert lines[1].count("█") < 30
    assert "mcp_handy_echo" in ran.stdout
    assert "mcp_handy_wait" not in ran.stdout
    assert ran.stderr.startswith("Estimated")


def test_where_search_costs_more_it_is_said_and_the_bars_keep_their_width(home: Home) -> None:
    ran = home.main("cost")
    bars = {it.split()[0]: it.count("█") for it in ran.stdout.splitlines() if "/mcp-" in it}
    assert bars["/mcp-full"] < bars["/mcp-search"] < 30
    assert "`pegboard serve --surface full` costs less" in ran.stderr


def test_on_a_narrow_terminal_bars_are_shorter_and_keep_their_proportions(home: Home) -> None:
    home.main("tools")
    with Terminal(home, ["cost", "--tools", "0"], COLUMNS="76") as terminal:
        assert terminal.end() == 0
    lines = {it.split()[0]: it for it in terminal.shown.splitlines() if "/mcp-" in it}
    full, search = lines["/mcp-full"], lines["/mcp-search"]
    assert "tools to find and call others" in search
    assert 0 < full.count("█") < search.count("█") < 30


def test_at_sixty_columns_no_sentence_is_cut(home: Home) -> None:
    home.main("tools")
    with Terminal(home, ["cost"], COLUMNS="60") as terminal:
        assert terminal.end() == 0
    assert "tools to find and call others" in terminal.shown
    assert "…" not in terminal.shown.rpartition("SHARE")[2]


def test_counting_needs_a_tokenizer(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bpe_openai", None)
    ran = home.main("cost", "--count")
    assert ran.returncode == 1
    assert "[tokens]" in ran.stderr
