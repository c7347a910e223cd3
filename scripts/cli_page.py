"""Write the reference page of the command line: every command, its options, its JSON."""
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
    "find": "find:entry_as_json",
    "outdated": "outdated:outdated_as_json",
    "list": "list_servers:server_as_json",
    "status": "status:status_as_json",
    "console": "console:link_as_json",
    "logs": "logs:log_as_json",
    "search": "search:hit_as_json",
    "show": "show:tool_as_json",
    "call": "catalogue.calling:result_as_json",
    "tools": "tools:tool_as_json",
    "skills list": "skills:skill_as_json",
    "skills show": "skills:skill_as_json",
    "categories": "categories:category_as_json",
    "cost": "cost:cost_as_json",
    "calls": "calls:call_as_json",
    "usage": "usage:usage_as_json",
    "tasks list": "tasks:task_as_json",
    "tasks show": "tasks:task_as_json",
    "tasks cancel": "tasks:task_as_json",
    "keys create": "keys:issued_as_json",
    "keys list": "keys:key_as_json",
    "keys revoke": "keys:key_as_json",
    "keys rotate": "keys:issued_as_json",
    "store info": "store:store_as_json",
    "service status": "service:state_as_json",
    "config path": "config:places_as_json",
    "config check": "config:problem_as_json",
    "eval search": "evaluate:evaluation_as_json",
}
"""What makes the JSON of each command that has `--json`: its docstring says what is in it."""

_INTRO = """\
# The command line

<!-- Written by `python -m scripts.reference` from the commands themselves. -->

`pegboard` lists its commands. `pegboard COMMAND --help` shows what this page says about one of them.

| | |
| --- | --- |
| results | Commands print results, and nothing else, to standard output. Advice, questions, progress and errors go to standard error. |
| `--json` | Commands that list or report print one JSON document: an array for a listing, an object for one thing. New fields may be added. The changelog says when a field is renamed or removed. |
| colours | Commands use colours on a terminal, not in pipes and files. `NO_COLOR=1` turns them off. |
| errors | An error is one sentence that begins with `error:`. `--debug`, anywhere before a `--`, or `PEGBOARD_DEBUG=1` shows the traceback. |
| configuration | `--config` names the configuration file. Without it, Pegboard uses the first of `PEGBOARD_CONFIG`, `./mcp.json`, `./.pegboard/mcp.json` and your own file. |
| store | `--store` names the store. Without it, Pegboard uses `PEGBOARD_STORE`, or your own store. |

Exit codes:

| code | means |
| --- | --- |
| 0 | The command succeeded. |
| 1 | The command failed, or found a problem; standard error says which. Also, without a message, the reader of a pipe closed it, as `head` does. |
| 2 | The command line is wrong. |
| 3 | There is no such tool, server, key or file, there is no configuration, or the search found nothing. |
| 130 | You pressed Ctrl-C. `serve` shuts down cleanly then, and returns 0. |

`pegboard --install-completion` installs completion for your shell, or for the shell that you name: `bash`, `zsh`, `fish`,
`powershell` or `pwsh`. The Tab key then completes commands, options and choices, and the names of your servers, your keys and
the cached tools. `pegboard --show-completion` prints the script instead. `pegboard --version` prints the version.
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
    # Types and ranges say nothing to the user.
    name = re.sub(r" <(list\[)?(str|int|float)\]?>", "", declaration).strip()
    about = " ".join(help_text.split()).replace("[required]", "")
    about = re.sub(r"\[default: ([^;\]]*)[^\]]*\]", r"(\1)", about)
    about = re.sub(r"\[[^\]]*x[^\]]*\]", "", about).strip()
    return f"- `{name}`: {_markdown(about)}" if about else f"- `{name}`"


def _json(source: str) -> str:
    module, _, name = source.partition(":")
    place = f"pegboard.cli.{module}" if "." in module else f"pegboard.cli.commands.{module}"
    said = inspect.getdoc(getattr(import_module(place), name)) or ""
    first, *rest = [" ".join(it.split()) for it in said.split("\n\n")]
    # The rest of the sentence says whether it is one object or an array.
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
