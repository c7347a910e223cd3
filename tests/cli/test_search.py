"""`pegboard search`."""

import json
from pathlib import Path

import pytest

from pegboard.cli.main import main
from tests.cli.handy import Home


def test_hits_are_listed_with_what_they_do(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalog = str(folder / "tools.jsonl")
    assert main(["search", "pay_invoice", "--catalog", catalog, "--method", "regex"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[1] == "pay_invoice"
    assert lines[1].strip() == "付款。"


def test_tools_of_several_files_share_the_board(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalog = str(folder / "tools.jsonl")
    files = ["--catalog", catalog, "--catalog", catalog]
    arguments = ["search", *files, "--method", "regex", "issue"]
    assert main([*arguments, "--limit", "9", "--explain"]) == 0
    assert capsys.readouterr().out.count("create_issue") >= 4


def test_the_text_may_follow_the_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    catalog = str(folder / "tools.jsonl")
    assert main(["search", "--catalog", catalog, "pay_invoice"]) == 0
    assert "pay_invoice" in capsys.readouterr().out


def test_a_configuration_is_no_catalogue_and_the_error_says_what_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{\n  "mcpServers": {}\n}\n', encoding="utf-8")
    assert main(["search", "x", "--catalog", str(path)]) == 1
    assert "Each line of a catalogue is one tool" in capsys.readouterr().err


def test_nothing_that_fits_is_said_plainly(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalog = str(folder / "tools.jsonl")
    assert main(["search", "zzzzqqqq", "--catalog", catalog, "--method", "regex"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("No tool matches.")


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (["search", "x", "--catalog", "nowhere.jsonl"], 3, "nowhere.jsonl"),
        (["search", "  ", "--catalog", "{catalog}"], 2, "blank"),
        (["search", "x", "--catalog", "{catalog}", "--limit", "0"], 2, "limit"),
        (["search", "x", "--catalog", "{catalog}", "--method", "magic"], 2, "magic"),
    ],
)
def test_what_cannot_be_searched_is_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, problem: str
) -> None:
    catalog = str(folder / "tools.jsonl")
    assert main([it.format(catalog=catalog) for it in arguments]) == code
    assert problem in capsys.readouterr().err


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    home = Home(tmp_path_factory.mktemp("home"))
    home.configure(
        {"handy": home.entry(tags=["own"]), "twin": home.entry(category="doubles", tags=["own"])}
    )
    return home


def test_the_servers_of_the_configuration_are_searched(home: Home) -> None:
    found = home.main("search", "take some steps", "--limit", "2", "--explain")
    assert found.returncode == 0, found.stderr
    assert "mcp_handy_steps (handy)" in found.stdout
    assert "mcp_twin_steps (twin)" in found.stdout
    assert "score " in found.stdout


def test_filters_narrow_the_search_and_json_says_everything(home: Home) -> None:
    narrowed = ["--server", "twin", "--category", "doubles", "--tag", "own"]
    found = home.main("search", "steps", *narrowed, "--json", "--limit", "1")
    [hit] = json.loads(found.stdout)
    assert hit["name"] == "mcp_twin_steps"
    assert hit["signature"] == "mcp_twin_steps()"
    assert (hit["server"], hit["category"], hit["tags"]) == ("twin", "doubles", ["own"])
    assert 0 < hit["confidence"] <= 1
    assert hit["description"] == "Does steps."
    assert {"field", "words"} == set(hit["matches"][0])


def test_nothing_found_is_an_empty_array_and_not_found(home: Home) -> None:
    found = home.main("search", "steps", "--server", "nowhere", "--json")
    assert (found.returncode, json.loads(found.stdout)) == (3, [])
    assert "Nearby: server handy, server twin." in found.stderr
