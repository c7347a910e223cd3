"""`pegboard search`."""

from pathlib import Path

import pytest

from pegboard.cli.main import main


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
    arguments = ["search", "issue", "--catalog", catalog, catalog, "--method", "regex"]
    assert main([*arguments, "--limit", "9", "--explain"]) == 0
    assert capsys.readouterr().out.count("create_issue") >= 4


def test_nothing_that_fits_is_said_plainly(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    catalog = str(folder / "tools.jsonl")
    assert main(["search", "zzzzqqqq", "--catalog", catalog, "--method", "regex"]) == 0
    assert capsys.readouterr().out.startswith("Nothing fits.")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["search", "x", "--catalog", "nowhere.jsonl"], "nowhere.jsonl"),
        (["search", "  ", "--catalog", "{catalog}"], "blank"),
        (["search", "x", "--catalog", "{catalog}", "--limit", "0"], "limit"),
        (["search", "x", "--catalog", "{catalog}", "--method", "magic"], "magic"),
    ],
)
def test_what_cannot_be_searched_is_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    catalog = str(folder / "tools.jsonl")
    assert main([it.format(catalog=catalog) for it in arguments]) == 1
    assert problem in capsys.readouterr().err
