"""The page about the command line; `test_generated_pages.py` says when it is stale."""

from scripts.cli_page import JSON, each_command, page
from typer.core import TyperCommand, TyperGroup, TyperOption

from pegboard.cli.entry.command_table import COMMANDS
from pegboard.cli.root import root_group


def commands() -> dict[str, TyperCommand]:
    root = root_group(COMMANDS)
    found: dict[str, TyperCommand] = {}
    for name, command in root.commands.items():
        assert isinstance(command, TyperCommand | TyperGroup)
        found.update(each_command(command, name))
    return found


def test_every_command_and_option_is_on_the_page() -> None:
    text = page()
    for words, command in commands().items():
        section = text.partition(f"### `pegboard {words}`\n")[2].partition("\n### ")[0]
        assert section, words
        for option in command.params:
            if isinstance(option, TyperOption):
                assert option.opts[-1] in section, (words, option.opts)


def test_every_command_says_what_it_does_and_so_does_every_option() -> None:
    for words, command in commands().items():
        assert command.help, words
        assert all(getattr(it, "help", "") for it in command.params), words


def test_all_json_is_documented() -> None:
    has_json = {
        words
        for words, command in commands().items()
        for it in command.params
        if isinstance(it, TyperOption) and "--json" in it.opts and it.is_flag
    }
    assert has_json == set(JSON)
