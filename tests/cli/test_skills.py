"""`pegboard skills`: list the skills of servers and of the folder, and show one."""

import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from pegboard.cli.exit_codes import NOT_FOUND
from tests.cli.handy import Home
from tests.skills.test_folder import write

LINES = """\
refunds  skill://acme/refunds/SKILL.md  About refunds
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path)
    folder = tmp_path / "our skills"
    write(folder, "acme/refunds", files={"refs/A.md": b"More.\n"})
    write(folder, "broken", "name: [")
    home.configure({}, skills=str(folder))
    return home


@pytest.fixture(params=["alone", "a gateway"])
def place(request: pytest.FixtureRequest, home: Home) -> Generator[Home]:
    """The commands by themselves, and beside a gateway of the same file."""
    if request.param == "alone":
        yield home
        return
    command = [sys.executable, "-m", "pegboard.cli.main", "serve", "--port", "0"]
    with subprocess.Popen(
        command,
        cwd=home.folder,
        env=home.environ,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as process:
        assert process.stderr is not None
        try:
            next(line for line in process.stderr if "/mcp" in line)
            yield home
        finally:
            process.terminate()
            process.stderr.read()


def test_skills_are_listed_and_shown(place: Home) -> None:
    ran = place.main("skills", "list")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[1:] == LINES.splitlines()
    [skill] = json.loads(place.main("skills", "list", "--json").stdout)
    assert skill["frontmatter"] == {"name": "refunds", "description": "About refunds"}
    assert [it["path"] for it in skill["files"]] == ["SKILL.md", "refs/A.md"]
    # A search shows the second one.
    for name in ("refunds", "skill:acme/refunds", "skill://acme/refunds/SKILL.md"):
        assert "About refunds" in place.main("skills", "show", name).stdout
        assert place.main("skills", "show", name, "--path", "refs/A.md").stdout == "More.\n"
        shown = json.loads(place.main("skills", "show", name, "--json").stdout)
        assert shown["uri"] == "skill://acme/refunds/SKILL.md"


def test_what_there_is_not_is_an_error(place: Home) -> None:
    ran = place.main("skills", "show", "none")
    assert ran.returncode != 0
    assert "There is no skill 'none'" in ran.stderr
    ran = place.main("skills", "show", "refunds", "--path", "none.md")
    assert ran.returncode != 0
    assert "'refs/A.md'" in ran.stderr


def test_without_skills_the_setting_is_named(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.configure({})
    ran = home.main("skills", "list")
    assert (ran.returncode, ran.stdout) == (NOT_FOUND, "")
    assert '"skills": "./skills"' in ran.stderr
    assert json.loads(home.main("skills", "list", "--json").stdout) == []
