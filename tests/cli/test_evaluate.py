"""`pegboard eval search`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pegboard.cli.main import main


def test_the_installed_command_prints_a_table(folder: Path) -> None:
    command = Path(sys.executable).parent / "pegboard"
    run = subprocess.run(
        [command, "eval", "search", "--data", folder, "--method", "regex"],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert run.returncode == 0, run.stderr
    head, row = run.stdout.splitlines()
    assert head.split()[:4] == ["DATA", "METHOD", "TOOLS", "QUERIES"]
    assert row.split()[:4] == [folder.name, "regex", "3", "4"]


def test_json_holds_every_figure(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["eval", "search", "--data", str(folder), "--method", "regex", "--json"]
    assert main(arguments) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert (found["data"], found["method"]) == (folder.name, "regex")
    assert found["quality"]["refused"] == 1
    # Both tools of the name are right, and one cannot fill two first places.
    assert found["quality"]["recall_3"] >= 2 / 3
    assert 0 < found["p50_ms"] <= found["p95_ms"]
    assert found["build_seconds"] > 0
    assert found["index_bytes"] > 0


def test_several_sets_and_methods_give_a_row_each(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(folder)
    methods = ["--method", "regex", "--method", "regex"]
    assert main(["eval", "search", "--data", place, place, *methods]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 5
    assert main(["eval", "search", "--data", place, "--data", place, "--method", "regex"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_a_folder_needs_no_option(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "search", str(folder), "--method", "regex", "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)
    assert found["data"] == folder.name
    assert main(["eval", "search", "--method", "regex"]) == 2
    assert "`pegboard eval search DIR`" in capsys.readouterr().err


def test_queries_without_a_right_tool_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["eval", "search", "--data", str(folder), "--method", "regex"]
    path = folder / "queries.jsonl"
    lost = [
        json.dumps({"id": f"lost {number}", "query": "x", "relevant": []}) for number in range(12)
    ]
    path.write_text(path.read_text("utf-8") + "\n".join(lost), encoding="utf-8")
    assert main(arguments) == 0
    said = capsys.readouterr()
    assert "lost 0, " in said.err
    assert "more." in said.err
    assert "nan" not in said.out
    path.write_text("\n".join(lost), encoding="utf-8")
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert "no query of `queries.jsonl` has a tool" in said.err
    assert said.out == ""


def test_a_damaged_line_is_an_error_that_names_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "queries.jsonl"
    path.write_text(path.read_text("utf-8") + "{\n", encoding="utf-8")
    assert main(["eval", "search", "--data", str(folder)]) == 1
    captured = capsys.readouterr()
    assert f"{path}:5:" in captured.err
    assert captured.out == ""


def test_an_unknown_method_is_an_error_that_lists_the_known(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", "search", "--data", str(folder), "--method", "magic"]) == 2
    assert "'magic'" in capsys.readouterr().err
