"""`python -m pegboard.storage`: looking after stores by hand."""

import subprocess
import sys
from pathlib import Path

import pytest

from pegboard import Tool
from pegboard.storage import open_store
from pegboard.storage.__main__ import main


@pytest.fixture(params=["tools.json", "tools.db"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    path = str(tmp_path / request.param)
    with open_store(path) as store:
        store.save_many([Tool(name="one"), Tool(name="two", description="第二")])
        store.namespace("pins").put("one", {"by": "me"})
    return path


def test_check_and_info_say_what_is_there(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", url]) == 0
    assert "2 tools" in capsys.readouterr().out
    assert main(["info", url]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines][2:] == [
        ["tools", "2"],
        ["used", "0", "(0", "calls)"],
        ["pins", "1"],
    ]


def test_copy_moves_everything_and_shows_progress(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(tmp_path / "copy.db")
    assert main(["copy", url, target]) == 0
    captured = capsys.readouterr()
    assert "Copied 2 tools, the usage of 0, and 1 other value to" in captured.out
    assert "2 of 2" in captured.err
    with open_store(target) as store:
        assert sorted(it.tool.name for it in store.load_all()) == ["one", "two"]
        assert store.namespace("pins").items()["one"].value == {"by": "me"}


def test_a_store_is_not_copied_to_itself(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(url)
    scheme = "json" if path.suffix == ".json" else "sqlite"
    same = path.parent / "." / ".." / path.parent.name / path.name
    for target in (url, str(same), f"{scheme}://{path}"):
        assert main(["copy", url, target]) == 1
        assert "the same store" in capsys.readouterr().err


def test_a_copy_of_nothing_is_noticed(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = url if url.endswith(".db") else str(tmp_path / "tools.blue.json")
    if other != url:
        Path(other).write_text('{"version": 1, "tenant": "blue", "tools": {}}', "utf-8")
    assert main(["copy", url, str(tmp_path / "copy.json"), "--tenant", "blue"]) == 0
    captured = capsys.readouterr()
    assert "Copied 0 tools" in captured.out
    assert "nothing of 'blue'" in captured.err


def test_one_is_not_called_several(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = str(tmp_path / "tools.json")
    with open_store(url) as store:
        store.save(Tool(name="one"))
    assert main(["check", url]) == 0
    assert capsys.readouterr().out.endswith("is sound: 1 tool.\n")


def test_a_damaged_file_is_reported_with_the_command_that_recovers_it(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(url)
    good = path.read_bytes()
    damaged = good[: len(good) // 2]
    path.write_bytes(damaged)
    assert main(["check", url]) == 1
    error = capsys.readouterr().err
    assert f"python -m pegboard.storage recover {url}" in error
    assert path.read_bytes() == damaged
    assert main(["recover", url]) == 0
    assert "Kept" in capsys.readouterr().out
    assert any(it.read_bytes() == damaged for it in tmp_path.iterdir() if "damaged" in it.name)
    assert main(["check", url]) == 0


def test_what_cannot_be_done_is_said_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "tools.txt"]) == 1
    assert "does not say what kind" in capsys.readouterr().err
    assert main(["recover", "postgresql://me:secret@host/db"]) == 1
    error = capsys.readouterr().err
    assert "backup" in error
    assert "secret" not in error


def test_it_runs_as_a_module(url: str) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pegboard.storage", "check", url],
        capture_output=True,
        encoding="utf-8",
        timeout=15,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")


def test_what_is_not_there_is_no_empty_store(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "typo2.db").touch()
    (tmp_path / "typo.err").write_text("a neighbour", encoding="utf-8")
    for name in ("typo.db", "typo.json", "no/such/typo.db"):
        for command in (["check"], ["info"], ["recover"]):
            assert main([*command, str(tmp_path / name)]) == 1
        assert main(["copy", str(tmp_path / name), str(tmp_path / "target.db")]) == 1
    assert sorted(it.name for it in tmp_path.iterdir()) == ["typo.err", "typo2.db"]
    assert "There is nothing in" in capsys.readouterr().err
    assert main(["check", str(tmp_path / "typo2.db")]) == 1
    assert (tmp_path / "typo2.db").stat().st_size == 0


def test_a_sound_store_is_left_alone(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = Path(url).read_bytes()
    assert main(["recover", url]) == 0
    assert "Nothing is damaged" in capsys.readouterr().out
    assert Path(url).read_bytes() == before
