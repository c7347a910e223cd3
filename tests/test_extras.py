"""What an error says about a missing extra can be typed as it stands."""

import json
import sys
from pathlib import Path

import pytest

from pegboard.errors import extras


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        ("", "pegboard[otel]"),
        ('{"url": "file:///home/me/peg%20board", "dir_info": {}}', "/home/me/peg board[otel]"),
        (
            '{"url": "https://example.org/p.git", "vcs_info": {"vcs": "git", "commit_id": "1"}}',
            "pegboard[otel] @ git+https://example.org/p.git",
        ),
        (
            '{"url": "https://example.org/pegboard.whl", "archive_info": {}}',
            "pegboard[otel] @ https://example.org/pegboard.whl",
        ),
        ("no JSON", "pegboard[otel]"),
    ],
    ids=["index", "folder", "repository", "archive", "odd"],
)
def test_an_extra_is_installed_from_where_pegboard_came_from(
    origin: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(origin, monkeypatch)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: "there")
    assert extras.install_extra("otel") == f"pip install '{said}'"
    assert extras.install_tool() == f"uv tool install '{said.replace('[otel]', '')}'"


def test_what_uv_has_made_is_added_to_by_uv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("", monkeypatch)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr(sys, "executable", "/my env/bin/python")
    command = "uv pip install --python '/my env/bin/python'"
    assert extras.install_extra("otel") == f"{command} 'pegboard[otel]'"
    own = tmp_path / ".tools" / "bin" / "uv"
    own.parent.mkdir(parents=True)
    own.touch()
    origin = {"url": tmp_path.as_uri(), "dir_info": {"editable": True}}
    install(json.dumps(origin), monkeypatch)
    command = f"{own.parent}/{command} --editable '{tmp_path}[otel]'"
    assert extras.install_extra("otel") == command


def install(origin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return origin or None

    monkeypatch.setattr("importlib.metadata.distribution", lambda _: Installed())
