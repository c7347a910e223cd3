"""`pegboard upgrade-notes`."""

from pathlib import Path

import pytest

from pegboard.cli.commands import upgrade_notes
from pegboard.cli.main import main

Captured = pytest.CaptureFixture[str]
ROOT = Path(__file__).parents[2]


def test_in_a_checkout_the_fragments_are_shown_and_then_the_changelog(capsys: Captured) -> None:
    assert main(["upgrade-notes"]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    fragments = sorted((ROOT / "changelog.d").glob("[0-9]*.md"))
    assert said.out.startswith("## Not released yet\n\n### " if fragments else "## ")
    for fragment in fragments:
        assert fragment.read_text("utf-8").strip() in said.out
    changelog = (ROOT / "src" / "pegboard" / "CHANGELOG.md").read_text("utf-8")
    assert said.out.endswith(changelog)
    assert changelog.startswith("## ")


def test_a_package_shows_what_came_with_it(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upgrade_notes, "_PACKAGE", tmp_path)
    assert main(["upgrade-notes"]) == 0
    assert capsys.readouterr() == ("", "This package contains no notes.\n")
    (tmp_path / "CHANGELOG.md").write_text("## 1.0\n\nFirst.\n", encoding="utf-8")
    assert main(["upgrade-notes"]) == 0
    assert capsys.readouterr().out == "## 1.0\n\nFirst.\n"
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "changelog.d" / "README.md").write_text("How to write one.", encoding="utf-8")
    assert main(["upgrade-notes"]) == 0
    assert capsys.readouterr().out == "## 1.0\n\nFirst.\n"
    for name, text in (("9.fixed.md", "B."), ("10.added.md", "A."), ("+odd.fixed.1.md", "C.")):
        (tmp_path / "changelog.d" / name).write_text(text, encoding="utf-8")
    assert main(["upgrade-notes"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line]
    assert lines == [
        "## Not released yet",
        *("### Added", "A.", "### Fixed", "B.", "C."),
        *("## 1.0", "First."),
    ]
