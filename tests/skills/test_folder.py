import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from pegboard.skills import SkillFolder, digest_of
from pegboard.skills import folder as folder_module

UNIX = pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")


@pytest.fixture(autouse=True)
def look_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_module, "LOOK_AGAIN", 0.0)
    monkeypatch.setattr(folder_module, "_SHARE", 0.0)


def write(
    root: Path, place: str, front: str | None = None, *, files: Mapping[str, bytes] | None = None
) -> Path:
    home = root / place
    home.mkdir(parents=True, exist_ok=True)
    name = place.rpartition("/")[2]
    front = f"name: {name}\ndescription: About {name}" if front is None else front
    (home / "SKILL.md").write_text(f"---\n{front}\n---\n", "utf-8")
    for path, content in (files or {}).items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_bytes(content)
    return home


def reasons(folder: SkillFolder) -> list[str]:
    folder.skills()
    return list(map(str, folder.problems))


def test_every_folder_with_a_skill_md_is_a_skill(tmp_path: Path) -> None:
    write(tmp_path, "git", files={"refs/A b.md": b"hi", ".git/config": b"", "x.png": b"\xff\x00"})
    write(tmp_path, "acme/refunds")
    folder = SkillFolder(tmp_path)
    refunds, git = folder.skills().values()
    assert (refunds.uri, refunds.name) == ("skill://acme/refunds/SKILL.md", "refunds")
    assert git.files is not None
    assert list(git.files) == [
        "skill://git/SKILL.md",
        "skill://git/refs/A%20b.md",
        "skill://git/x.png",
    ]
    found = folder.read("skill://git/refs/A%20b.md")
    assert found is not None
    assert found[1] == b"hi"
    assert git.files["skill://git/x.png"].digest == digest_of(b"\xff\x00")
    assert folder.problems == ()


def test_changes_are_noticed(tmp_path: Path) -> None:
    home = write(tmp_path, "git", files={"A.md": b"one"})
    folder = SkillFolder(tmp_path)
    [before] = folder.skills().values()
    assert folder.skills()[before.uri] is before
    (home / "A.md").write_bytes(b"two!")
    (home / "B.md").write_bytes(b"new")
    write(tmp_path, "other")
    after = folder.skills()
    assert after["skill://git/SKILL.md"].files != before.files
    assert "skill://other/SKILL.md" in after
    (home / "SKILL.md").unlink()
    assert list(folder.skills()) == ["skill://other/SKILL.md"]
    assert folder.read("skill://git/A.md") is None


def test_a_file_that_changes_between_list_and_read_is_read_with_its_new_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "LOOK_AGAIN", 1000.0)
    home = write(tmp_path, "git", files={"A.md": b"one"})
    folder = SkillFolder(tmp_path)
    folder.skills()
    (home / "A.md").write_bytes(b"changed")
    found = folder.read("skill://git/A.md")
    assert found is not None
    skill, content = found
    assert content == b"changed"
    assert skill.files is not None
    assert skill.files["skill://git/A.md"].digest == digest_of(content)


@UNIX
def test_nothing_is_read_through_a_symbolic_link(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    write(secret, "stolen", files={"S.md": b"secret"})
    root = tmp_path / "skills"
    home = write(root, "git", files={"A.md": b"one"})
    (home / "link.md").symlink_to(secret / "stolen/S.md")
    (home / "folder").symlink_to(secret)
    (root / "stolen").symlink_to(secret / "stolen")
    (root / "loop").symlink_to(root)
    folder = SkillFolder(root)
    assert list(folder.skills()) == ["skill://git/SKILL.md"]
    assert len(folder.problems) == 4
    assert all("symbolic link" in it for it in reasons(folder))
    # A file that becomes a link after the look is not followed, either.
    (home / "A.md").unlink()
    (home / "A.md").symlink_to(secret / "stolen/S.md")
    assert folder.read("skill://git/A.md") is None
    (root / "git").rename(root / "was")
    (root / "git").symlink_to(secret / "stolen")
    assert folder.read("skill://git/SKILL.md") is None


@UNIX
def test_the_folder_itself_may_be_a_link_and_a_pipe_is_no_file(tmp_path: Path) -> None:
    home = write(tmp_path / "real", "git")
    os.mkfifo(home / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    folder = SkillFolder(tmp_path / "link")
    [skill] = folder.skills().values()
    assert list(skill.files or ()) == ["skill://git/SKILL.md"]


def test_no_uri_leads_out_of_the_folder(tmp_path: Path) -> None:
    write(tmp_path / "skills", "git")
    (tmp_path / "secret.md").write_text("secret", "utf-8")
    folder = SkillFolder(tmp_path / "skills")
    for uri in (
        "skill://git/../../secret.md",
        "skill://../secret.md",
        "skill://git/%2e%2e/%2e%2e/secret.md",
        f"skill://{tmp_path}/secret.md",
        f"file://{tmp_path}/secret.md",
        "skill://git",
        "",
    ):
        assert folder.read(uri) is None


BAD = {
    "another name": ("name: other\ndescription: x", "rename the folder"),
    "a bad name": ("name: Bad_Name\ndescription: x", "lower-case"),
    "no description": ("name: bad", "description"),
    "no yaml": ("name: [", "not valid YAML in line"),
    "an alias": ("name: bad\ndescription: x\na: &b c\nd: *b", "alias"),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_broken_skill_is_reported_with_a_remedy_and_the_others_are_served(
    tmp_path: Path, bad: str
) -> None:
    front, reason = BAD[bad]
    write(tmp_path, "bad", front)
    write(tmp_path, "good")
    folder = SkillFolder(tmp_path)
    assert list(folder.skills()) == ["skill://good/SKILL.md"]
    [problem] = folder.problems
    assert problem.place == "bad"
    assert reason in problem.reason


@pytest.mark.skipif(sys.platform != "linux", reason="others have no such names")
def test_names_that_are_not_utf_8_are_left_out(tmp_path: Path) -> None:
    home = os.fsencode(write(tmp_path, "good"))
    Path(os.fsdecode(home + b"/\xff.md")).write_bytes(b"")
    write(tmp_path, os.fsdecode(b"\xfe/lost"))
    folder = SkillFolder(tmp_path)
    [skill] = folder.skills().values()
    assert skill.name == "good"
    words = [it.encode().decode() for it in reasons(folder)]
    assert words == [rf"{it}: its name is not UTF-8; rename it." for it in WRONG]


WRONG = (r"\udcfe", r"good/\udcff.md")


def test_an_unknown_uri_causes_no_further_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_module, "LOOK_AGAIN", 3600.0)
    write(tmp_path, "good")
    folder = SkillFolder(tmp_path)
    assert folder.read("skill://late/SKILL.md") is None
    write(tmp_path, "late")
    assert folder.read("skill://late/SKILL.md") is None
    assert folder.read("skill://good/late.md") is None
    assert list(folder.skills()) == ["skill://good/SKILL.md"]


def test_sizes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "many", files={f"{it}.md": b"" for it in range(512)})
    with (write(tmp_path, "large") / "big.bin").open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    with (write(tmp_path, "long") / "SKILL.md").open("ab") as file:
        file.truncate(2 * 1024 * 1024)
    write(tmp_path, "a/b/c/d/e/f/g/h/i/j/k/l/m/deep")
    folder = SkillFolder(tmp_path)
    assert folder.skills() == {}
    assert {it.place for it in folder.problems} == {"many", "large", "long"}
    monkeypatch.setattr(folder_module, "MOST_SKILLS", 3)
    for number in range(5):
        write(tmp_path / "more", f"s{number}")
    few = SkillFolder(tmp_path / "more")
    assert len(few.skills()) == 3
    assert "first 3 skills" in reasons(few)[0]


def test_a_missing_folder_is_a_problem_and_no_error(tmp_path: Path) -> None:
    folder = SkillFolder(tmp_path / "none")
    assert folder.skills() == {}
    assert "make it" in reasons(folder)[0]
