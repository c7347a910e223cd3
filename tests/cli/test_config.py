"""`pegboard config`."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from pegboard.cli.main import main
from pegboard.config import config_schema
from tests.cli.handy import Home, Terminal
from tests.skills.test_folder import write

Run = Callable[..., tuple[int, str, str]]
CANARY = "sk-proj-4f9aB7cD2eF8gH1iJ3kL5mN6"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "APPDATA", "LOCALAPPDATA"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("PEGBOARD_CONFIG", raising=False)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


@pytest.fixture
def run(home: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def running(*words: str) -> tuple[int, str, str]:
        code = main(["config", *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return running


def test_without_a_file_the_places_are_listed_and_what_makes_one(run: Run) -> None:
    code, out, told = run("path")
    assert (code, out.count("does not exist")) == (0, 3)
    assert "`pegboard import`" in told
    assert [it["used"] for it in json.loads(run("path", "--json")[1])] == [False] * 3


def test_the_first_file_is_used_and_the_others_are_named(home: Path, run: Run) -> None:
    for folder in (home / "project", home / "pegboard"):
        folder.mkdir(exist_ok=True)
        (folder / "mcp.json").write_text("{}", encoding="utf-8")
    found = json.loads(run("path", "--json")[1])
    assert [(it["origin"], it["state"], it["used"]) for it in found] == [
        ("project", "used", True),
        ("project", "does not exist", False),
        ("user", "not read", False),
    ]
    code, out, told = run("path")
    assert (code, told) == (0, "")
    assert out.splitlines()[1].split()[:2] == [str(home / "project" / "mcp.json"), "used"]


def test_a_named_file_that_is_not_there_is_an_error(
    home: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, told = run("path", "--config", "gone.json")
    assert (code, "gone.json" in out, "does not exist" in told) == (3, True, True)
    (home / "project" / "mcp.json").write_text("{}", encoding="utf-8")
    found = json.loads(run("path", "--json", "--config", "gone.json")[1])
    assert [it["used"] for it in found] == [False] * 4
    assert found[1]["state"] == "not read"
    monkeypatch.setenv("PEGBOARD_CONFIG", str(home))
    code, out, told = run("path")
    assert (code, "is a directory" in out, "PEGBOARD_CONFIG" in told) == (1, True, True)


def test_every_problem_is_named_with_its_line_and_without_its_secret(home: Path, run: Run) -> None:
    text = f"""{{
      "mcpServers": {{
        "a": {{"command": "npx", "agrs": ["x"]}},
        "b": {{"args": ["no command"]}},
        "c": {{"url": "https://a.example", "headers": {{"Authorization": "Bearer {CANARY}"}}}},
        "d": {{"command": "run", "env": {{"TOKEN": "${{NOBODY_SET_THIS}}"}}}}
      }},
      "gateway": {{"auht": {{}}}}
    }}"""
    path = home / "mcp.json"
    path.write_text(text, encoding="utf-8")
    code, out, told = run("check", "--config", str(path))
    assert (code, told) == (1, "")
    for line, word in ((3, "agrs"), (4, "'b'"), (5, "Authorization"), (6, "NOBODY_SET_THIS")):
        assert any(it.startswith(f"{path}:{line}:") and word in it for it in out.splitlines()), out
    assert "auht" in out
    assert CANARY not in out
    code, out, _ = run("check", "--config", str(path), "--json")
    problems = json.loads(out)
    assert code == 1
    assert len(problems) >= 5
    assert {it["server"] for it in problems} >= {"a", "b", "c", "d"}
    assert {it["file"] for it in problems} == {str(path)}
    assert CANARY not in out


def test_a_sound_file_is_praised_on_standard_error(home: Path, run: Run) -> None:
    path = home / "mcp.json"
    path.write_text('{"mcpServers": {"a": {"command": "npx", "args": ["x"]}}}', encoding="utf-8")
    assert run("check", "--config", str(path)) == (
        0,
        "",
        f"{path} has no problems: 1 server.\n",
    )
    assert run("check", "--config", str(path), "--json")[:2] == (0, "[]\n")


@pytest.mark.parametrize("text", ["{", "5", "\x00"])
def test_a_file_that_is_no_configuration_is_a_problem_too(text: str, home: Path, run: Run) -> None:
    path = home / "mcp.json"
    path.write_text(text, encoding="utf-8")
    code, out, _ = run("check", "--config", str(path), "--json")
    assert code == 1
    assert json.loads(out)[0]["file"] == str(path)


def test_no_file_to_check_is_told_by_the_exit_code(run: Run) -> None:
    code, out, told = run("check")
    assert (code, out, "pegboard config path" in told) == (3, "", True)
    assert run("check", "--json")[:2] == (3, "[]\n")


def test_the_schema_is_json(run: Run) -> None:
    assert json.loads(run("schema")[1]) == config_schema()


def test_on_a_narrow_terminal_a_file_is_named_whole(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with Terminal(home, ["config", "path"], COLUMNS="40") as terminal:
        assert terminal.end() == 0
    for place in ("mcp.json", "config/pegboard/mcp.json"):
        assert f"{tmp_path / place}" in terminal.shown


def test_a_broken_skill_is_a_warning_with_a_remedy(home: Path, run: Run) -> None:
    project = home / "project"
    write(project / "skills", "bad", "name: [")
    write(project / "skills", "good")
    (project / "mcp.json").write_text('{"mcpServers": {}, "skills": "skills"}', encoding="utf-8")
    code, out, _ = run("check", "--json")
    [problem] = json.loads(out)
    assert (code, problem["severity"]) == (1, "warning")
    assert "bad: its front matter is not valid YAML in line 2" in problem["message"]
    write(project / "skills", "bad")
    assert run("check")[0] == 0
