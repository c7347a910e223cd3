"""What commands say."""

import argparse

import pytest

from pegboard.cli import main as command
from pegboard.cli.wording import counted, sentence


def test_capital_letters_stay() -> None:
    assert sentence("serve all tools at one MCP endpoint") == "Serve all tools at one MCP endpoint."


def test_one_is_one() -> None:
    said = [counted(number, "tool") for number in (0, 1, 2, 1000)]
    assert said == ["0 tools", "1 tool", "2 tools", "1,000 tools"]


def test_an_interrupted_command_ends_without_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(options: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("pegboard.cli.serve._run", interrupted)
    assert command.main(["serve"]) == 130
