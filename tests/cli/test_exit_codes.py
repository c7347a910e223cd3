"""Exit codes: the same for the same reason, whatever the command."""

from pathlib import Path

import pytest

from tests.cli.handy import Home

LOOKING = (["list"], ["search", "x"], ["tools"], ["cost"], ["categories"], ["doctor"], ["status"])


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.mark.parametrize("words", LOOKING)
def test_no_configuration_is_not_found(words: list[str], home: Home) -> None:
    (home.folder / "mcp.json").unlink()
    assert home.main(*words).returncode == 3
    assert home.main(*words, "--debug").returncode == 3
    assert home.main(*words, "--config", "none.json").returncode == 3


@pytest.mark.parametrize("words", LOOKING)
def test_a_file_without_servers_is_said_to_be_one(words: list[str], home: Home) -> None:
    (home.folder / "package.json").write_text('{"name": "it"}', encoding="utf-8")
    ran = home.main(*words, "--config", "package.json")
    # The doctor has found what is wrong.
    assert ran.returncode == (1 if words == ["doctor"] else 3)
    assert "package.json" in ran.stdout + ran.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["remove", "none"],
        ["enable", "none"],
        ["disable", "none"],
        ["doctor", "none"],
        ["show", "none"],
        ["call", "none"],
        ["keys", "revoke", "none"],
        ["keys", "rotate", "none"],
        ["import", "./none.json"],
        ["search", "x", "--catalog", "none.jsonl"],
        ["eval", "search", "--data", "none"],
        ["config", "check", "--config", "none.json"],
        ["config", "path", "--config", "none.json"],
        ["store", "info", "--store", "none.db"],
    ],
)
def test_what_is_named_and_not_there_is_not_found(words: list[str], home: Home) -> None:
    ran = home.main(*words)
    assert ran.returncode == 3, ran
    assert ran.stderr or ran.stdout
    if words[0] == "keys":
        home.main("keys", "create")
        assert home.main(*words).returncode == 3


@pytest.mark.parametrize(
    "words",
    [
        ["search", "x", "--limit", "0"],
        ["search", "x", "--method", "guess"],
        ["import", "curser"],
        ["connect", "curser"],
        ["disconnect", "curser"],
        ["eval", "search", "--data", ".", "--method", "guess"],
        ["usage", "--days", "0"],
    ],
)
def test_what_makes_no_sense_is_misuse(words: list[str], home: Home) -> None:
    (home.folder / "tools.jsonl").write_text('{"name": "a"}', encoding="utf-8")
    (home.folder / "queries.jsonl").write_text(
        '{"id": "1", "query": "a", "relevant": ["a"]}', encoding="utf-8"
    )
    ran = home.main(*words)
    assert ran.returncode == 2, ran
    assert ran.stdout == ""


@pytest.mark.parametrize("words", [["tools"], ["doctor"], ["list"]])
def test_a_folder_is_said_to_be_one(words: list[str], home: Home) -> None:
    (home.folder / "folder").mkdir()
    ran = home.main(*words, "--config", "folder")
    assert ran.returncode == 1
    assert "is a directory; name the file in it" in ran.stdout + ran.stderr
    ran = home.main("import", "folder")
    assert (ran.returncode, "That is a folder" in ran.stderr) == (1, True)


def test_a_tool_of_a_disabled_server_is_told_by_it(home: Home) -> None:
    home.configure({"handy": home.entry(enabled=False), "other": home.entry()})
    for command in ("show", "call"):
        ran = home.main(command, "mcp_handy_echo")
        assert ran.returncode == 3
        assert "`pegboard enable handy`" in ran.stderr


def test_the_category_is_the_same_in_tables_and_in_json(home: Home) -> None:
    for words in (["tools"], ["show", "mcp_handy_echo"], ["search", "echo"]):
        assert '"category": "handy"' in home.main(*words, "--json").stdout


def test_how_sure_a_search_is_never_rises_along_the_list(home: Home) -> None:
    ran = home.main("search", "does echo count wait", "--limit", "9")
    shown = [int(line.split("%")[0]) for line in ran.stdout.splitlines() if "%  " in line]
    assert shown == sorted(shown, reverse=True)
