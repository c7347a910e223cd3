"""Every `pegboard …` that the documentation shows is a command that there is."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from typer.core import TyperCommand, TyperGroup

from pegboard.cli.entry.command_table import COMMANDS
from pegboard.cli.root import root_group

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for page in [*ROOT.glob("README*.md"), ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]
    # What was decided stays as it was written.
    if "decisions" not in page.parts
)
BLOCK = re.compile(r"^```(?:text|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
PROMPT = re.compile(r"^(?:\$ )?(?:[A-Z_]+=\S+ )*(?:\.venv/bin/)?pegboard (.*)$", re.MULTILINE)
INLINE = re.compile(r"`(?:[A-Z_]+=\S+ )?(?:\.venv/bin/)?pegboard ([^`]*)`")
EVERYWHERE = {"--help", "-h", "--debug"}
BEFORE_A_COMMAND = {"--version", "--install-completion", "--show-completion", *EVERYWHERE}


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def commands_in(page: Path) -> Iterator[list[str]]:
    text = page.read_text("utf-8")
    shown = [line for block in BLOCK.findall(text) for line in PROMPT.findall(block)]
    for line in [*shown, *INLINE.findall(FENCE.sub("", text))]:
        yield shlex.split(" ".join(line.split()), comments=True)


@cache
def command_named(name: str) -> TyperCommand | TyperGroup:
    found = root_group([name]).commands[name]
    assert isinstance(found, TyperCommand | TyperGroup)
    return found


@pytest.mark.parametrize("page", [page for page in PAGES if any(commands_in(page))], ids=name_of)
def test_commands_that_are_shown_exist(page: Path) -> None:
    for words in commands_in(page):
        assert problem_with(words) is None, f"pegboard {shlex.join(words)}"


def problem_with(words: list[str]) -> str | None:
    name, *rest = words
    if name.startswith("-") or name == "COMMAND":
        return None if {name} <= {*BEFORE_A_COMMAND, "COMMAND"} else f"no option {name}"
    if name not in COMMANDS:
        return f"no command {name}"
    command = command_named(name)
    if isinstance(command, TyperGroup) and rest and re.fullmatch(r"[a-z-]+", rest[0]):
        if rest[0] not in command.commands:
            return f"no command {name} {rest[0]}"
        inner = command.commands[rest.pop(0)]
        assert isinstance(inner, TyperCommand)
        command = inner
    known = {option for it in command.params for option in (*it.opts, *it.secondary_opts)}
    # What stands behind `--` is somebody else's.
    own = rest[: rest.index("--")] if "--" in rest else rest
    said = {word.partition("=")[0] for word in own if re.match(r"--?[a-z]", word)}
    unknown = said - known - EVERYWHERE
    return f"no option {', '.join(sorted(unknown))}" if unknown else None


def test_a_command_that_there_is_not_is_noticed() -> None:
    assert problem_with(["serve", "--prot", "80"]) == "no option --prot"
    assert problem_with(["store", "burn"]) == "no command store burn"
    assert problem_with(["fly"]) == "no command fly"
    assert problem_with(["add", "x", "--", "npx", "--yes-please"]) is None
