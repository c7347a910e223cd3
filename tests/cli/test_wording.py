"""What commands say."""

from pegboard.cli.wording import counted, sentence


def test_capital_letters_stay() -> None:
    assert sentence("serve all tools at one MCP endpoint") == "Serve all tools at one MCP endpoint."


def test_one_is_one() -> None:
    said = [counted(number, "tool") for number in (0, 1, 2, 1000)]
    assert said == ["0 tools", "1 tool", "2 tools", "1,000 tools"]
