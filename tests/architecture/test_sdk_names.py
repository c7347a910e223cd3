"""The bench counts each private name of the MCP SDK that `src` uses, and no name of our own."""

from pathlib import Path

import pytest
from bench.sdk_names import lines_in, private_sdk_names


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import mcp.shared._otel", {"mcp.shared._otel"}),
        ("from mcp.client._transport import TransportStreams", {"mcp.client._transport"}),
        ("from mcp.client.session import _nothing", {"mcp.client.session._nothing"}),
        ("def ask(session): return session._dispatcher", {"_dispatcher"}),
        ("class It:\n    async def _perform_authorization(self): ...", {"_perform_authorization"}),
    ],
)
def test_every_use_of_a_private_sdk_name_is_found(
    tmp_path: Path, source: str, found: set[str]
) -> None:
    (tmp_path / "module.py").write_text(source, "utf-8")
    assert private_sdk_names(tmp_path) == found


@pytest.mark.parametrize(
    "source",
    [
        "from mcp.client.session import ClientSession",
        "from typer._click import Context",
        "class It:\n    def __init__(self): self._running = 1\n\ndef read(it): return it._running",
        "class It:\n    def read(self): return self._running",
    ],
)
def test_a_public_name_and_a_private_name_of_ours_are_not_counted(
    tmp_path: Path, source: str
) -> None:
    (tmp_path / "module.py").write_text(source, "utf-8")
    assert private_sdk_names(tmp_path) == set()


def test_the_lines_of_all_modules_in_a_folder_are_counted(tmp_path: Path) -> None:
    (tmp_path / "deeper").mkdir()
    (tmp_path / "one.py").write_text("a\nb\n", "utf-8")
    (tmp_path / "deeper" / "two.py").write_text("c\n", "utf-8")
    (tmp_path / "README.md").write_text("not counted\n", "utf-8")
    assert lines_in(tmp_path) == 3
