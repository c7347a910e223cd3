"""The page with every command: what it does, its options, its JSON."""
# ruff: noqa: E501 - rows of tables are lines

import inspect
import re
from collections.abc import Iterator
from importlib import import_module

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from pegboard.cli.entry.command_table import COMMANDS, HEADINGS
from pegboard.cli.root import root_group

__all__ = ["JSON", "each_command", "page"]

JSON = {
    "import": "import_servers:plan_as_json",
    "doctor": "doctor:report_as_json",
    "list": "list_servers:server_as_json",
    "status": "status:standing_as_json",
    "search": "search:hit_as_json",
    "show": "show:tool_as_json",
    "tools": "tools:tool_as_json",
    "categories": "categories:category_as_json",
    "cost": "cost:cost_as_json",
    "usage": "usage:usage_as_json",
    "keys create": "keys:issued_as_json",
    "keys list": "keys:key_as_json",
    "keys revoke": "keys:key_as_json",
    "keys rotate": "keys:issued_as_json",
    "store info": "store:store_as_json",
    "config path": "config:places_as_json",
    "config check": "config:problem_as_json",
    "eval search": "evaluate:evaluation_as_json",
}
"""What makes the JSON of each command that has `--json`: its docstring says what is in it."""

_INTRO = """\
# The command line

<!-- Written by `python -m scripts.reference` from the commands themselves. -->

`pegboard` lists its commands, and `pegboard COMMAND --help` says what is on this page about one of them.

| | |
| --- | --- |
| results | on standard output, and nothing else there; advice, questions, progress and errors are on standard error |
| `--json` | of listings and reports: prints one JSON document (the one of `call` takes the arguments instead): an array for a listing, an object for one thing. Fields may be added to it; none is renamed or removed without a note in the changelog |
| colours | where a person looks; `NO_COLOR=1` leaves them out, as do pipes and files |
| errors | one sentence that begins with `error:`; `--debug` anywhere before a `--`, or `PEGBOARD_DEBUG=1`, shows the traceback |
| files | `--config` names the servers (else `PEGBOARD_CONFIG`, `./mcp.json`, `./.pegboard/mcp.json`, your own), `--store` what is kept (else `PEGBOARD_STORE`, your own) |

Exit codes:

| code | means |
| --- | --- |
| 0 | it was done |
| 1 | it was not done, or something is wrong; standard error says what. Also, without a word, where the reader of a pipe has read enough, as `head` does |
| 2 | the command line itself is wrong |
| 3 | there is no such tool, server, key or file, or no configuration, or the search found nothing |
| 130 | somebody pressed Ctrl-C; of `serve`, which ends in good order then, 0 |

The Tab key completes commands, options and choices, and the names of your servers, keys and tools, as far as these are
remembered: `pegboard --install-completion` writes what that takes for your shell (or name one: `bash`, `zsh`, `fish`,
`powershell`, `pwsh`), and `pegboard --show-completion` prints it, to be put where you like. `pegboard --version` prints the
version.
"""


def page() -> str:
    """Return the page."""
    root = root_group(COMMANDS)
    parts = [_INTRO]
    for heading, commands in HEADINGS.items():
        parts.append(f"## {heading}\n")
        for name in commands:
            for words, command in each_command(root.commands[name], name):  # pyright: ignore[reportArgumentType]
                parts += _section(words, command)
    return "\n".join(parts)


def each_command(
    command: TyperCommand | TyperGroup, words: str
) -> Iterator[tuple[str, TyperCommand]]:
    """Give a command, or each of a group, with the words that name it."""
    if isinstance(command, TyperGroup):
        for name, inside in command.commands.items():
            yield from each_command(inside, f"{words} {name}")  # pyright: ignore[reportArgumentType]
    else:
        yield words, command


def _section(words: str, command: TyperCommand) -> Iterator[str]:
    yield f"### `pegboard {words}`\n"
    context = command.context_class(command, info_name=f"pegboard {words}", terminal_width=500)
    usage = " ".join(command.get_usage(context).split()).removeprefix("Usage: ")
    yield f"```text\n{usage}\n```\n"
    yield f"{_markdown(command.help or '')}\n"
    lines = [
        _option(*record)
        for it in command.params
        if isinstance(it, TyperArgument | TyperOption) and (record := it.get_help_record(context))
    ]
    if lines:
        yield "\n".join(lines) + "\n"
    source = JSON.get(words)
    if source is not None:
        yield f"**`--json`**: {_json(source)}\n"


def _option(declaration: str, help_text: str) -> str:
    # Types and ranges that say nothing to whoever types.
    name = re.sub(r" <(list\[)?(str|int|float)\]?>", "", declaration).strip()
    about = " ".join(help_text.split()).replace("[required]", "")
    about = re.sub(r"\[default: ([^;\]]*)[^\]]*\]", r"(\1)", about)
    about = re.sub(r"\[[^\]]*x[^\]]*\]", "", about).strip()
    return f"- `{name}`: {_markdown(about)}" if about else f"- `{name}`"


def _json(source: str) -> str:
    module, _, name = source.partition(":")
    said = inspect.getdoc(getattr(import_module(f"pegboard.cli.commands.{module}"), name)) or ""
    first, *rest = [" ".join(it.split()) for it in said.split("\n\n")]
    # There it says whether that is all, or one of an array.
    shape = re.split(": |which is ", first, maxsplit=1)[-1]
    return _markdown(" ".join([shape[:1].upper() + shape[1:], *rest]).replace("Fields: ", ""))


def _markdown(text: str) -> str:
    paragraphs = [" ".join(it.split()) for it in text.split("\n\n")]
    return "\n\n".join(map(_paragraph, paragraphs))


def _paragraph(text: str) -> str:
    if text.startswith("pegboard "):
        # An example.
        return f"```text\n{text}\n```"
    # Angle brackets and stars are not for Markdown to read, except in code.
    return "".join(
        part if part.startswith("`") else re.sub(r"([*<>_])", r"\\\1", part)
        for part in re.split(r"(`[^`]*`)", text.replace("``", "`"))
    )
