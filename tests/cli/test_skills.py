"""`pegboard skills`: list the skills of servers and of the folder, and show one."""

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from itertools import takewhile
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
    with served(home):
        yield home


@contextmanager
def served(home: Home) -> Generator[list[str]]:
    """Give what a gateway printed until it was there, while it runs."""
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
            yield [*takewhile(lambda line: "/mcp-full" not in line, process.stderr)]
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


def test_a_search_finds_skills_before_any_client_came(home: Home) -> None:
    with served(home) as printed:
        [found] = json.loads(home.main("search", "refunds", "--json").stdout)
    assert any(line.split()[:1] == ["skills"] for line in printed)
    assert not any("No server is configured" in line for line in printed)
    assert found["name"] == "skill:acme/refunds"


def test_what_there_is_not_is_an_error(place: Home) -> None:
    ran = place.main("skills", "show", "none")
    assert ran.returncode != 0
    assert "There is no skill 'none'" in ran.stderr
    ran = place.main("skills", "show", "refunds", "--path", "none.md")
    assert ran.returncode != 0
    assert "'refs/A.md'" in ran.stderr


def test_each_failure_is_told_once_and_not_as_in_a_log(home: Home) -> None:
    unset = {"command": "x", "env": {"KEY": "${PEGBOARD_TEST_UNSET}"}}
    home.configure({"broken": {"command": "no-such-command"}, "unset": unset}, skills="our skills")
    ran = home.main("skills", "list")
    assert ran.stdout.splitlines()[1:] == LINES.splitlines()
    unset_said, broken_said = ran.stderr.splitlines()
    assert "PEGBOARD_TEST_UNSET is not set" in unset_said
    assert broken_said.startswith("Server 'broken' cannot be started")


def test_without_a_configuration_there_are_no_skills(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "mcp.json").unlink()
    ran = home.main("skills", "list")
    assert (ran.returncode, len(ran.stderr.splitlines())) == (NOT_FOUND, 1)


def test_without_skills_the_setting_is_named(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.configure({})
    ran = home.main("skills", "list")
    assert (ran.returncode, ran.stdout) == (NOT_FOUND, "")
    assert '"skills": "./skills"' in ran.stderr
    assert json.loads(home.main("skills", "list", "--json").stdout) == []
