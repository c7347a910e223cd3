"""What commands say."""

from pegboard.cli.terminal.plain_text import counted, placed, sentence
from pegboard.config import Problem


def test_capital_letters_stay() -> None:
    assert sentence("serve all tools at one MCP endpoint") == "Serve all tools at one MCP endpoint."


def test_one_is_one() -> None:
    said = [counted(number, "tool") for number in (0, 1, 2, 1000)]
    assert said == ["0 tools", "1 tool", "2 tools", "1,000 tools"]


def test_an_editor_finds_the_place_of_a_problem() -> None:
    known = Problem(message="Odd.", line=24, column=20)
    assert placed(known, "mcp.json") == "mcp.json:24:20: error: Odd."
    assert placed(Problem(message="Odd."), "mcp.json") == "mcp.json: error: Odd."
    assert placed(known, None) == "24:20: error: Odd."
