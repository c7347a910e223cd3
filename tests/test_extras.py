"""What an error says about a missing extra can be typed as it stands."""

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
    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return origin or None

    monkeypatch.setattr("importlib.metadata.distribution", lambda _: Installed())
    assert extras.install_extra("otel") == f"pip install '{said}'"
    assert extras.install_tool() == f"uv tool install '{said.replace('[otel]', '')}'"
